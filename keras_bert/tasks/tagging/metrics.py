"""Tags and predicted tags → how well entities were found: precision, recall and F1, whole and by kind.

Takes sentences of tags, gives a frozen report that prints as a table. A room of its own because entities are counted as
wholes: one that is a word too long is wrong. The report's numbers are seqeval's (extra `evaluate`); `count_entities`
counts the same without it, for measuring while a model trains.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

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
        """Micro F1 over all entities: the number that papers give."""
        return self.micro.f1

    def to_dict(self) -> dict:
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
    """Entities in the data, predicted, and both."""

    entities: int
    predicted: int
    right: int

    @property
    def precision(self) -> float:
        """The share of predicted entities that are right; 0 where there are none."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of entities that were found; 0 where there are none."""
        return self.right / self.entities if self.entities else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
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
    """Measures predicted tags.

    Args:
        tags: The true tags of each sentence, in any scheme.
        predictions: The predicted ones, as many.

    Example:
        >>> entity_report([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "O"]]).f1
        1.0
    """
    lengths = [[len(sentence) for sentence in part] for part in (tags, predictions)]
    if lengths[0] != lengths[1] or not lengths[0]:
        raise ValueError(
            f"there are {sum(lengths[0])} tags in {len(lengths[0])} sentences and {sum(lengths[1])} predicted ones in "
            f"{len(lengths[1])}; both must be as many, and not none."
        )
    counts = count_entities(tags, predictions)
    right = sum(a == b for pair in zip(tags, predictions, strict=True) for a, b in zip(*pair, strict=True))
    tables, notes = {}, []
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


def _scores(row):
    return Scores(*(float(row[name]) for name in ("precision", "recall", "f1-score"))) if row else Scores(0.0, 0.0, 0.0)
