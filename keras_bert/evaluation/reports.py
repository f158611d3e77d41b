"""Measures predictions of one class per text, of several labels per text, and of numbers.

Takes sequences or arrays, and gives frozen reports that print as a table and convert to JSON. The numbers are those of
scikit-learn and SciPy (extra `evaluate`); a note says if one of them is undefined for the data.
"""

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from keras_bert.evaluation.class_arrays import class_matrix, class_numbers, finite_numbers
from keras_bert.evaluation.confusion import plot_confusion
from keras_bert.evaluation.extras import evaluation_module
from keras_bert.evaluation.tables import listed, matrix_table, noted, score_table

__all__ = [
    "ClassScores",
    "ClassificationReport",
    "MultilabelReport",
    "RegressionReport",
    "Scores",
    "classification_report",
    "multilabel_report",
    "plot_confusion",
    "regression_report",
]

_MATRIX_SHOWN = 8  # up to so many classes, a printed report has the confusion matrix


# === Values ===


@dataclass(frozen=True)
class Scores:
    """Precision, recall and F1 over several classes."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class ClassScores(Scores):
    """Precision, recall and F1 of one class, and its number of examples."""

    name: str
    support: int


class _Report:
    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values; undefined numbers are `None`, because JSON has no NaN."""
        return json.loads(json.dumps(asdict(self)), parse_constant=lambda _: None)  # type: ignore[call-overload]


