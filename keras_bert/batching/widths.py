"""Chooses a few row widths that need the least padding for given text lengths."""

from collections.abc import Sequence

import numpy as np

# Below it, a step costs as much as at it on an accelerator.
_SMALLEST_WIDTH = 16


def bucket_boundaries(
    lengths: Sequence[int] | np.ndarray,
    *,
    sequence_length: int,
    count: int = 8,
    multiple_of: int = 4,
    shape_cost: int = 0,
) -> tuple[int, ...]:
    """Choose the widths that leave the least padding for these lengths.

    Args:
        lengths: The number of tokens of each row, special tokens included. Longer rows than `sequence_length` count as
            trimmed to it.
        sequence_length: The largest number of tokens in a row.
        count: The largest number of widths; XLA compiles a step for each.
        multiple_of: Widths are multiples of this, or `sequence_length` itself.
        shape_cost: How many tokens of padding, over the whole run, another width must save to be worth its
            compilation: `seconds to compile × tokens per second / epochs`. 0 takes every width that helps.

    Returns:
        The widths in ascending order. The last one fits the longest row; if several data sets are to use the same
        widths, pass the lengths of all of them.

    Example:
        >>> bucket_boundaries([5, 6, 7, 30, 31, 61], sequence_length=64, count=3)
        (8, 32, 64)
    """
    if count < 1 or multiple_of < 1 or sequence_length < 1:
        raise ValueError(
            f"count={count}, multiple_of={multiple_of}, sequence_length={sequence_length}: expected 1 or more of each."
        )
    lengths = np.asarray(lengths)
    if not lengths.size:
        raise ValueError("Got no lengths; pass the length of each row.")
    widths = np.minimum(-(-np.minimum(lengths, sequence_length) // multiple_of) * multiple_of, sequence_length)
    widths, rows = np.unique(widths, return_counts=True)
    cost, choice = _cheapest_widths(widths, np.concatenate([[0], np.cumsum(rows)]), min(count, len(widths)))
    best = int(np.argmin(cost + shape_cost * np.arange(1, len(cost) + 1)))
    chosen, last = [], len(widths)
    for buckets in range(best, -1, -1):
        chosen.append(int(widths[last - 1]))
        last = choice[buckets][last]
    return tuple(reversed(chosen))


def few_widths(lengths: Sequence[int] | np.ndarray, *, sequence_length: int) -> tuple[int, ...]:
    """Choose at most two widths for these lengths, powers of two or `sequence_length`, for programs that JAX compiles.

    Example:
        >>> few_widths([5, 6, 7, 30, 31, 61], sequence_length=128)
        (32, 64)
    """
    lengths = np.minimum(np.asarray(lengths), sequence_length)
    rounded = 2 ** np.ceil(np.log2(np.maximum(lengths, _SMALLEST_WIDTH))).astype(int)
    return bucket_boundaries(rounded, sequence_length=sequence_length, count=2)


def _cheapest_widths(widths: np.ndarray, rows_before: np.ndarray, count: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the tokens that 1, 2, … buckets need, and their choices, by dynamic programming over the histogram.

    `choice[k][j]` is where bucket `k` begins if the first `k + 1` buckets take the first `j` widths.
    """
    # tokens[i, j]: the rows of widths i … j − 1 in one bucket; infinite for an empty bucket.
    tokens = (rows_before[None, :] - rows_before[:, None]) * np.concatenate([[0], widths])[None, :].astype(float)
    tokens[np.tril_indices(len(rows_before))] = np.inf
    best, costs, choice = tokens[0], [tokens[0, -1]], [np.zeros(len(rows_before), int)]
    for _ in range(1, count):
        totals = best[:, None] + tokens
        choice.append(totals.argmin(axis=0))
        best = totals.min(axis=0)
        costs.append(best[-1])
    return np.array(costs), choice
