"""Questions with their right answers, and the report of what was read."""

from dataclasses import dataclass

from keras_bert.data.examples import RowReport, Rows

_PLACES_SHOWN = 5


@dataclass(frozen=True)
class GoldAnswer:
    """A right answer, and its start in the context, in characters."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """The end in the context."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Question:
    """A question about a context, with its right answers; none if the context has no answer (SQuAD 2.0)."""

    question: str
    context: str
    answers: tuple[GoldAnswer, ...] = ()
    id: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The right answers as text."""
        return tuple(answer.text for answer in self.answers)


@dataclass(frozen=True)
class QuestionReport(RowReport):
    """How many questions were read and kept, how many have no answer, and which were dropped and why."""

    unanswerable: int = 0

    def __str__(self) -> str:
        top = f"{self.read:,} questions read, {self.kept:,} kept, {len(self.dropped):,} dropped"
        lines = [f"{top}; {self.unanswerable:,} have no answer" if self.unanswerable else top]
        for reason in dict.fromkeys(drop.reason for drop in self.dropped):
            places = [drop.place for drop in self.dropped if drop.reason == reason]
            more = f" and {len(places) - _PLACES_SHOWN:,} more" if len(places) > _PLACES_SHOWN else ""
            lines.append(f"  {reason}: {len(places):,} ({', '.join(places[:_PLACES_SHOWN])}{more})")
        return "\n".join(lines)


@dataclass(frozen=True)
class Questions(Rows[Question]):
    """The questions of one or more files.

    Example:
        >>> from keras_bert.tasks.question_answering.files import as_questions
        >>> questions = as_questions([("Where?", "It is in Rome.")], ["Rome"])
        >>> questions[0].answers
        (GoldAnswer(text='Rome', start=9),)
    """

    report: QuestionReport

    @property
    def questions(self) -> tuple[Question, ...]:
        """All questions."""
        return self.examples
