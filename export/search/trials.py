"""Collect the trials of a search, and choose the best.

`Trial` is a row of the search's table, as JSON and back. `pareto_front` finds the trials that no other beats, `choose`
the smallest within the budget.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from export.search.candidates import Candidate, describe_lengths
from keras_bert.system.atomic_files import write_whole

MEASURED, FAILED, SKIPPED = "measured", "failed", "skipped"
_SAME_SIZE = 1.02  # files this close in size count as equal, and the faster one is taken


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The result of a candidate.

    Args:
        key: The candidate's key.
        name: Its name.
        stage: Its stage.
        model: The name of its model.
        recipe: Its recipe.
        lengths: Its lengths, as text.
        status: `"measured"`, `"failed"` or `"skipped"`.
        note: Why it failed or was skipped.
        score: The task's metric of the file, on the validation data.
        model_score: The same of the Keras model that the file was made from.
        num_bytes: The size of the file.
        milliseconds: The mean time of a validation text, batch 1, one thread.
        teacher_milliseconds: The time of the teacher's float32 file, measured in turn with it.
        parameters: The number of parameters of the model.
        seconds: The time of the trial; `model_seconds` of it to make and train the model.
    """

    key: str
    name: str
    stage: str
    model: str
    recipe: str
    lengths: str
    status: str
    note: str = ""
    # `Any` instead of `float | None`: they are numbers if `is_measured`, and are not used otherwise.
    score: Any = None
    model_score: Any = None
    num_bytes: Any = None
    milliseconds: Any = None
    teacher_milliseconds: Any = None
    parameters: Any = None
    seconds: float = 0.0
    model_seconds: float = 0.0

    @classmethod
    def of(cls, candidate: Candidate, status: str, **numbers: Any) -> "Trial":
        """Make the trial of a candidate."""
        return cls(
            key=candidate.key,
            name=candidate.name,
            stage=candidate.model.stage,
            model=candidate.model.name,
            recipe=candidate.recipe,
            lengths=describe_lengths(candidate.lengths),
            status=status,
            **numbers,
        )

    @property
    def is_measured(self) -> bool:
        """Whether it has numbers."""
        return self.status == MEASURED

    @property
    def speedup(self) -> float | None:
        """How many times faster than the teacher's float32 file it is."""
        return self.teacher_milliseconds / self.milliseconds if self.milliseconds else None

    def save(self, path: Path) -> None:
        """Write the trial as JSON."""
        write_whole(path, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Trial | None":
        """Read a trial; `None` if there is none, or one of another version."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{field.name: values[field.name] for field in fields(cls)})
        except (OSError, ValueError, KeyError, TypeError):
            return None


def pareto_front(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that no other beats in all of score, size and time; smallest first."""
    measured = [trial for trial in trials if trial.is_measured]
    front = [trial for trial in measured if not any(_beats(other, trial) for other in measured)]
    return sorted(front, key=lambda trial: (trial.num_bytes, trial.milliseconds))


def _beats(one: Trial, other: Trial) -> bool:
    better = (one.score >= other.score, one.num_bytes <= other.num_bytes, one.milliseconds <= other.milliseconds)
    strictly = (one.score, -one.num_bytes, -one.milliseconds) != (other.score, -other.num_bytes, -other.milliseconds)
    return all(better) and strictly


def choose(trials: Sequence[Trial], least: float) -> tuple[Trial, bool]:
    """Choose a trial, and say whether it keeps the budget.

    Takes the smallest with a score of at least `least`; among equally small ones, the fastest. If there is none, takes
    the one with the best score.

    Example:
        >>> chosen, kept = choose(trials, 0.90 - 0.01)  # doctest: +SKIP
    """
    measured = [trial for trial in trials if trial.is_measured]
    if not measured:
        reasons = "; ".join(f"{trial.name}: {trial.note}" for trial in trials[:5])
        raise RuntimeError(f"No candidate could be measured ({reasons}); fix the errors, or allow more time.")
    within = [trial for trial in measured if trial.score >= least - 1e-9]
    if not within:
        return max(measured, key=lambda trial: (trial.score, -trial.num_bytes)), False
    size = min(trial.num_bytes for trial in within)
    small = [trial for trial in within if trial.num_bytes <= _SAME_SIZE * size]
    return min(small, key=lambda trial: (trial.milliseconds, trial.num_bytes)), True


def as_table(trials: Sequence[Trial], *, metric: str, chosen: Trial | None = None) -> str:
    """The trials as lines of text; a star marks the chosen one."""
    width = max(len(trial.name) for trial in trials)
    lines = [f"  {'candidate':<{width}}{metric:>14}{'MB':>9}{'ms':>9}{'faster':>9}"]
    for trial in trials:
        mark = "*" if chosen is not None and trial.key == chosen.key else " "
        if trial.is_measured:
            numbers = f"{trial.score:>14.4f}{trial.num_bytes / 1e6:>9.2f}{trial.milliseconds:>9.2f}"
            lines.append(f"{mark} {trial.name:<{width}}{numbers}{trial.speedup:>8.1f}×")
        else:
            lines.append(f"{mark} {trial.name:<{width}}  {trial.status}: {trial.note}")
    return "\n".join(lines)
