"""Inputs of a task → rows of tokens, and what a file gives for them → answers, in NumPy: it runs on the device.

`Reader` is made from a tokenizer and from what a file says of itself, or a task before it becomes a file: the device,
the checks and the calibration read texts in the same way, each with its own tokenizer.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from export.tasks.base.settings import Setting, check_settings, one_of
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.text.tokenized_texts import FlatTokenizer, TokenizedTexts


class Reader(ABC):
    """How one task reads: a subclass names the outputs of its file and has `prepare`, `answers` and `agreement`.

    Args:
        tokenizer: The device's or the graph's.
        sequence_length: The most tokens of a row.
        labels: The names of the classes, in the order of the outputs; `None` where there are none.
        kind: The task's kind, e.g. `"single_label"`, or `None`.
        settings: What else the task needs; checked, for they may come from anywhere.

    Example:
        ```python
        class ToneReader(export.Reader):
            outputs = ("class_logits",)

            def prepare(self, inputs):
                return cut_or_windows(tokenize_texts(self.tokenizer, inputs), self.sequence_length, "cut")

            def answers(self, outputs, data, inputs):
                return [self.labels[best] for best in outputs["class_logits"].argmax(axis=-1)]

            def agreement(self, answers, others):
                return float(np.mean([ours == theirs for ours, theirs in zip(answers, others)]))
        ```
    """

    # What a file must give, and which of these have a value for each token: `[1, T, …]`.
    outputs: ClassVar[tuple[str, ...]]
    token_outputs: ClassVar[tuple[str, ...]] = ()

    # Whether an input is always two strings, so that the second is never a label.
    pairs_alone: ClassVar[bool] = False

    # An input, for timing.
    sample: ClassVar[Any] = "a"

    # What the settings must be: those of `task.settings()` that the reader looks at.
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

    # === What a task adds ===

    def check(self) -> None:  # noqa: B027  not every task needs one
        """An error where labels, kind and settings do not go together; settings are checked by themselves already."""

    @abstractmethod
    def prepare(self, inputs: list) -> PreparedData:
        """Inputs as rows of at most `sequence_length` tokens, and the input that each row is of."""

    @abstractmethod
    def answers(self, outputs: dict[str, np.ndarray], data: Any, inputs: list, **options) -> list:
        """The answer to each input, from the outputs of its rows.

        Args:
            outputs: `[rows, …]`; those of `token_outputs` are `[tokens, …]`, without padding, row after row.
            data: The rows, from `prepare`.
            inputs: What they were made of.
            options: As those of the task's `predict`.
        """

    @abstractmethod
    def agreement(self, answers: list, others: list) -> float:
        """The share of answers that are the same, or what `agreement_of` says."""

    @property
    def agreement_of(self) -> str:
        """What `agreement` measures: `"same answers"`, `"mean cosine"` or `"correlation"`."""
        return "same answers"

    def inputs(self, *given) -> tuple[list, bool]:
        """What a call was given, as a list, and whether it was one input."""
        (texts,) = given
        return ([texts], True) if isinstance(texts, str) else (list(texts), False)

    @classmethod
    def from_line(cls, line: str) -> Any:
        """An input as it stands in a line of a text file."""
        return line

    @property
    def reading(self) -> dict[str, int]:
        """What a task must have set to read in the same rows, for comparing."""
        return {"sequence_length": self.sequence_length}


# === What tasks share ===


def check_texts(texts: Sequence) -> None:
    """An error where something is no text.

    Example:
        >>> check_texts(["a", "b"])
    """
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(
                f"Got {type(text).__name__} {str(text)[:40]!r}; expected strings, or pairs of strings only."
            )


def split_pairs(texts: Sequence) -> tuple[list[str], list[str] | None]:
    """Texts, or both sides of pairs; an error where something is neither, or where they are mixed.

    Example:
        >>> split_pairs([("a", "b"), ("c", "d")])
        (['a', 'c'], ['b', 'd'])
    """
    if texts and all(map(_is_pair, texts)):
        return [text for text, _ in texts], [pair for _, pair in texts]
    check_texts(texts)
    return list(texts), None


def split_at_tab(line: str) -> Any:
    """A pair where a line has a tab, else the line.

    Example:
        >>> split_at_tab("a question\\ta text")
        ('a question', 'a text')
    """
    return tuple(line.split("\t", 1)) if "\t" in line else line


def _is_pair(text):
    return isinstance(text, tuple | list) and len(text) == 2 and all(isinstance(side, str) for side in text)


def cut_or_windows(tokenized: TokenizedTexts, sequence_length: int, long_texts: str | None) -> PreparedData:
    """Rows of at most that many tokens, as every task with texts or pairs has them.

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
    """Values of tokens, `[tokens, …]`, as rows of one width, `[rows, longest, …]`.

    Example:
        >>> in_rows(np.array([1.0, 2.0, 3.0]), np.array([2, 1])).tolist()
        [[1.0, 2.0], [3.0, 0.0]]
    """
    inside = is_token(lengths)
    rows = np.full((*inside.shape, *values.shape[1:]), fill, values.dtype)
    rows[inside] = values
    return rows


def is_token(lengths: np.ndarray, width: int | None = None) -> np.ndarray:
    """Which places of rows have a token, `[rows, width]`.

    Example:
        >>> is_token(np.array([2, 1])).tolist()
        [[True, True], [True, False]]
    """
    return np.arange(lengths.max(initial=0) if width is None else width)[None] < lengths[:, None]


def check_width(name: str, values: np.ndarray, labels: Sequence[str]) -> None:
    """An error where a file's last axis has not a number for each label."""
    if values.shape[1:] != (len(labels),):
        raise ValueError(
            f"The file gives {values.shape[1:]} numbers for {len(labels)} labels in {name}; export it again."
        )
