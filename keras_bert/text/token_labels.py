"""Labels and vectors of single tokens, beside the rows of `TokenizedTexts`."""

from dataclasses import dataclass, replace

import numpy as np

from keras_bert.text.tokenized_texts import _places, _splits


@dataclass(frozen=True, eq=False)
class TokenLabels:
    """A class for each token of packed rows, in the order of `TokenizedTexts.packed`.

    Args:
        values: int32 `[tokens]`, all rows one after the other; −1 for tokens that no loss looks at (special ones, all
            but the first piece of a word).
        splits: Where each row begins and ends.
        chained: Whether the loss takes the labels of a row together (a CRF): they then keep their −1, a row counts by
            its labelled tokens, and no two texts may share a row.

    Example:
        >>> labels = TokenLabels(np.array([-1, 2, -1, -1, 0, 1, -1]), np.array([0, 3, 7]))
        >>> len(labels), labels[[1]].values.tolist()
        (2, [-1, 0, 1, -1])
    """

    values: np.ndarray
    splits: np.ndarray
    chained: bool = False

    def __len__(self) -> int:
        return len(self.splits) - 1

    def __getitem__(self, rows) -> "TokenLabels":
        """Some of the rows, in the order given."""
        rows = np.asarray(rows, np.int64)
        lengths = np.diff(self.splits)[rows]
        return replace(self, values=self.values[_places(self.splits[rows], lengths)], splits=_splits(lengths))


@dataclass(frozen=True, eq=False)
class TokenVectors(TokenLabels):
    """A vector for each token of packed rows: what a teacher's layer gave, for a student to come close to.

    Args:
        values: float16 or float32 `[tokens, D]`. Every token counts, special ones included.
        splits: Where each row begins and ends.
    """
