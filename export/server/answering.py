"""Run rows of strings, or inputs of `export.load`'s call, through an open file.

What is wrong with a text becomes a `RequestError` with status 400; what is wrong with the file stays another error.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import numpy as np

from export.runtime import Runtime
from export.server.limits import RequestError
from export.tasks.base.served_file import Columns, ServedFile


@dataclass(frozen=True)
class Answered:
    """Answers by name for some inputs, and how many tokens each input took."""

    columns: Columns
    tokens: Sequence[int]

    def part(self, begin: int, end: int) -> "Answered":
        """The answers to some of the inputs.

        Example:
            >>> Answered({"score": [1.0, 2.0, 3.0]}, [3, 4, 5]).part(1, 3)
            Answered(columns={'score': [2.0, 3.0]}, tokens=[4, 5])
        """
        return Answered({name: values[begin:end] for name, values in self.columns.items()}, self.tokens[begin:end])


def run_rows(
    runtime: Runtime, served: ServedFile, rows: Sequence[tuple[str, ...]], options: Mapping[str, Any]
) -> Answered:
    """The columns of a Predict request.

    Args:
        runtime: The file.
        served: How its task answers.
        rows: The strings of each row.
        options: Of the runtime's `outputs`, for a task that writes.

    Example:
        >>> run_rows(load("model.tflite"), served, [("a fine film",)], {}).columns["label"]  # doctest: +SKIP
        ['positive']
    """
    with _of_the_client():
        inputs = served.inputs(rows)
        data = served.prepare(inputs)
    return Answered(served.columns(runtime.outputs(data.tokenized, **options), data, inputs), _count(data, inputs))


def run_ranked(runtime: Runtime, served: ServedFile, rows: Sequence[tuple[str, ...]]) -> Answered:
    """The results of a Classify or Regress request, as the column `results`."""
    with _of_the_client():
        inputs = served.inputs(rows)
        data = served.prepare(inputs)
    return Answered({"results": served.ranked(runtime.outputs(data.tokenized), data, inputs)}, _count(data, inputs))


def run_answers(runtime: Any, served: ServedFile, inputs: Sequence[Any], options: Mapping[str, Any]) -> Answered:
    """The answers of `export.load`'s call to inputs, as the column `answers`."""
    inputs, choice = list(inputs), options if served.variants else {}
    with _of_the_client():
        if choice:
            runtime.check_choice(dict(choice))
        data = served.reader.prepare(inputs)
    outputs = runtime.outputs(data.tokenized, **choice)
    answers = served.reader.answers(outputs, data, inputs, **({} if served.variants else options))
    return Answered({"answers": list(answers)}, _count(data, inputs))


def join(parts: Sequence[Answered], served: ServedFile) -> Answered:
    """Put the answers to the chunks of a request together; rows of tokens are filled up to one width.

    Example:
        >>> join([Answered({"score": [1.0]}, [3]), Answered({"score": [2.0]}, [4])], served)  # doctest: +SKIP
        Answered(columns={'score': [1.0, 2.0]}, tokens=[3, 4])
    """
    if len(parts) == 1 and not served.fillers:
        return parts[0]
    columns = {name: [value for part in parts for value in part.columns[name]] for name in parts[0].columns}
    for name, filler in served.fillers.items():
        if name in columns:
            columns[name] = _filled(columns[name], filler)
    return Answered(columns, [count for part in parts for count in part.tokens])


def _filled(rows: list[Any], filler: Any) -> list[Any]:
    width = max(map(len, rows))
    return [row if len(row) == width else _fill(row, filler, width) for row in rows]


def _fill(row: Any, filler: Any, width: int) -> Any:
    if not isinstance(row, np.ndarray):
        return [*row, *[filler] * (width - len(row))]
    return np.concatenate([row, np.full((width - len(row), *row.shape[1:]), filler, row.dtype)])


def plain(answer: Any) -> Any:
    """An answer as values for JSON.

    Example:
        >>> plain((1, "a"))
        [1, 'a']
    """
    if isinstance(answer, list | tuple):
        return [plain(part) for part in answer]
    if is_dataclass(answer) and not isinstance(answer, type):
        return asdict(answer)
    return answer


def _count(data: Any, inputs: Sequence[Any]) -> list[int]:
    counts: list[int] = np.bincount(data.owners, data.tokenized.lengths, len(inputs)).astype(int).tolist()
    return counts


@contextmanager
def _of_the_client() -> Iterator[None]:
    """What readers say of an input is for the client."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise RequestError(400, str(error)) from None
