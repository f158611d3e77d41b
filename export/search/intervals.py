"""Compute a confidence interval for the difference between two scores on the same examples.

It works for every metric that can be computed on a part of the data, also for those that are not a mean over examples,
such as F1 of entities.

It is a delete-a-group jackknife: the difference without each twentieth of the examples shows how much it depends on the
choice of examples. One example is added to either side, as if one had been gained and another lost. Otherwise, equal
answers on ten examples would look certain (Agresti and Min 2005, for paired shares).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keras_bert.batching.prepared_data import PreparedData

_GROUPS = 20
_T = 2.093  # Student's t for 95 % and 19 degrees of freedom


@dataclass(frozen=True)
class ScoreInterval:
    """A difference in score, with its 95 % confidence interval.

    Args:
        difference: The second score minus the first.
        low, high: The interval.
        examples: The number of examples.
    """

    difference: float
    low: float
    high: float
    examples: int

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        return f"{100 * self.difference:+.2f} points (95%: {100 * self.low:+.2f} to {100 * self.high:+.2f})"


def least_half_width(examples: int) -> float:
    """The narrowest half width that this many examples can give: when all answers are the same.

    Example:
        >>> round(least_half_width(98), 3)
        0.021
    """
    return _T / (examples + 2)


def needed_examples(half_width: float) -> int:
    """The fewest examples that can give an interval of that half width.

    Example:
        >>> needed_examples(0.01)
        208
    """
    return int(np.ceil(_T / half_width)) - 2 if half_width > 0 else 10**9


def split_examples(count: int, seed: int = 0) -> list[np.ndarray]:
    """Split the numbers of the examples into twenty random groups, or one for each if there are fewer examples."""
    return np.array_split(np.random.default_rng(seed).permutation(count), min(_GROUPS, count))


def scores_without(
    groups: list[np.ndarray],
    measure: Callable[[dict[str, np.ndarray], PreparedData], float],
    prepare: Callable[[np.ndarray], PreparedData],
    rows: PreparedData,
    outputs: dict[str, np.ndarray],
) -> np.ndarray | None:
    """Score a model on all examples except those of each group.

    Args:
        groups: Numbers of examples, from `split_examples`.
        measure: Function of outputs and prepared data; gives a score.
        prepare: Function of numbers of examples; gives their prepared data.
        rows: All examples as prepared data.
        outputs: The model's outputs for all rows: `[rows, …]`, or `[tokens, …]` without padding.

    Returns:
        A score for each group; `None` if the rows of an example depend on the other examples.
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
    """Compute the interval of a difference between two scores.

    Args:
        difference: The difference on all examples.
        parts: The difference without each group of examples.
        examples: How many examples there are.

    Example:
        >>> print(score_interval(-0.01, np.full(20, -0.01), 98))
        -1.00 points (95%: -3.09 to +1.09)
    """
    spread = np.sum((parts - np.mean(parts)) ** 2) * (len(parts) - 1) / len(parts)
    half = _T * float(np.sqrt(spread + (1 / (examples + 2)) ** 2))
    return ScoreInterval(float(difference), float(difference - half), float(difference + half), examples)


def _take(outputs: dict[str, np.ndarray], rows: PreparedData, chosen: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs of some rows."""
    lengths = np.asarray(rows.tokenized.lengths)
    tokens = np.isin(np.repeat(np.arange(len(lengths)), lengths), chosen)
    return {name: values[chosen] if len(values) == len(lengths) else values[tokens] for name, values in outputs.items()}
