"""The examples that a task trains on: tokenized rows, their labels, and the example that each row came from.

One example may become several rows: the windows of a long text, or the choices of a question.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from keras_bert.text.token_labels import TokenLabels
from keras_bert.text.tokenized_texts import TokenizedTexts

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class PreparedData:
    """Examples that are ready for training.

    Args:
        tokenized: The texts, trimmed or in windows.
        labels: The labels for the loss, one row for each text or window: an array, `TokenLabels`, or a dictionary of
            them by the name of the output.
        weights: The weight of each row; `None` is 1 for all.
        owners: The example that each row came from.
        notes: Sentences about what was dropped or cut.
        texts_per_example: How many texts, one after the other, are an example. Labels and weights then have a row for
            each such group.
    """

    tokenized: TokenizedTexts
    labels: np.ndarray | TokenLabels | dict[str, np.ndarray | TokenLabels] | None
    weights: np.ndarray | None
    owners: np.ndarray
    notes: tuple[str, ...] = ()
    texts_per_example: int = field(default=1, kw_only=True)

    @property
    def num_examples(self) -> int:
        """The number of examples that the rows came from."""
        return int(self.owners.max()) + 1 if len(self.owners) else 0

    def first_rows(self, count: int) -> "Self":
        """Return the first `count` rows, each with weight 1; whole groups only, and at least one."""
        group = self.texts_per_example
        stop = min(max(1, count // group), len(self.tokenized) // group)
        return replace(self.slice_rows(0, stop * group), weights=None)

    def split(self, share: float) -> tuple["Self", "Self"]:
        """Split off a share of the examples from the end; return the others and those.

        Example:
            ```python
            train, validation = data.split(0.1)
            ```
        """
        if not 0 < share < 1:
            raise ValueError(f"validation_split={share!r}: expected a share between 0 and 1, such as 0.1.")
        stop = self.num_examples - max(1, round(self.num_examples * share))
        if stop < 1:
            raise ValueError(
                f"validation_split={share!r} of {self.num_examples} examples leaves none to train on; pass more "
                "examples, or a smaller share."
            )
        return self.slice_examples(0, stop), self.slice_examples(stop, self.num_examples)

    def slice_examples(self, start: int, stop: int) -> "Self":
        """Return the examples from `start` up to `stop`, with all of their rows."""
        return self.slice_rows(*np.searchsorted(self.owners, [start, stop]).tolist())

    def slice_rows(self, start: int, stop: int) -> "Self":
        """Return the rows from `start` up to `stop`, in whole groups."""
        rows, group = slice(start, stop), self.texts_per_example
        examples = slice(start // group, stop // group)
        owners = np.unique(self.owners[rows], return_inverse=True)[1]
        labels = self.labels
        if isinstance(labels, dict):
            labels = {name: values[np.arange(len(values))[examples]] for name, values in labels.items()}
        elif labels is not None:
            labels = labels[np.arange(len(labels))[examples]]
        weights = None if self.weights is None else self.weights[examples]
        tokenized = self.tokenized.take(np.arange(len(self.tokenized))[rows])
        return replace(self, tokenized=tokenized, labels=labels, weights=weights, owners=owners)
