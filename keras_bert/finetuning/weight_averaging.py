"""The weights of several runs → one model that is often better than each of them, at the price of one.

Runs that begin with the same pretrained weights end in the same valley; the mean of their weights lies deeper in it
than they do (Wortsman et al. 2022, arXiv 2203.05482, "model soups"). Of an ensemble it has most of the gain and none of
the cost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import keras
import numpy as np

from keras_bert.finetuning.best_weights import Score
from keras_bert.model.weights import to_numpy


@dataclass(frozen=True)
class RunWeights:
    """What a run has learned."""

    seed: int
    score: float
    weights: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, model: keras.Model, seed: int, score: float) -> "RunWeights":
        """The trained weights of a model."""
        return cls(seed, score, tuple(to_numpy(variable) for variable in model.trainable_variables))

    def give(self, model: keras.Model) -> None:
        """Put them into a model of the same kind."""
        for variable, value in zip(model.trainable_variables, self.weights, strict=True):
            variable.assign(value)


def average_runs(
    model: keras.Model, runs: Sequence[RunWeights], measure: Callable[[keras.Model], Score] | None
) -> tuple[tuple[int, ...], float]:
    """Give a model the mean of some runs' weights: to the best run joins, time and again, the one that helps most.

    It ends where every other run would lower the score. The order of the runs' own scores says little about who helps
    whom, and a measurement costs little beside a run.

    Args:
        model: A model of the runs' kind; it ends with the weights that were found.
        runs: What to average.
        measure: Takes the model, gives its `Score` on validation data; `None` takes all runs.

    Returns:
        The seeds of the runs that are in it, and its score (NaN where nothing was measured).

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
        best = int(np.argmax(tried))  # of equals the one with the better score of its own
        if not tried[best] >= score:
            break
        kept, score = [*kept, rest.pop(best)], tried[best]
    _mean(kept).give(model)
    return tuple(run.seed for run in kept), score


def _measured(runs, model, measure) -> float:
    """The score of their mean; of one that degenerates, less than any."""
    _mean(runs).give(model)
    found = measure(model)
    return -np.inf if found.degenerate else float(np.nan_to_num(found.value, nan=-np.inf))


def _mean(runs):
    weights = (np.mean(values, axis=0) for values in zip(*(run.weights for run in runs), strict=True))
    return RunWeights(-1, float("nan"), tuple(weights))
