"""Labels and vectors of the single tokens of `TokenizedTexts`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from keras_bert.text.tokenized_texts import _places, _splits


@dataclass(frozen=True, eq=False)
class TokenLabels:
    """A class for each token of the texts, special tokens included, in the order of `TokenizedTexts.packed`.

    Args:
        values: int32 `[tokens]`, all texts one after the other; −1 for tokens that have no loss (special tokens, and
            all but the first piece of a word).
        splits: Where each text begins and ends in `values`.
        chained: Whether the loss takes the labels of a text together (a CRF). They then keep their −1, a text is
            weighted by its labelled tokens, and two texts never share a row.

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

    def __getitem__(self, rows: Sequence[int] | np.ndarray) -> "TokenLabels":
        """Return the labels of some texts, in the order given."""
        rows = np.asarray(rows, np.int64)
        lengths = np.diff(self.splits)[rows]
        return replace(self, values=self.values[_places(self.splits[rows], lengths)], splits=_splits(lengths))


@dataclass(frozen=True, eq=False)
class TokenVectors(TokenLabels):
    """A vector for each token of the texts, such as the output of a teacher's layer, which a student learns to match.

    Args:
        values: float16 or float32 `[tokens, D]`. Every token counts, special tokens included.
        splits: Where each text begins and ends in `values`.
    """