@dataclass(frozen=True)
class ClassificationReport(_Report):
    """The quality of predictions with one class per text; prints as a table."""

    count: int
    accuracy: float
    matthews: float
    micro: Scores
    macro: Scores  # over the classes that occur in labels or predictions
    weighted: Scores
    classes: tuple[ClassScores, ...]
    confusion: tuple[tuple[int, ...], ...]  # a row for each true class, a column for each predicted one
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The classes in the order of the confusion matrix."""
        return tuple(scores.name for scores in self.classes)

    def __str__(self) -> str:
        top = f"accuracy {self.accuracy:.4f} · Matthews {self.matthews:.4f} · {self.count:,} examples"
        lines = [top, "", *score_table(self)]
        if len(self.classes) <= _MATRIX_SHOWN:
            lines += ["", *matrix_table(self.names, self.confusion)]
        return "\n".join([*lines, *noted(self.notes)])


@dataclass(frozen=True)
class MultilabelReport(_Report):
    """The quality of predictions with several labels per text; prints as a table."""

    count: int
    subset_accuracy: float  # the share of texts whose labels are all right
    micro: Scores
    macro: Scores  # over the labels that occur or were predicted
    weighted: Scores
    classes: tuple[ClassScores, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        top = f"subset accuracy {self.subset_accuracy:.4f} · micro F1 {self.micro.f1:.4f} · {self.count:,} examples"
        return "\n".join([top, "", *score_table(self), *noted(self.notes)])


@dataclass(frozen=True)
class RegressionReport(_Report):
    """The quality of predicted numbers; an undefined correlation is NaN, with a note."""

    count: int
    pearson: float
    spearman: float
    mse: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        top = (
            f"Pearson {self.pearson:.4f} · Spearman {self.spearman:.4f} · MSE {self.mse:.4f} · {self.count:,} examples"
        )
        return "\n".join([top, *noted(self.notes)])


# === Reports ===


def classification_report(
    labels: Sequence[Any], predictions: Sequence[Any], *, names: Sequence[str] | None = None
) -> ClassificationReport:
    """Measure predictions of one class per text.

    Args:
        labels: The true classes: names, or indices of `names`.
        predictions: The predicted classes in the same form, or scores `[examples, classes]`, of which the highest
            counts.
        names: All classes in order; `None` takes the names that occur, sorted.

    Example:
        >>> report = classification_report(["a", "a", "b"], ["a", "b", "b"], names=["a", "b"])
        >>> report.accuracy, report.confusion
        (0.6666666666666666, ((1, 1), (0, 1)))
    """
    names, true, found = class_numbers(labels, predictions, names)
    metrics = evaluation_module("sklearn.metrics")
    present = np.union1d(true, found)
    average = partial(_average, true, found, present)
    confusion = np.bincount(true * len(names) + found, minlength=len(names) ** 2).reshape(len(names), -1)
    return ClassificationReport(
        count=len(true),
        accuracy=float(np.mean(true == found)),
        matthews=float(metrics.matthews_corrcoef(true, found)) if len(present) > 1 else 0.0,
        micro=average("micro"),
        macro=average("macro"),
        weighted=average("weighted"),
        classes=_by_class(true, found, names),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        notes=_class_notes(names, true, found),
    )


def multilabel_report(labels: Sequence[Any], predictions: Sequence[Any], *, names: Sequence[str]) -> MultilabelReport:
    """Measure predictions of several labels per text.

    Args:
        labels: The true labels: a collection of names for each text, or zeros and ones `[examples, labels]`.
        predictions: The predicted labels in the same form; for probabilities pass `probabilities >= 0.5`.
        names: All labels in order.

    Example:
        >>> report = multilabel_report([("a", "b"), ()], [("a",), ()], names=["a", "b"])
        >>> report.subset_accuracy, round(report.micro.f1, 3)
        (0.5, 0.667)
    """
    true, found = class_matrix(labels, names, role="labels"), class_matrix(predictions, names, role="predictions")
    if len(true) != len(found) or not len(true):
        raise ValueError(
            f"There are {len(true)} labels and {len(found)} predictions; expected as many of both, at least one."
        )
    present = np.flatnonzero((true | found).any(axis=0))
    notes = []
    if len(present) < len(names):
        missing = [name for index, name in enumerate(names) if index not in present]
        notes.append(f"neither in labels nor predicted, left out of macro: {listed(missing)}")
    if not found.any():
        notes.append("no label was predicted for any text")
    average = partial(_average, true, found, present)
    return MultilabelReport(
        count=len(true),
        subset_accuracy=float(np.mean((true == found).all(axis=1))),
        micro=average("micro"),
        macro=average("macro"),
        weighted=average("weighted"),
        classes=_by_class(true, found, names),
        notes=tuple(notes),
    )


def regression_report(labels: Sequence[Any], predictions: Sequence[Any]) -> RegressionReport:
    """Measure predicted numbers.

    Args:
        labels: The true numbers.
        predictions: The predicted numbers, `[examples]` or `[examples, 1]`.

    Example:
        >>> print(regression_report([0.0, 1.0, 2.0], [0.0, 2.0, 4.0]))
        Pearson 1.0000 · Spearman 1.0000 · MSE 1.6667 · 3 examples
    """
    true, found = finite_numbers(labels, role="labels"), finite_numbers(predictions, role="predictions")
    if true.shape != found.shape or not len(true):
        raise ValueError(
            f"There are {len(true)} labels and {len(found)} predictions; expected as many of both, at least one."
        )
    stats = evaluation_module("scipy.stats")
    pearson = spearman = math.nan
    constant = [role for role, values in (("labels", true), ("predictions", found)) if np.ptp(values) == 0]
    notes = [f"all {role} are the same: correlations are undefined" for role in constant]
    if not constant:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pearson, spearman = stats.pearsonr(true, found).statistic, stats.spearmanr(true, found).statistic
        notes += [str(warning.message) for warning in caught]
    mse = float(np.mean((true - found) ** 2))
    return RegressionReport(len(true), float(pearson), float(spearman), mse, tuple(notes))


# === Scores ===


def _average(true: np.ndarray, found: np.ndarray, present: np.ndarray, kind: str) -> Scores:
    if not len(present):  # a multi-label set without a single label, and none predicted
        return Scores(0.0, 0.0, 0.0)
    scores = evaluation_module("sklearn.metrics").precision_recall_fscore_support
    values = scores(true, found, labels=present, average=kind, zero_division=0.0)
    return Scores(*(float(value) for value in values[:3]))


def _by_class(true: np.ndarray, found: np.ndarray, names: Sequence[str]) -> tuple[ClassScores, ...]:
    scores = evaluation_module("sklearn.metrics").precision_recall_fscore_support
    rows = zip(*scores(true, found, labels=range(len(names)), average=None, zero_division=0.0), names, strict=True)
    return tuple(
        ClassScores(float(precision), float(recall), float(f1), str(name), int(support))
        for precision, recall, f1, support, name in rows
    )


def _class_notes(names: Sequence[str], true: np.ndarray, found: np.ndarray) -> tuple[str, ...]:
    notes = []
    if len(np.unique(true)) == 1:
        notes.append(f"all labels are {names[true[0]]!r}: Matthews is undefined and given as 0")
    if len(np.unique(found)) == 1 and len(names) > 1:
        notes.append(f"all predictions are {names[found[0]]!r}: Matthews is undefined and given as 0")
    absent = [name for index, name in enumerate(names) if index not in true]
    if absent:
        notes.append(f"no example of: {listed(absent)}")
    return tuple(notes)
