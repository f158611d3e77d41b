"""Measure predicted intents and slots.

Beside the reports of intents and of slots, it counts the commands whose intent and slots are all right.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from keras_bert.evaluation.reports import ClassificationReport, classification_report
from keras_bert.evaluation.tables import noted, score_table
from keras_bert.tasks.tagging.metrics import EntityReport, count_entities, entity_report


@dataclass(frozen=True)
class CommandNumbers:
    """The three numbers that papers report."""

    intent_accuracy: float
    slot_f1: float
    sentence_accuracy: float


@dataclass(frozen=True)
class CommandReport:
    """How well commands were understood; prints as a table."""

    count: int
    sentence_accuracy: float  # intent and all tags right
    intents: ClassificationReport
    slots: EntityReport
    notes: tuple[str, ...] = ()

    @property
    def intent_accuracy(self) -> float:
        """The share of commands whose intent is right."""
        return self.intents.accuracy

    @property
    def slot_f1(self) -> float:
        """Micro F1 over whole slots."""
        return self.slots.f1

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        numbers = {name: getattr(self, name) for name in ("intent_accuracy", "slot_f1")}
        parts = {"intents": self.intents.to_dict(), "slots": self.slots.to_dict()}
        return {**asdict(self), **parts, **numbers, "notes": list(self.notes)}

    def __str__(self) -> str:
        top = (
            f"intent accuracy {self.intent_accuracy:.4f} · slot F1 {self.slot_f1:.4f} · whole sentences "
            f"{self.sentence_accuracy:.4f} · {self.count:,} commands"
        )
        tables = ["intents", *score_table(self.intents)]
        tables += ["", "slots", *score_table(self.slots)] if self.slots.classes else []
        notes = dict.fromkeys((*self.intents.notes, *self.slots.notes, *self.notes))
        return "\n".join([top, "", *tables, *noted(list(notes))])


def command_numbers(
    intents: Sequence[str],
    tags: Sequence[Sequence[str]],
    predicted_intents: Sequence[str],
    predicted_tags: Sequence[Sequence[str]],
) -> CommandNumbers:
    """Compute the three numbers without an extra package, for measuring during training.

    Example:
        >>> command_numbers(["a", "b"], [["B-x"], ["O"]], ["a", "a"], [["B-x"], ["O"]])
        CommandNumbers(intent_accuracy=0.5, slot_f1=1.0, sentence_accuracy=0.5)
    """
    right = [true == found for true, found in zip(intents, predicted_intents, strict=True)]
    whole = [
        intent and list(true) == list(found) for intent, true, found in zip(right, tags, predicted_tags, strict=True)
    ]
    count = max(1, len(right))
    return CommandNumbers(sum(right) / count, count_entities(tags, predicted_tags).f1, sum(whole) / count)


def command_report(
    intents: Sequence[str],
    tags: Sequence[Sequence[str]],
    predicted_intents: Sequence[str],
    predicted_tags: Sequence[Sequence[str]],
    *,
    notes: Sequence[str] = (),
) -> CommandReport:
    """Measure predicted intents and slots.

    Args:
        intents: The true intent of each command.
        tags: The true tags of its words.
        predicted_intents, predicted_tags: The predictions, in the same form.
        notes: Notes below the tables.
    """
    numbers = command_numbers(intents, tags, predicted_intents, predicted_tags)
    names = sorted({*intents, *predicted_intents})
    places = {name: index for index, name in enumerate(names)}
    return CommandReport(
        count=len(intents),
        sentence_accuracy=numbers.sentence_accuracy,
        intents=classification_report(
            [places[name] for name in intents], [places[name] for name in predicted_intents], names=names
        ),
        slots=entity_report(tags, predicted_tags),
        notes=tuple(notes),
    )
