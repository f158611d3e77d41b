"""Turn inputs of a task into rows of tokens, and outputs of its file into answers, in NumPy.

A `Reader` is made from a tokenizer and the metadata of a file, or from a task before it becomes a file. So the device,
the checks and the calibration read texts in the same way, each with its own tokenizer.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from export.tasks.base.settings import Setting, check_settings, one_of
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.text.tokenized_texts import FlatTokenizer, TokenizedTexts, tokenize_texts


class Reader(ABC):
    """How one task reads: a subclass names the outputs of its file and has `answers`; the rest has a default.

    Args:
        tokenizer: The device's or the graph's.
        sequence_length: The most tokens of a row.
        labels: The names of the classes, in the order of the outputs; `None` if there are none.
        kind: The task's kind, e.g. `"single_label"`, or `None`.
        settings: Other settings of the task. They are checked, because a file may come from anywhere.

    Example:
        ```python
        class ToneReader(export.Reader):
            outputs = ("class_logits",)

            def answers(self, outputs, data, inputs):
                return [self.labels[best] for best in outputs["class_logits"].argmax(axis=-1)]
        ```
    """

    # The outputs that a file must have, and those of them with a value for each token: `[1, T, …]`.
    outputs: ClassVar[tuple[str, ...]]
    token_outputs: ClassVar[tuple[str, ...]] = ()

    # Whether an input is always two strings, so that the second is never a label.
    pairs_alone: ClassVar[bool] = False

    # An input, for timing.
    sample: ClassVar[Any] = "a"

    # The settings of `task.settings()` that the reader uses, with their allowed values.
    expected: ClassVar[Mapping[str, Setting]] = {"long_texts": one_of(None, "cut", "windows")}

    def __init__(
        self,
        tokenizer: FlatTokenizer,
        *,
        sequence_length: int,
        labels: Sequence[str] | None = None,
        kind: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ):
        self.tokenizer, self.sequence_length = tokenizer, sequence_length
        self.labels, self.kind, self.settings = labels, kind, dict(settings or {})
        check_settings(self.settings, self.expected)
        self.check()

    # === Defined by a task ===

    def check(self) -> None:  # noqa: B027  not every task needs one
        """Raise an error if labels, kind and settings do not go together. Each setting is checked already."""

    def prepare(self, inputs: list[Any]) -> PreparedData:
        """Turn inputs into rows of at most `sequence_length` tokens, with the input that each row is of.

        By default texts, or pairs of texts, cut or in windows as the task's `long_texts` says.
        """
        tokenized = tokenize_texts(self.tokenizer, *split_pairs(inputs))
        return cut_or_windows(tokenized, self.sequence_length, self.settings.get("long_texts"))

    @abstractmethod
    def answers(self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any], **options: Any) -> list[Any]:
        """Give the answer to each input from the outputs of its rows.

        Args:
            outputs: `[rows, …]`; those of `token_outputs` are `[tokens, …]`, without padding, row after row.
            data: The rows, from `prepare`.
            inputs: The inputs that the rows were made of.
            options: The options of the task's `predict`.
        """

    def agreement(self, answers: list[Any], others: list[Any]) -> float:
        """The share of answers that are the same, or what `agreement_of` says. By default those that are equal."""
        return float(np.mean([bool(ours == theirs) for ours, theirs in zip(answers, others, strict=True)]))

    @property
    def agreement_of(self) -> str:
        """What `agreement` measures: `"same answers"`, `"mean cosine"` or `"correlation"`."""
        return "same answers"

    def inputs(self, *given: Any) -> tuple[list[Any], bool]:
        """Turn the arguments of a call into a list of inputs, and say whether it was one input."""
        (texts,) = given
        return ([texts], True) if isinstance(texts, str) else (list(texts), False)

    @classmethod
    def from_line(cls, line: str) -> Any:
        """Read an input from a line of a text file."""
        return line

    @property
    def reading(self) -> dict[str, int]:
        """The settings with which a task reads the same rows, to compare with it."""
        return {"sequence_length": self.sequence_length}


# === Shared by tasks ===


def check_texts(texts: Sequence[Any]) -> None:
    """Raise an error if something is not a string.

    Example:
        >>> check_texts(["a", "b"])
    """
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(
                f"Got {type(text).__name__} {str(text)[:40]!r}; expected strings, or pairs of strings only."
            )


def split_pairs(texts: Sequence[Any]) -> tuple[list[str], list[str] | None]:
    """Split pairs into two lists, or give the texts; raise an error for anything else, or a mixture.

    Example:
        >>> split_pairs([("a", "b"), ("c", "d")])
        (['a', 'c'], ['b', 'd'])
    """
    if texts and all(map(_is_pair, texts)):
        return [text for text, _ in texts], [pair for _, pair in texts]
    check_texts(texts)
    return list(texts), None


def split_at_tab(line: str) -> Any:
    """Split a line with a tab into a pair; give other lines as they are.

    Example:
        >>> split_at_tab("a question\\ta text")
        ('a question', 'a text')
    """
    return tuple(line.split("\t", 1)) if "\t" in line else line


def _is_pair(text: Any) -> bool:
    return isinstance(text, tuple | list) and len(text) == 2 and all(isinstance(side, str) for side in text)


def cut_or_windows(tokenized: TokenizedTexts, sequence_length: int, long_texts: str | None) -> PreparedData:
    """Turn tokenized texts into rows of at most that many tokens, cut or in windows.

    Example:
        >>> tokenized = TokenizedTexts(np.arange(4, 10), np.array([0, 6]))
        >>> cut_or_windows(tokenized, 6, "windows").owners.tolist()
        [0, 0]
    """
    if long_texts == "windows":
        rows, owners = tokenized.windows(sequence_length, max(1, sequence_length // 2))
        return PreparedData(rows, None, None, owners)
    rows, _ = tokenized.trimmed(sequence_length)
    return PreparedData(rows, None, None, np.arange(len(rows)))


def in_rows(values: np.ndarray, lengths: np.ndarray, *, fill: float = 0.0) -> np.ndarray:
    """Arrange the values of tokens, `[tokens, …]`, as rows of one width, `[rows, longest, …]`.

    Example:
        >>> in_rows(np.array([1.0, 2.0, 3.0]), np.array([2, 1])).tolist()
        [[1.0, 2.0], [3.0, 0.0]]
    """
    inside = is_token(lengths)
    rows = np.full((*inside.shape, *values.shape[1:]), fill, values.dtype)
    rows[inside] = values
    return rows


def is_token(lengths: np.ndarray, width: int | None = None) -> np.ndarray:
    """Which positions of rows have a token, `[rows, width]`.

    Example:
        >>> is_token(np.array([2, 1])).tolist()
        [[True, True], [True, False]]
    """
    return np.arange(lengths.max(initial=0) if width is None else width)[None] < lengths[:, None]


def check_width(name: str, values: np.ndarray, labels: Sequence[str]) -> None:
    """Raise an error if an output does not have one number for each label."""
    if values.shape[1:] != (len(labels),):
        raise ValueError(
            f"The file gives {values.shape[1:]} numbers for {len(labels)} labels in {name}; export it again."
        )
