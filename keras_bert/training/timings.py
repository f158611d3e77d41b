"""What a run costs, in seconds: a step, an evaluation, and what happens once. And a clock for the steps of `fit`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

_LEAST_EXECUTIONS = 3


@dataclass(frozen=True, kw_only=True)
class Timings:
    """The measured times of a run, in seconds.

    Args:
        step: One training step.
        check: One evaluation, if there is validation data, and one saved state.
        once: What happens once in a run: compilation, the first pass over the validation examples, saving the model.
        read: A teacher reading one row; 0 without a teacher.
        reads: How many rows it reads for a step, on average.
        rows: How many rows there are for it to read; `None` where it reads them anew each time.
    """

    step: float
    check: float
    once: float
    read: float = 0.0
    reads: float = 0.0
    rows: int | None = None


class StepClock(keras.callbacks.Callback):
    """Notes the time at the end of every execution; stops the training when enough time is measured."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.began = seconds, time.monotonic()
        self.steps: list[int] = []
        self.times: list[float] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.steps.append(batch + 1)
        self.times.append(time.monotonic() - self.began)
        measured = self.times[-1] - self.times[0]
        if len(self.times) > _LEAST_EXECUTIONS and measured >= self.seconds:
            self.model.stop_training = True

    @property
    def step(self) -> float:
        """Seconds of a step, without the first execution, which includes the compilation."""
        return (self.times[-1] - self.times[0]) / (self.steps[-1] - self.steps[0])

    @property
    def compilation(self) -> float:
        """Seconds of the compilation."""
        return max(0.0, self.times[0] - self.steps[0] * self.step)


def seconds_of(run: Callable[..., Any], *arguments: Any, **options: Any) -> float:
    """Call a function; the seconds it took."""
    began = time.monotonic()
    run(*arguments, **options)
    return time.monotonic() - began
