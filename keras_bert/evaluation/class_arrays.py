"""Converts class names, class numbers, scores or numbers to checked arrays for the reports.

Unknown names, numbers out of range, NaN, lists of different lengths and empty lists raise errors.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np


def class_numbers(
    labels: Sequence[Any], predictions: Sequence[Any], names: Sequence[str] | None
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Return the names of the classes, and labels and predictions as their numbers.

    Args:
        labels: The true classes, as names or numbers.
        predictions: The predicted classes, as names, numbers, or scores `[examples, classes]`.
        names: All classes in order; `None` takes the names that occur, sorted.

    Example:
        >>> names, true, found = class_numbers(["no", "yes"], [[0.2, 0.8], [0.1, 0.9]], ["no", "yes"])
        >>> true.tolist(), found.tolist()
        ([0, 1], [1, 1])
    """
    if len(labels) != len(predictions) or not len(labels):
        raise ValueError(
            f"There are {len(labels)} labels and {len(predictions)} predictions; expected as many of both, at least "
            "one."
        )
    if names is None:
        names = _names_in([*labels, *predictions])
    names = _checked_names(names)
    return names, _numbers(labels, names, "labels"), _numbers(predictions, names, "predictions")


def class_matrix(labels: Sequence[Any], names: Sequence[str], *, role: str) -> np.ndarray:
    """Return several labels per text as zeros and ones `[examples, labels]`.

    Args:
        labels: A collection of names for each text, or zeros and ones.
        names: All labels in order.
        role: The word for them in error messages.

    Example:
        >>> class_matrix([("b",), ()], ["a", "b"], role="labels").tolist()
        [[0, 1], [0, 0]]
    """
    names = _checked_names(names)
    if isinstance(labels, np.ndarray) or (len(labels) and _are_numbers(labels[0])):
        matrix = np.asarray(labels)
        if matrix.ndim != 2 or matrix.shape[1] != len(names):
            raise ValueError(
                f"The {role} have shape {matrix.shape}; expected [examples, {len(names)}] for {len(names)} names."
            )
        if not np.isin(matrix, (0, 1)).all():
            raise ValueError(
                f"The {role} have other values than zeros and ones; for probabilities pass `probabilities >= 0.5`."
            )
        return matrix.astype(np.int64)
    numbers = {name: index for index, name in enumerate(names)}
    matrix = np.zeros((len(labels), len(names)), dtype=np.int64)
    for row, given in enumerate(labels):
        if isinstance(given, str) or given is None:
            raise ValueError(f"{role}[{row}] is {given!r}, expected a collection of names such as ({given!r},).")
        for name in given:
            if name not in numbers:
                raise ValueError(f"{role}[{row}] holds {name!r}, which is not among the names {_shown(names)}.")
            matrix[row, numbers[name]] = 1
    return matrix


def finite_numbers(values: Sequence[Any], *, role: str) -> np.ndarray:
    """Return numbers as an array `[examples]`; raise an error for NaN and infinity.

    Args:
        values: `[examples]`, or `[examples, 1]` as a regression head gives them.
        role: The word for them in error messages.

    Example:
        >>> finite_numbers([[1.5], [2.0]], role="predictions").tolist()
        [1.5, 2.0]
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if numbers.ndim != 1:
        raise ValueError(f"The {role} have shape {numbers.shape}; expected one number for each example.")
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise ValueError(
            f"The {role} have {len(bad)} values that are NaN or infinite, the first at {bad[0]}; expected finite "
            "numbers."
        )
    return numbers


def _are_numbers(row: object) -> bool:
    return isinstance(row, np.ndarray | list) and len(row) > 0 and not isinstance(row[0], str)


def _names_in(values: list[Any]) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        raise ValueError("Class numbers need names; pass all classes in order as names=.")
    return sorted({str(value) for value in values})


def _checked_names(names: Sequence[str]) -> tuple[str, ...]:
    names = tuple(str(name) for name in names)
    if not names or len(set(names)) != len(names):
        raise ValueError(f"names={_shown(names)}: expected every class once, and at least one.")
    return names


def _numbers(values: Sequence[Any], names: tuple[str, ...], role: str) -> np.ndarray:
    if not isinstance(values, np.ndarray) and all(isinstance(value, str) for value in values):
        return _of_names(values, names, role)
    array = np.asarray(values)
    if array.dtype.kind in "UO" and array.ndim == 1 and all(isinstance(value, str) for value in array):
        return _of_names(array.tolist(), names, role)
    if array.dtype.kind not in "iubf":
        raise ValueError(
            f"The {role} are {_shown(values)}; expected class names, class numbers or scores, all of one kind."
        )
    bad = np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))
    if len(bad):
        raise ValueError(
            f"The {role} have NaN or infinity in {len(bad)} rows, the first at {bad[0]}: the model has diverged. Train "
            "it again with a smaller learning rate."
        )
    if array.ndim == 2 and array.shape[1] == len(names) and role == "predictions":
        return array.argmax(axis=1)
    if array.ndim != 1 or (array != np.floor(array)).any():
        raise ValueError(
            f"The {role} have shape {array.shape} and type {array.dtype}; expected one class for each example"
            + (f" or scores [examples, {len(names)}]." if role == "predictions" else ".")
        )
    outside = np.flatnonzero((array < 0) | (array >= len(names)))
    if len(outside):
        raise ValueError(
            f"{role}[{outside[0]}] is class {array[outside[0]]}, but there are {len(names)} names, from 0."
        )
    return array.astype(np.int64)


def _of_names(values: Sequence[Any], names: tuple[str, ...], role: str) -> np.ndarray:
    numbers = {name: index for index, name in enumerate(names)}
    for row, value in enumerate(values):
        if value not in numbers:
            raise ValueError(f"{role}[{row}] is {value!r}, which is not among the names {_shown(names)}.")
    return np.array([numbers[value] for value in values], dtype=np.int64)


def _shown(values: Sequence[Any]) -> str:
    return f"[{', '.join(repr(value) for value in list(values)[:8])}{', …' if len(values) > 8 else ''}]"
