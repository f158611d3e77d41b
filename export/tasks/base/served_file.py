"""Answer rows of strings with a task's `.tflite` file, as the SavedModel of the same task does.

A `ServedFile` takes rows of strings and the outputs of a file, and gives columns: the names and values of the
SavedModel's signatures. `export/server` turns them into answers to requests. Only NumPy is needed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from export.tasks.base.reader import Reader
from export.tasks.base.settings import Setting
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.text.tokenized_texts import tokenize_texts

Columns = dict[str, list[Any]]

FORMS = {"texts": ("text",), "pairs": ("text", "pair"), "questions": ("question", "context")}


class ServedFile:
    """How a server answers with the file of one task; a subclass says what differs from texts and plain outputs.

    Args:
        reader: The reader of the file.

    Example:
        ```python
        class ServedTones(export.ServedFile):
            def columns(self, outputs, data, inputs):
                answers = self.reader.answers(outputs, data, inputs)
                return {"tone": answers, "truncated": self.truncated(data, inputs)}


        export.register_export(export.ExportedTask(name="tone", reader=ToneReader, served_file=ServedTones))
        ```
    """

    # More signatures for the same strings, with the options of the runtime's `outputs` for each.
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    # The columns with a value for each token, and what shorter rows are filled up with.
    fillers: ClassVar[Mapping[str, Any]] = {}

    # The options of the task's `predict` that a request may have, with their allowed values.
    options: ClassVar[Mapping[str, Setting]] = {}

    # The column with the vector of a text; `None` where there is none.
    vector: ClassVar[str | None] = None

    def __init__(self, reader: Reader):
        self.reader: Any = reader  # with the attributes of its class

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms of a row, keys of `FORMS`; the first is that of `serving_default`."""
        return ("texts",)

    @property
    def ranks(self) -> str | None:
        """The request that `ranked` answers: `"classify"`, `"regress"` or none."""
        return None

    def inputs(self, rows: Sequence[tuple[str, ...]]) -> list[Any]:
        """Turn rows of strings into inputs of the reader."""
        return [row[0] if len(row) == 1 else row for row in rows]

    def prepare(self, inputs: list[Any]) -> PreparedData:
        """Turn inputs into rows of tokens; those that the reader makes, unless the SavedModel makes others."""
        return self.reader.prepare(inputs)

    def columns(self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]) -> Columns:
        """The answers by name, with a value for each input. By default the outputs of each input's first row.

        Args:
            outputs: The outputs of the file, as `Reader.answers` takes them.
            data: The rows, from `prepare`.
            inputs: The inputs that the rows were made of.
        """
        first = np.searchsorted(data.owners, np.arange(len(inputs)))
        parts = {name: self.by_row(value, data) for name, value in outputs.items() if name in self.reader.token_outputs}
        whole = {name: list(value) for name, value in outputs.items() if name not in parts}
        answers = {name: [values[row] for row in first] for name, values in {**whole, **parts}.items()}
        return {**answers, "truncated": self.truncated(data, inputs)}

    def ranked(self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]) -> list[Any]:
        """The answers to a Classify or Regress request: all labels with their scores, or a number."""
        raise NotImplementedError(f"{type(self).__name__} has ranks={self.ranks!r} and no method ranked.")

    def truncated(self, data: Any, inputs: list[Any]) -> list[bool]:
        """Whether each input was cut. Only rows that are full are looked at again."""
        cut = np.zeros(len(inputs), bool)
        if self.reader.settings.get("long_texts") != "windows":
            full = data.owners[data.tokenized.lengths == self.reader.sequence_length]
            cut[full] = [self.tokens_of(inputs[index]) > self.reader.sequence_length for index in full]
        return cut.tolist()

    def tokens_of(self, given: Any) -> int:
        """The tokens of an input that is not cut, special ones included."""
        sides = [[side] for side in ((given,) if isinstance(given, str) else given)]
        return int(tokenize_texts(self.reader.tokenizer, *sides).lengths[0])

    def read_input(self, given: Any) -> Any:
        """Turn a JSON value into an input of `export.load`'s call; raise an error for what no task takes.

        Args:
            given: A string; an object with the strings of a row by name; a list of strings; or a string with a list of
                strings, where a text has choices.
        """
        if isinstance(given, dict):
            return self._read_named(given)
        if isinstance(given, list) and len(given) == 2 and _is_string(given[0]) and _is_strings(given[1]):
            return (given[0], given[1])
        if _is_strings(given):
            return tuple(given)
        if _is_string(given):
            return given
        raise TypeError("An input is not a string, a list of strings or an object with strings.")

    def _read_named(self, given: dict[str, Any]) -> Any:
        for form in self.forms:
            if set(given) == set(FORMS[form]):
                row = tuple(given[name] for name in FORMS[form])
                if not all(map(_is_string, row)):
                    raise TypeError(f"An input has other values than strings; expected strings {_names(row)}.")
                return row[0] if len(row) == 1 else row
        expected = " or ".join(_names(FORMS[form]) for form in self.forms)
        raise ValueError(f"An input is an object with other names than expected: {expected}.")

    def by_row(self, values: np.ndarray, data: Any) -> list[np.ndarray]:
        """Split the values of all tokens by row."""
        return np.split(values, np.cumsum(data.tokenized.lengths)[:-1])


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_string, value))


def _names(names: Sequence[str]) -> str:
    return ", ".join(names)
