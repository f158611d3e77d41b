"""What a command to an assistant means: an intent, and the slots that it names."""

from dataclasses import dataclass

from keras_bert.decoding.entities import Entity


@dataclass(frozen=True)
class Command:
    """An understood command: what is wanted, how likely that is, and with what.

    Example:
        >>> print(Command("set_alarm", 0.98, (Entity("six", "time", 11, 14, 0.97),)))
        set_alarm (98%): six (time, 97%)
    """

    intent: str
    probability: float
    slots: tuple[Entity, ...] = ()

    def __str__(self) -> str:
        slots = f": {', '.join(map(str, self.slots))}" if self.slots else ""
        return f"{self.intent} ({self.probability:.0%}){slots}"
