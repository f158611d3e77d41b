"""Averages the weights of several runs to one model, which is often better than each of them.

Runs from the same pretrained weights end close to each other, so that the mean of their weights is a good model, too
(Wortsman et al. 2022, arXiv 2203.05482, "model soups"). It has most of the gain of an ensemble at the cost of one
model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import keras
import numpy as np

from keras_bert.finetuning.best_weights import Score
from keras_bert.model.weights import to_numpy


@dataclass(frozen=True)
class RunWeights:
    """The weights of a run, with its seed and score."""

    seed: int
    score: float
    weights: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, model: keras.Model, seed: int, score: float) -> "RunWeights":
        """Copy the trained weights of a model."""
        return cls(seed, score, tuple(to_numpy(variable) for variable in model.trainable_variables))

    def give(self, model: keras.Model) -> None:
        """Assign the weights to a model of the same kind."""
        for variable, value in zip(model.trainable_variables, self.weights, strict=True):
            variable.assign(value)


def average_runs(
    model: keras.Model, runs: Sequence[RunWeights], measure: Callable[[keras.Model], Score] | None
) -> tuple[tuple[int, ...], float]:
    """Load the mean of some runs' weights into a model.

    It starts with the best run and repeatedly adds the run that improves the mean most, until every other run would
    lower the score. All of them are tried each time: a run's own score says little about how much it helps, and a
    measurement is cheap compared to a run.

    Args:
        model: A model of the runs' kind, which gets the mean.
        runs: The runs to average.
        measure: A function that takes the model and returns its `Score` on validation data; `None` averages all runs.

    Returns:
        The seeds of the averaged runs, and the score of the mean (NaN if nothing was measured).

    Example:
        ```python
        seeds, score = average_runs(model, [RunWeights.of(first, 0, 0.89), RunWeights.of(second, 1, 0.90)], measure)
        ```
    """
    ordered = sorted(runs, key=lambda run: -np.nan_to_num(run.score, nan=-np.inf))
    if measure is None:
        _mean(ordered).give(model)
        return tuple(run.seed for run in ordered), float("nan")
    kept, rest, score = ordered[:1], ordered[1:], ordered[0].score
    while rest:
        tried = [_measured([*kept, run], model, measure) for run in rest]
        best = int(np.argmax(tried))  # of equal ones, the run that has the better score itself
        if not tried[best] >= score:
            break
        kept, score = [*kept, rest.pop(best)], tried[best]
    _mean(kept).give(model)
    return tuple(run.seed for run in kept), score


def _measured(runs: Sequence[RunWeights], model: keras.Model, measure: Callable[[keras.Model], Score]) -> float:
    """Return the score of the runs' mean; minus infinity if it is degenerate."""
    _mean(runs).give(model)
    found = measure(model)
    return -np.inf if found.degenerate else float(np.nan_to_num(found.value, nan=-np.inf))


def _mean(runs: Sequence[RunWeights]) -> RunWeights:
    weights = (np.mean(values, axis=0) for values in zip(*(run.weights for run in runs), strict=True))
    return RunWeights(-1, float("nan"), tuple(weights))
