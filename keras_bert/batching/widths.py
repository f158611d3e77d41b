"""The few row widths that waste the least padding for given text lengths."""

import numpy as np


def bucket_boundaries(
    lengths, *, sequence_length: int, count: int = 8, multiple_of: int = 4, shape_cost: int = 0
) -> tuple[int, ...]:
    """Choose the widths that leave the least padding over these lengths.

    Args:
        lengths: The lengths of the packed rows; those over `sequence_length` count as that, for they will be cut.
        sequence_length: The most tokens of a row.
        count: The most widths; XLA compiles a step for each.
        multiple_of: Widths are multiples of this, or `sequence_length` itself.
        shape_cost: How many tokens of padding, over the whole run, a further width must save to be worth its
            compilation. Give `seconds to compile × tokens per second / epochs`; 0 takes all the widths that help.

    Returns:
        Ascending widths. The last one holds the longest row; where other sets are to use the same widths, give all
        their lengths.

    Example:
        >>> bucket_boundaries([5, 6, 7, 30, 31, 61], sequence_length=64, count=3)
        (8, 32, 64)
    """
    if count < 1 or multiple_of < 1 or sequence_length < 1:
        raise ValueError(
            f"count={count}, multiple_of={multiple_of} and sequence_length={sequence_length} must be at least 1."
        )
    lengths = np.asarray(lengths)
    if not lengths.size:
        raise ValueError("lengths is empty; expected the length of each row.")
    widths = np.minimum(-(-np.minimum(lengths, sequence_length) // multiple_of) * multiple_of, sequence_length)
    widths, rows = np.unique(widths, return_counts=True)
    cost, choice = _cheapest_widths(widths, np.concatenate([[0], np.cumsum(rows)]), min(count, len(widths)))
    best = int(np.argmin(cost + shape_cost * np.arange(1, len(cost) + 1)))
    chosen, last = [], len(widths)
    for buckets in range(best, -1, -1):
        chosen.append(int(widths[last - 1]))
        last = choice[buckets][last]
    return tuple(reversed(chosen))


def _cheapest_widths(widths, rows_before, count):
    """Dynamic programming over the histogram: the tokens that 1, 2, … buckets need, and the choices behind them.

    `choice[k][j]` is where bucket `k` begins if the first `k + 1` buckets take the first `j` widths.
    """
    # tokens[i, j]: the rows of widths i … j − 1 in one bucket; forbidden where it would be empty.
    tokens = (rows_before[None, :] - rows_before[:, None]) * np.concatenate([[0], widths])[None, :].astype(float)
    tokens[np.tril_indices(len(rows_before))] = np.inf
    best, costs, choice = tokens[0], [tokens[0, -1]], [np.zeros(len(rows_before), int)]
    for _ in range(1, count):
        totals = best[:, None] + tokens
        choice.append(totals.argmin(axis=0))
        best = totals.min(axis=0)
        costs.append(best[-1])
    return np.array(costs), choice
