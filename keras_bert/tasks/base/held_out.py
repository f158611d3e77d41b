"""Rows without `--validation` → rows to train on, and a tenth of them to measure on.

What shares a sentence or a context stays on one side, and classes keep their shares.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from keras_bert.system.notes import note

_FEW = 10  # with fewer groups than this, one of them would be more than a tenth


def hold_out(rows: Any) -> tuple:
    """A tenth in which each class has its share; where rows have no label, a tenth by chance.

    Example:
        >>> train, validation = hold_out(list(range(20)))
        >>> len(train), len(validation)
        (18, 2)
    """
    return hold_out_classes(rows) if all(hasattr(row, "label") for row in rows) else hold_out_tenth(rows)


def hold_out_tenth(rows: Any, key: Callable | None = None, noun: str = "") -> tuple:
    """A tenth by chance; at least one row stays on each side.

    Args:
        rows: The rows of a task, in their own type; those with a `report` keep it.
        key: What rows that belong together have in common.
        noun: What that is called.
    """
    import numpy as np

    _check_count(rows)
    groups = _groups(rows, key, noun)
    order = np.random.default_rng(0).permutation(len(groups))
    count = max(1, len(groups) // 10)
    parts = (tuple(row for index in part for row in groups[int(index)]) for part in (order[count:], order[:count]))
    report = getattr(rows, "report", None)
    train, validation = (list(part) if report is None else type(rows)(part, report) for part in parts)
    return train, validation


def hold_out_classes(rows: Any, key: Callable | None = None, noun: str = "") -> tuple[list, list]:
    """A tenth in which each class has its share; a group counts as its rarest class."""
    from keras_bert.data.labelled_texts import stratified_split

    _check_count(rows)
    groups = _groups(rows, key, noun)
    if len(groups) == len(rows):
        train, validation = stratified_split(rows, max(0.1, 1 / len(rows)), seed=0)
    else:
        counts = Counter(row.label for row in rows)
        parts = stratified_split(groups, 0.1, seed=0, by=partial(_rarest_label, counts))
        train, validation = ([row for group in part for row in group] for part in parts)
    if not validation:
        raise ValueError(
            f"No row can be held out: each of the {len({row.label for row in rows}):,} labels has one example, which "
            "training needs. Pass --validation FILE, or more rows of each; are the labels classes?"
        )
    return train, validation


def _rarest_label(counts, group):
    return min((counts[row.label], row.label) for row in group)[1]


def _check_count(rows):
    if len(rows) < 2:
        raise ValueError(f"There is {len(rows)} row; expected at least 2, or --validation with more.")


def _groups(rows, key, noun):
    """Rows that belong together; each by itself where there are too few groups to take one away."""
    alone = [[row] for row in rows]
    if key is None:
        return alone
    groups: dict[Any, list] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    if len(groups) < min(_FEW, len(rows)):
        note(
            f"there are {len(groups)} {noun}, too few to hold one out: rows of one are on both sides, and the score is "
            "too good. --validation measures on others."
        )
        return alone
    return list(groups.values())
