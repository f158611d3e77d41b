"""Intents and slots, true and predicted → how well commands were understood.

Takes names and tags, gives a frozen report that prints as a table. A room of its own because a command is understood
only where its intent and all its slots are right at once: neither a report of classes nor one of entities says that.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from keras_bert.evaluation.reports import ClassificationReport, classification_report
from keras_bert.evaluation.tables import noted, score_table
from keras_bert.tasks.tagging.metrics import EntityReport, count_entities, entity_report


@dataclass(frozen=True)
class CommandNumbers:
    """The three numbers that papers give."""

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
        """Micro F1 over all slots, as wholes."""
        return self.slots.f1

    def to_dict(self) -> dict:
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
    """The three numbers, without an extra package; for measuring while a model trains.

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
    """Measures understood commands.

    Args:
        intents: The true intent of each command.
        tags: The true tags of its words.
        predicted_intents, predicted_tags: The predicted ones, as many.
        notes: What else is to be said below the tables.
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
