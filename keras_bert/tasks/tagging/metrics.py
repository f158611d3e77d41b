"""Measure predicted entities: precision, recall and F1, in total and by kind.

Whole entities are counted: an entity that is one word too long is wrong. The report uses seqeval (extra `evaluate`);
`count_entities` counts the same without it, for measuring during training.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from keras_bert.decoding.tags import tag_spans
from keras_bert.evaluation.extras import evaluation_module
from keras_bert.evaluation.reports import ClassScores, Scores
from keras_bert.evaluation.tables import noted, score_table


@dataclass(frozen=True)
class EntityReport:
    """How well entities were found; prints as a table."""

    count: int  # sentences
    entities: int
    predicted: int
    accuracy: float  # of the words' tags
    micro: Scores
    macro: Scores
    weighted: Scores
    classes: tuple[ClassScores, ...]
    notes: tuple[str, ...] = ()

    @property
    def f1(self) -> float:
        """Micro F1 over all entities: the number that papers report."""
        return self.micro.f1

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {**json.loads(json.dumps(asdict(self))), "f1": self.f1}

    def __str__(self) -> str:
        top = (
            f"entity F1 {self.f1:.4f} · {self.entities:,} entities, {self.predicted:,} predicted · "
            f"{self.count:,} sentences, {self.accuracy:.2%} of tags right"
        )
        return "\n".join([top, *(["", *score_table(self)] if self.classes else []), *noted(self.notes)])


@dataclass(frozen=True)
class EntityCounts:
    """The numbers of entities in the data, of predicted ones, and of right ones."""

    entities: int
    predicted: int
    right: int

    @property
    def precision(self) -> float:
        """The share of predicted entities that are right; 0 if there are none."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of entities that were found; 0 if there are none."""
        return self.right / self.entities if self.entities else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        total = self.entities + self.predicted
        return 2 * self.right / total if total else 0.0


def count_entities(tags: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> EntityCounts:
    """Count entities, as seqeval does.

    Example:
        >>> count_entities([["B-PER", "I-PER", "O"]], [["B-PER", "O", "B-LOC"]])
        EntityCounts(entities=1, predicted=2, right=0)
    """
    counts = [0, 0, 0]
    for true, found in zip(tags, predictions, strict=True):
        true, found = set(tag_spans(true)), set(tag_spans(found))
        counts = [total + len(part) for total, part in zip(counts, (true, found, true & found), strict=True)]
    return EntityCounts(*counts)


def entity_report(tags: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> EntityReport:
    """Measure predicted tags.

    Args:
        tags: The true tags of each sentence, in any scheme.
        predictions: The predicted tags, as many.

    Example:
        >>> entity_report([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "O"]]).f1
        1.0
    """
    lengths = [[len(sentence) for sentence in part] for part in (tags, predictions)]
    if lengths[0] != lengths[1] or not lengths[0]:
        raise ValueError(
            f"There are {sum(lengths[0])} tags in {len(lengths[0])} sentences and {sum(lengths[1])} predicted tags in "
            f"{len(lengths[1])}; expected as many, and at least one sentence."
        )
    counts = count_entities(tags, predictions)
    right = sum(a == b for pair in zip(tags, predictions, strict=True) for a, b in zip(*pair, strict=True))
    tables: dict[str, Any] = {}
    notes: list[str] = []
    if counts.entities or counts.predicted:
        measure = evaluation_module("seqeval.metrics").classification_report
        tables = measure(list(map(list, tags)), list(map(list, predictions)), output_dict=True, zero_division=0)
    averages = {part: _scores(tables.pop(f"{part} avg", None)) for part in ("micro", "macro", "weighted")}
    if not counts.entities:
        notes.append("there is no entity in the data: F1 is undefined and given as 0")
    if not counts.predicted:
        notes.append("no entity was predicted")
    return EntityReport(
        count=len(tags),
        entities=counts.entities,
        predicted=counts.predicted,
        accuracy=right / max(1, sum(lengths[0])),
        **averages,
        classes=tuple(
            ClassScores(**asdict(_scores(row)), name=str(name), support=int(row["support"]))
            for name, row in tables.items()
        ),
        notes=tuple(notes),
    )


def _scores(row: Mapping[str, Any] | None) -> Scores:
    return Scores(*(float(row[name]) for name in ("precision", "recall", "f1-score"))) if row else Scores(0.0, 0.0, 0.0)
