"""The values that reading questions gives: questions with their right answers, and the report of what was read.

A room of its own because data may come from anywhere, and whoever makes questions needs no file reader.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

_PLACES_SHOWN = 5


@dataclass(frozen=True)
class GoldAnswer:
    """A right answer, and where it begins in the context, in characters."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Question:
    """A question on a context, with its right answers; none where the context does not answer it (SQuAD 2.0)."""

    question: str
    context: str
    answers: tuple[GoldAnswer, ...] = ()
    id: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The right answers as text."""
        return tuple(answer.text for answer in self.answers)


@dataclass(frozen=True)
class DroppedQuestion:
    """An entry that was not used."""

    reason: str
    place: str


@dataclass(frozen=True)
class QuestionReport:
    """How many questions were read and kept, and which were dropped for what reason; prints as a small text."""

    files: tuple[str, ...]
    read: int
    kept: int
    unanswerable: int
    dropped: tuple[DroppedQuestion, ...] = ()

    def to_dict(self) -> dict:
        """The report as plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        top = f"{self.read:,} questions read, {self.kept:,} kept, {len(self.dropped):,} dropped"
        lines = [f"{top}; {self.unanswerable:,} have no answer" if self.unanswerable else top]
        for reason in dict.fromkeys(drop.reason for drop in self.dropped):
            places = [drop.place for drop in self.dropped if drop.reason == reason]
            more = f" and {len(places) - _PLACES_SHOWN:,} more" if len(places) > _PLACES_SHOWN else ""
            lines.append(f"  {reason}: {len(places):,} ({', '.join(places[:_PLACES_SHOWN])}{more})")
        return "\n".join(lines)


@dataclass(frozen=True)
class Questions(Sequence):
    """The questions of one or more files, in order. A slice is a tuple of questions.

    Example:
        >>> questions = as_questions([("Where?", "It is in Rome.")], ["Rome"])
        >>> questions[0].answers
        (GoldAnswer(text='Rome', start=9),)
    """

    questions: tuple[Question, ...]
    report: QuestionReport

    def __len__(self) -> int:
        return len(self.questions)

    def __getitem__(self, index):
        return self.questions[index]
