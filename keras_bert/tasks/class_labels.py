"""The names of a classifier's classes: checked once, before anything is built on them.

Takes what a user calls labels, gives a tuple of names. A room of its own because every task with classes needs the same
checks.
"""

from collections.abc import Sequence

KINDS = ("single_label", "multi_label", "regression")


def check_labels(labels: Sequence[str] | None, kind: str) -> tuple[str, ...] | None:
    """The names of the classes, or an error that says what is wrong with them."""
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r}: expected one of {', '.join(map(repr, KINDS))}.")
    if kind == "regression":
        if labels:
            raise ValueError(f"labels={list(labels)}: regression gives a number and has no classes; leave them out.")
        return None
    if labels is None or isinstance(labels, str):
        raise TypeError(f"labels={labels!r}: expected a list with the name of each class.")
    labels = tuple(map(str, labels))
    if len(labels) < (2 if kind == "single_label" else 1):
        raise ValueError(f"labels={list(labels)}: one class leaves nothing to decide; expected at least two.")
    if len(set(labels)) != len(labels):
        twice = sorted({name for name in labels if labels.count(name) > 1})
        raise ValueError(f"labels has {twice} more than once; each class needs a name of its own.")
    return labels
