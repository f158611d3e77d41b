"""Two sets of outputs on the same examples → how much of a difference in score is chance.

Takes a task's labelled data and what two models make of it; gives the difference with its interval. A room of its own
because every metric of every task needs it: F1 of entities is no mean over examples, so nothing is assumed of the
metric but that it can be measured on a part of the data.

Delete-a-group jackknife: the difference without each twentieth of the examples says how much it hangs on which examples
there happen to be. One example is added to either side, as if it had been gained and another lost: without that,
answers that are all the same on ten examples would pass for certain (Agresti and Min 2005, for paired shares).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keras_bert.batching.prepared_data import PreparedData

_GROUPS = 20
_T = 2.093  # Student's t for 95 % and 19 degrees of freedom


@dataclass(frozen=True)
class ScoreInterval:
    """A difference in score, with the interval that holds the true one in 95 of 100 cases.

    Args:
        difference: The second score minus the first.
        low, high: The interval.
        examples: How many it was measured on.
    """

    difference: float
    low: float
    high: float
    examples: int

    @property
    def half_width(self) -> float:
        """How far the interval goes to either side."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        return f"{100 * self.difference:+.2f} points (95 %: {100 * self.low:+.2f} to {100 * self.high:+.2f})"


def least_half_width(examples: int) -> float:
    """The narrowest interval that so many examples can give: that of answers which are all the same.

    Example:
        >>> round(least_half_width(98), 3)
        0.021
    """
    return _T / (examples + 2)


def needed_examples(half_width: float) -> int:
    """How many examples an interval of that half width takes at least.

    Example:
        >>> needed_examples(0.01)
        208
    """
    return int(np.ceil(_T / half_width)) - 2 if half_width > 0 else 10**9


def split_examples(count: int, seed: int = 0) -> list[np.ndarray]:
    """The numbers of the examples in twenty groups, by chance; each example by itself where there are fewer."""
    return np.array_split(np.random.default_rng(seed).permutation(count), min(_GROUPS, count))


def scores_without(
    groups: list[np.ndarray],
    measure: Callable[[dict, PreparedData], float],
    prepare: Callable[[np.ndarray], PreparedData],
    rows: PreparedData,
    outputs: dict[str, np.ndarray],
) -> np.ndarray | None:
    """The score of a model on all examples but those of each group.

    Args:
        groups: Numbers of examples, as `split_examples` gives them.
        measure: Takes outputs and prepared data, gives a score.
        prepare: Takes numbers of examples, gives them as prepared data.
        rows: All examples as prepared data.
        outputs: What the model makes of all rows: `[rows, …]`, or `[tokens, …]` without padding.

    Returns:
        A score for each group; `None` where the rows of an example depend on which others there are.
    """
    scores = []
    for group in groups:
        kept = np.setdiff1d(np.arange(rows.num_examples), group)
        if not len(kept):
            return None
        data, chosen = prepare(kept), np.flatnonzero(np.isin(rows.owners, kept))
        if len(data.owners) != len(chosen):
            return None
        scores.append(measure(_take(outputs, rows, chosen), data))
    return np.array(scores)


def score_interval(difference: float, parts: np.ndarray, examples: int) -> ScoreInterval:
    """The interval of a difference between two scores.

    Args:
        difference: On all examples.
        parts: The same without each group of examples.
        examples: How many examples there are.

    Example:
        >>> print(score_interval(-0.01, np.full(20, -0.01), 98))
        -1.00 points (95 %: -3.09 to +1.09)
    """
    spread = np.sum((parts - np.mean(parts)) ** 2) * (len(parts) - 1) / len(parts)
    half = _T * float(np.sqrt(spread + (1 / (examples + 2)) ** 2))
    return ScoreInterval(float(difference), float(difference - half), float(difference + half), examples)


def _take(outputs, rows, chosen):
    """The outputs of some rows."""
    lengths = np.asarray(rows.tokenized.lengths)
    tokens = np.isin(np.repeat(np.arange(len(lengths)), lengths), chosen)
    return {name: values[chosen] if len(values) == len(lengths) else values[tokens] for name, values in outputs.items()}
