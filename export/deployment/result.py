"""The result of a deployment as a value: the trials, the choice, and whether the budget is kept. Prints as a table."""

from dataclasses import dataclass
from pathlib import Path

from export.search.intervals import ScoreInterval
from export.search.trials import Trial, as_table, pareto_front


@dataclass(frozen=True)
class Deployment:
    """What `deploy` found and wrote. Prints as a table.

    Args:
        directory: The directory of all files.
        chosen: The trial of `model.tflite`.
        trials: All trials, in order.
        reference: The trial of the teacher's float32 file.
        metric: The metric of the scores.
        teacher_score: The teacher's score on the validation data.
        budget: How much of it may be lost.
        is_kept: Whether the chosen file is within the budget.
        interval: The score minus the teacher's, with a confidence interval; `None` if it cannot be computed.
        notes: Remarks on the data and the result.
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
        """The trials that no other beats in all of score, size and time; smallest first."""
        return pareto_front(self.trials)

    def __str__(self) -> str:
        smaller = self.reference.num_bytes / self.chosen.num_bytes
        lines = [
            as_table(self.trials, metric=self.metric, chosen=self.chosen),
            f"* {self.chosen.name}: {smaller:.1f}× smaller, {times_faster(self.chosen.speedup)} than the teacher in "
            f"float32; {self.metric} {self.chosen.score:.4f}, the teacher's is {self.teacher_score:.4f}",
        ]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes), f"  {self.directory / 'report.html'}"])

    @property
    def smaller(self) -> float:
        """How many times smaller the chosen file is than the teacher's float32 file."""
        return self.reference.num_bytes / self.chosen.num_bytes

    @property
    def lost(self) -> float:
        """How much of the score is lost; negative if it is higher."""
        return self.teacher_score - self.chosen.score

    @property
    def verdict(self) -> str:
        """A sentence that says whether the budget is kept."""
        change = f"{self.metric} {100 * self.chosen.score:.2f}%, the teacher's {100 * self.teacher_score:.2f}%"
        if self.is_kept:
            return f"Within the budget of {count_points(self.budget)}: {change}."
        over = 100 * (self.lost - self.budget)
        return f"The budget of {count_points(self.budget)} cannot be met: {change}, {over:.2f} points beyond it."


def count_points(share: float) -> str:
    """A share of the metric in words: `0.01` is `1 point`, `0.03` is `3 points`."""
    number = f"{100 * share:g}"
    return f"{number} point{'' if number == '1' else 's'}"


def times_faster(speedup: float | None) -> str:
    """A ratio of times in words: `2.0` is `2.0× faster`, `0.5` is `2.0× slower`, `None` is `not timed`."""
    if speedup is None:
        return "not timed"
    return f"{speedup:.1f}× faster" if speedup >= 1 else f"{1 / speedup:.1f}× slower"
