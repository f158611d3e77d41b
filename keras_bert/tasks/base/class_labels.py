"""Check the names of classes, and turn labels into class numbers and weights."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np

from keras_bert.data.label_statistics import class_weights

KINDS = ("single_label", "multi_label", "regression")

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?")


@overload
def check_labels(labels: Sequence[str] | None, kind: Literal["single_label", "multi_label"]) -> tuple[str, ...]: ...
@overload
def check_labels(labels: Sequence[str] | None, kind: str) -> tuple[str, ...] | None: ...
def check_labels(labels: Sequence[str] | None, kind: str) -> tuple[str, ...] | None:
    """Return the names of the classes, or raise an error that says what is wrong with them."""
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r}: expected one of {', '.join(map(repr, KINDS))}.")
    if kind == "regression":
        if labels:
            raise ValueError(f"labels={list(labels)}: regression gives a number and has no classes; leave labels out.")
        return None
    if labels is None or isinstance(labels, str):
        raise TypeError(f"labels={labels!r}: expected a list with the name of each class.")
    labels = tuple(map(str, labels))
    if len(labels) < (2 if kind == "single_label" else 1):
        raise ValueError(f"labels={list(labels)}: there is nothing to decide between; expected at least two classes.")
    if len(set(labels)) != len(labels):
        twice = sorted(name for name, count in Counter(labels).items() if count > 1)
        raise ValueError(f"labels has {twice} more than once; expected a different name for each class.")
    return labels


def find_class(label: Any, labels: Sequence[str], place: str) -> int:
    """Find the class number of a label. A label is the name of a class, or its number if the names are not numbers.

    What a number means depends only on the names of the classes, because each label is read by itself. Otherwise, with
    classes named 1 to 5, the labels 0 and 1 would both be the first class: 0 by number and 1 by name.

    Example:
        >>> find_class("good", ["bad", "good"], "Row 1"), find_class(0, ["bad", "good"], "Row 2")
        (1, 0)
    """
    if str(label) in labels:
        return labels.index(str(label))
    known = ", ".join(map(repr, labels[:10])) + (" …" if len(labels) > 10 else "")
    unknown = f"{place} has the unknown label {label!r}; the classes are {known}."
    if not isinstance(label, (int, np.integer)):
        raise ValueError(unknown)
    number = int(label)
    if _are_numbers(labels):
        if str(number) in labels:  # True and False
            return labels.index(str(number))
        raise ValueError(f"{unknown} The classes are named by numbers, so a number is a name: pass one of the names.")
    if not 0 <= number < len(labels):
        raise ValueError(unknown)
    return number


def _are_numbers(labels: Sequence[str]) -> bool:
    """Whether a number may be a class's name: all names are numbers, or one is also a class number."""
    numbers = [float(name) for name in labels if _NUMBER.fullmatch(name)]
    return len(numbers) == len(labels) or any(0 <= number < len(labels) for number in numbers)


def weigh_classes(
    numbers: np.ndarray, labels: Sequence[str], class_weight: Mapping[str, float] | str | None
) -> np.ndarray | None:
    """Compute the weight of each example: by class name, or `"balanced"`; `None` gives no weights.

    Example:
        >>> weigh_classes(np.array([0, 1, 1]), ["bad", "good"], {"bad": 2.0}).tolist()
        [2.0, 1.0, 1.0]
    """
    if class_weight is None:
        return None
    if class_weight == "balanced":
        class_weight = class_weights([labels[number] for number in numbers])
    if isinstance(class_weight, str):
        raise ValueError(
            f"class_weight={class_weight!r}: expected 'balanced', or a dictionary from class names to weights."
        )
    unknown = [name for name in class_weight if name not in labels]
    if unknown:
        raise ValueError(f"class_weight has {unknown}, which are not classes; the classes are {list(labels)}.")
    return np.array([class_weight.get(name, 1.0) for name in labels], "float32")[numbers]


def check_not_constant(numbers: np.ndarray, labels: Sequence[str], count: int | None = None) -> None:
    """Raise an error if all examples have the same class.

    Example:
        >>> check_not_constant(np.array([0, 1]), ["bad", "good"])
    """
    present = np.unique(numbers)
    if len(present) == 1:
        raise ValueError(
            f"All {len(numbers) if count is None else count:,} examples are {labels[present[0]]!r}; expected at least "
            "two classes."
        )
