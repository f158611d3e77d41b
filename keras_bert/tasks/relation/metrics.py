"""Measure predicted relations by the F1 of SemEval-2010 task 8, in total and by relation.

Takes labels such as `Cause-Effect(e1,e2)`. As in the task's official scorer, both directions of a relation count as one
class, the wrong direction is an error, and the negative class (`Other`) has no F1. A label without a direction is a
relation by itself.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from keras_bert.evaluation.reports import ClassScores, Scores
from keras_bert.evaluation.tables import listed, noted, score_table

NEGATIVE = "Other"

_DIRECTION = re.compile(r"\((?:e1,e2|e2,e1)\)$")


@dataclass(frozen=True)
class RelationReport:
    """How well relations were found; prints as a table."""

    count: int
    accuracy: float  # with the direction and the negative label
    macro: Scores  # over the relations that occur in the labels
    micro: Scores
    weighted: Scores
    classes: tuple[ClassScores, ...]  # without the negative one
    wrong_direction: int  # the right relation in the wrong direction
    negative_label: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def macro_f1(self) -> float:
        """The mean F1 over relations: the official score."""
        return self.macro.f1

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {**json.loads(json.dumps(asdict(self))), "macro_f1": self.macro_f1}

    def __str__(self) -> str:
        without = "" if self.negative_label is None else f" without {self.negative_label}"
        top = (
            f"macro F1{without} {self.macro_f1:.4f} · accuracy {self.accuracy:.4f} · {self.count:,} examples, "
            f"{self.wrong_direction:,} in the wrong direction"
        )
        return "\n".join([top, *(["", *score_table(self)] if self.classes else []), *noted(self.notes)])


def relation_of(label: str) -> str:
    """The relation of a label, without its direction.

    Example:
        >>> relation_of("Cause-Effect(e2,e1)"), relation_of("born in")
        ('Cause-Effect', 'born in')
    """
    return _DIRECTION.sub("", label)


def relation_report(
    labels: Sequence[str], predictions: Sequence[str], *, negative_label: str | None = NEGATIVE
) -> RelationReport:
    """Measure predicted relations.

    Args:
        labels: The true relations.
        predictions: The predicted relations.
        negative_label: The label of texts without a relation, which is left out of the averages; `None` counts
            every label.

    Example:
        >>> report = relation_report(["A(e1,e2)", "A(e1,e2)", "Other"], ["A(e1,e2)", "A(e2,e1)", "Other"])
        >>> report.macro_f1, report.wrong_direction
        (0.5, 1)
    """
    labels, predictions = list(map(str, labels)), list(map(str, predictions))
    if len(labels) != len(predictions) or not labels:
        raise ValueError(
            f"There are {len(labels)} labels and {len(predictions)} predictions; expected as many, and at least one."
        )
    true, found = ([relation_of(label) for label in part] for part in (labels, predictions))
    right = [a == b for a, b in zip(labels, predictions, strict=True)]
    relations = sorted({*true, *found} - {negative_label})
    classes = tuple(_scores_of(relation, true, found, right) for relation in relations)
    counted = [scores for scores in classes if scores.support]
    total = sum(scores.support for scores in counted)
    return RelationReport(
        count=len(labels),
        accuracy=sum(right) / len(right),
        macro=_mean(counted, [1] * len(counted)),
        micro=_micro(true, found, right, negative_label),
        weighted=_mean(counted, [scores.support for scores in counted]),
        classes=classes,
        wrong_direction=sum(a == b and not same for a, b, same in zip(true, found, right, strict=True)),
        negative_label=negative_label if negative_label in {*true, *found} else None,
        notes=_notes(classes, total, found),
    )


def _scores_of(relation: str, true: list[str], found: list[str], right: list[bool]) -> ClassScores:
    both = sum(same for label, same in zip(true, right, strict=True) if label == relation)
    return ClassScores(*_rates(both, found.count(relation), true.count(relation)), relation, true.count(relation))


def _micro(true: list[str], found: list[str], right: list[bool], negative_label: str | None) -> Scores:
    both = sum(same for label, same in zip(true, right, strict=True) if label != negative_label)
    predicted, support = (sum(label != negative_label for label in part) for part in (found, true))
    return Scores(*_rates(both, predicted, support))


def _rates(both: int, predicted: int, support: int) -> tuple[float, float, float]:
    """Precision, recall and F1; 0 if undefined."""
    return both / max(1, predicted), both / max(1, support), 2 * both / max(1, predicted + support)


def _mean(classes: Sequence[ClassScores], weights: Sequence[int]) -> Scores:
    total = max(1, sum(weights))
    parts = (
        sum(weight * getattr(scores, name) for scores, weight in zip(classes, weights, strict=True)) / total
        for name in ("precision", "recall", "f1")
    )
    return Scores(*parts)


def _notes(classes: Sequence[ClassScores], total: int, found: list[str]) -> tuple[str, ...]:
    notes = []
    if not total:
        notes.append("there is no relation in the labels: F1 is undefined and given as 0")
    unseen = [scores.name for scores in classes if not scores.support]
    if unseen and total:
        notes.append(f"predicted but not in the labels, left out of macro: {listed(unseen)}")
    if len(set(found)) == 1:
        notes.append(f"all predictions are {found[0]!r}")
    return tuple(notes)
