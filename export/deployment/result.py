"""What a deployment found, as a value: the rows, the choice, and whether the promise is kept.

Takes numbers, gives `Deployment`, which prints as a table. A room of its own because the report, the model card and the
manifest all tell the same story, and none of them needs a model for it.
"""

from dataclasses import dataclass
from pathlib import Path

from export.search.intervals import ScoreInterval
from export.search.trials import Trial, as_table, pareto_front


@dataclass(frozen=True)
class Deployment:
    """What `deploy` found and wrote. Prints as a table.

    Args:
        directory: Where everything is.
        chosen: The row of `model.tflite`.
        trials: All rows, in the order in which they were tried.
        reference: The teacher's float32 file.
        metric: What the scores measure.
        teacher_score: The teacher's score on the validation data.
        budget: How much of it might be lost.
        is_kept: Whether the chosen file keeps the promise.
        interval: How far its score is from the teacher's, and how sure that is; `None` where that cannot be told.
        notes: What is worth knowing, in words.
    """

    directory: Path
    chosen: Trial
    trials: tuple[Trial, ...]
    reference: Trial
    metric: str
    teacher_score: float
    budget: float
    is_kept: bool
    interval: ScoreInterval | None
    notes: tuple[str, ...] = ()

    @property
    def front(self) -> list[Trial]:
        """The rows that no other beats in score, size and time at once; smallest first."""
        return pareto_front(self.trials)

    def __str__(self) -> str:
        smaller = self.reference.num_bytes / self.chosen.num_bytes
        lines = [
            as_table(self.trials, metric=self.metric, chosen=self.chosen),
            f"* {self.chosen.name}: {smaller:.1f}× smaller, {self.chosen.speedup:.1f}× faster than the teacher in "
            f"float32; {self.metric} {self.chosen.score:.4f}, the teacher's is {self.teacher_score:.4f}",
        ]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes), f"  {self.directory / 'report.html'}"])

    @property
    def smaller(self) -> float:
        """How many times smaller than the teacher's float32 file the chosen one is."""
        return self.reference.num_bytes / self.chosen.num_bytes

    @property
    def lost(self) -> float:
        """How much of the score is lost; negative where something was gained."""
        return self.teacher_score - self.chosen.score

    @property
    def verdict(self) -> str:
        """In one sentence whether the promise is kept."""
        change = f"{self.metric} {self.chosen.score:.4f} against the teacher's {self.teacher_score:.4f}"
        if self.is_kept:
            return f"Within the budget of {100 * self.budget:g} points: {change}."
        over = 100 * (self.lost - self.budget)
        return f"The budget of {100 * self.budget:g} points cannot be met: {change}, {over:.2f} points beyond it."
