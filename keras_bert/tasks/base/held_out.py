"""Hold out a tenth of the rows for validation, for runs without `--validation`.

Rows that share a sentence or a context stay on one side, and classes keep their shares.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from keras_bert.system.notes import note

_FEW = 10  # with fewer groups than this, one of them would be more than a tenth


def hold_out(rows: Any) -> tuple[Any, Any]:
    """Hold out a tenth in which each class has its share; without labels, a random tenth.

    Example:
        >>> train, validation = hold_out(list(range(20)))
        >>> len(train), len(validation)
        (18, 2)
    """
    return hold_out_classes(rows) if all(hasattr(row, "label") for row in rows) else hold_out_tenth(rows)


def hold_out_tenth(rows: Any, key: Callable[[Any], Hashable] | None = None, noun: str = "") -> tuple[Any, Any]:
    """Hold out a random tenth; each side has at least one row.

    Args:
        rows: The rows of a task. Both parts have the same type and the same `report`.
        key: A function from a row to its group; rows of one group stay together.
        noun: What a group is called, for the note.
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


def hold_out_classes(
    rows: Any, key: Callable[[Any], Hashable] | None = None, noun: str = ""
) -> tuple[list[Any], list[Any]]:
    """Hold out a tenth in which each class has its share; a group counts as its rarest class."""
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
            f"No row can be held out: each of the {len({row.label for row in rows}):,} labels has only one example, "
            "which training needs. Pass --validation FILE, or more examples of each label; are the labels classes?"
        )
    return train, validation


def _rarest_label(counts: Counter[Any], group: Sequence[Any]) -> Any:
    return min((counts[row.label], row.label) for row in group)[1]


def _check_count(rows: Any) -> None:
    if len(rows) < 2:
        raise ValueError(f"There is {len(rows)} row; expected at least 2, or a --validation file.")


def _groups(rows: Any, key: Callable[[Any], Hashable] | None, noun: str) -> list[list[Any]]:
    """The groups of rows; each row by itself if there are too few groups to hold one out."""
    alone = [[row] for row in rows]
    if key is None:
        return alone
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    if len(groups) < min(_FEW, len(rows)):
        note(
            f"there are only {len(groups)} {noun}, too few to hold one out: both sides have rows of the same {noun}, "
            "so the score is too good. Pass --validation to measure on others."
        )
        return alone
    return list(groups.values())
