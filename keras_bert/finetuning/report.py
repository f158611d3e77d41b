"""The report of a fine-tuning: its runs, their scores and measurements."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_bert.finetuning.recipes import RECIPES, Recipe
from keras_bert.finetuning.trained_parts import ParameterCount


@dataclass(frozen=True)
class Run:
    """The result of one seed.

    Args:
        seed: The seed.
        score: The best score.
        degenerate: Whether the model gives every text the same answer.
        steps: The number of steps.
        seconds: The time that it took.
        epochs: The number of passes over the data; `planned_epochs` is the number in the recipe.
        best_epoch: The number of the measurement, as in the history, that had the best weights.
        stopped_early: Whether it ended because the score no longer improved (`Recipe.patience`).
        reused: Whether it was finished before, and was read from its directory.
    """

    seed: int
    score: float
    degenerate: bool
    steps: int
    seconds: float
    epochs: float | None = None
    planned_epochs: float | None = None
    best_epoch: int | None = None
    stopped_early: bool = False
    reused: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        words = [f"{self.steps} steps, {self.seconds:.0f} s"]
        if self.stopped_early:
            words.append(f"stopped early after {self.epochs:.3g} of {self.planned_epochs:.3g} epochs")
        if self.degenerate:
            words.append("degenerate: the same class for every text")
        if self.reused:
            words.append("finished before: read from its directory")
        return "   ".join(words)


@dataclass(frozen=True)
class FinetuneReport:
    """The report of a fine-tuning. Prints as a small table.

    Args:
        recipe: The recipe.
        metric: The name of the score on the validation data.
        runs: One run for each seed, including degenerate ones that were replaced.
        parameters: How many parameters trained.
        measurements: Those of the best run, one row each: the number of the epoch, losses, the metric.
        interrupted: Whether Ctrl-C ended it; the model is then the best so far.
        averaged: The seeds whose weights were averaged (`Recipe.average`); empty if the model is that of `best`.
        averaged_score: The score of the averaged model.
        notes: Sentences about what was cut or dropped.
    """

    recipe: Recipe
    metric: str
    runs: tuple[Run, ...]
    parameters: ParameterCount
    measurements: tuple[dict[str, Any], ...]
    interrupted: bool = False
    averaged: tuple[int, ...] = ()
    averaged_score: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def history(self) -> dict[str, list[float]]:
        """The measurements in the form of Keras' `History.history`: a list for each number.

        Example:
            ```python
            report = classifier.fit(texts, labels, validation_split=0.1)
            report.history["val_accuracy"]  # [0.71, 0.83, 0.85]
            ```
        """
        names = list(dict.fromkeys(name for row in self.measurements for name in row if name != "epoch"))
        return {name: [row.get(name, float("nan")) for row in self.measurements] for name in names}

    @property
    def epoch(self) -> list[int]:
        """The numbers of the epochs, from 0, as in Keras' `History.epoch`."""
        return [row["epoch"] - 1 for row in self.measurements]

    @property
    def score(self) -> float:
        """The score of the kept model on the validation data; NaN without validation data."""
        return self.best.score if self.averaged_score is None else self.averaged_score

    @property
    def best(self) -> Run:
        """The best run; its model is kept unless runs were averaged."""
        return max(self.runs, key=lambda run: (not run.degenerate, np.nan_to_num(run.score, nan=-np.inf)))

    @property
    def mean(self) -> float:
        """The mean score over the seeds, without degenerate runs that were replaced."""
        return float(np.mean([run.score for run in self.counted]))

    @property
    def std(self) -> float:
        """The standard deviation over the seeds."""
        return float(np.std([run.score for run in self.counted]))

    @property
    def counted(self) -> tuple[Run, ...]:
        """One run for each seed of the recipe: a degenerate one only if no restart replaced it."""
        good = [run for run in self.runs if not run.degenerate]
        bad = [run for run in self.runs if run.degenerate]
        return tuple((good + bad)[: max(len(self.recipe.seeds), len(good))])

    def __str__(self) -> str:
        lines = [str(self.recipe), f"{self.parameters}"]
        lines += [f"  seed {run.seed:<6} {self.metric} {run.score:.4f}   {run}" for run in self.runs]
        if len(self.runs) > 1:
            is_mean = len(self.averaged) > 1
            seeds = f"the mean of seeds {', '.join(map(str, self.averaged))}" if is_mean else f"seed {self.best.seed}"
            kept = f"kept {seeds}: {self.score:.4f}"
            lines.append(f"  mean {self.metric} {self.mean:.4f} ± {self.std:.4f}; {kept}")
        if self.interrupted:
            lines.append("  interrupted: the model is the best so far")
        elif self.best.degenerate:
            lines.append(f"  {self._advice()}")
        if any(run.stopped_early for run in self.runs) and self.recipe.patience is None:
            lines.append("  stopped early by a callback")
        elif any(run.stopped_early for run in self.runs):
            times = f"{self.recipe.patience} measurement{'s' * (self.recipe.patience != 1)}"
            lines.append(f"  stopped early: {times} without improvement; patience=None trains to the end")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _advice(self) -> str:
        """Return what to try when a model has learned nothing."""
        few = RECIPES["few_sample"].steps or 0
        if self.best.steps < few and self.recipe.name != "few_sample":
            own = self.best.steps
            way = f"{own} steps are few: try the recipe few_sample, which takes at least {few}, or more epochs"
        else:
            way = "try another learning rate, and check that texts and labels belong together"
        return f"the model has learned nothing yet; {way}"
