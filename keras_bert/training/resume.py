"""Saves and restores the state of a training run, so that a killed run can resume exactly.

The state is everything that the next step depends on: the weights, the optimizer with its step count, and the seeds of
dropout, which Keras' own checkpoints leave out. The position in the data is the step itself, because the input pipeline
depends only on seed and step. A resumed run gives the same numbers as one that was never killed.
"""

import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from keras_bert.model.weights import to_numpy
from keras_bert.system.atomic_files import sync
from keras_bert.system.termination import Termination, noticing_termination

_TERMINATED = 128 + 15  # the status of a process that SIGTERM ended, as shells say it
_NAME = re.compile(r"step-(\d{9})")


class SaveState(keras.callbacks.Callback):
    """Saves the state of a run at the end of every epoch, and keeps the newest states.

    With `fit(steps_per_epoch=…)`, a killed run loses at most that many steps.

    Args:
        directory: Where states are written, as `step-000001000/`.
        keep: How many states to keep.
        steps_per_epoch: The argument of `fit`, to count steps by epochs; `None` takes the optimizer's count, which
            leaves out the steps that float16's loss scaling skips.

    Example:
        ```python
        step = restore_state(model, "run/state")  # 0 at the first start
        model.fit(data.skip(step), steps_per_epoch=500, initial_epoch=step // 500, epochs=20,
                  callbacks=[SaveState("run/state")])
        ```
    """

    def __init__(self, directory: str | os.PathLike[str], *, keep: int = 2, steps_per_epoch: int | None = None):
        super().__init__()
        if keep < 1:
            raise ValueError(f"keep={keep}: expected at least one state to keep.")
        self.directory, self.keep, self.steps_per_epoch = Path(directory), keep, steps_per_epoch

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        require_writable(self.directory)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        step = None if self.steps_per_epoch is None else (epoch + 1) * self.steps_per_epoch
        save_state(self.model, self.directory, keep=self.keep, step=step)


class _SaveWhenTerminated(keras.callbacks.Callback):
    """Saves the state after the step in which SIGTERM came, and ends the process."""

    def __init__(self, termination: Termination, directory: Path, keep: int, start: int, steps_per_epoch: int):
        super().__init__()
        self.termination, self.directory, self.keep = termination, directory, keep
        self.start, self.steps_per_epoch = start, steps_per_epoch

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.before = max(self.start, epoch * self.steps_per_epoch)
        if self.termination.asked:  # while the epoch before was measured; its state is saved
            self._end(self.before)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self.termination.asked:
            step = self.before + batch + 1
            save_state(self.model, self.directory, keep=self.keep, step=step)
            self._end(step)

    def _end(self, step: int) -> None:
        kept = f"the state after step {step:,} is in {self.directory}" if step else "no step was done yet"
        print(f"Asked to stop; {kept}. Start the same again to go on.", file=sys.stderr)
        raise SystemExit(_TERMINATED)


@contextlib.contextmanager
def saved_when_terminated(
    directory: str | os.PathLike[str], *, start: int, steps_per_epoch: int, keep: int = 2
) -> Iterator[keras.callbacks.Callback]:
    """Give a callback for `fit`, by which SIGTERM ends the process after the step that runs, with its state saved.

    A resumed run then begins within an epoch; `steps_of_epoch` says how many steps are left of it. The status of the
    process is 143, as if the signal had ended it.

    Args:
        directory: Where states are written, as for `SaveState`.
        start: The step that `fit` begins after.
        steps_per_epoch: Of whole epochs.
        keep: How many states to keep.

    Example:
        ```python
        with saved_when_terminated("run/state", start=step, steps_per_epoch=500) as callback:
            model.fit(data.skip(step), callbacks=[SaveState("run/state"), callback])
        ```
    """
    with noticing_termination() as termination:
        yield _SaveWhenTerminated(termination, Path(directory), keep, start, steps_per_epoch)


def steps_of_epoch(start: int, steps_per_epoch: int, end: int) -> tuple[int, int]:
    """The steps of each epoch of the next `fit`, and the step that it ends at: all to the end, or the rest of an epoch.

    Example:
        >>> steps_of_epoch(0, 500, 2000), steps_of_epoch(1200, 500, 2000)
        ((500, 2000), (300, 1500))
    """
    done = start % steps_per_epoch
    return (steps_per_epoch - done, start - done + steps_per_epoch) if done else (steps_per_epoch, end)


def require_writable(directory: str | os.PathLike[str]) -> None:
    """Raise an error if nothing can be written to a directory, before hours of training are lost."""
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OSError(f"{directory} cannot be written ({error}); choose another directory.") from error


def save_state(
    model: keras.Model, directory: str | os.PathLike[str], *, keep: int = 2, step: int | None = None
) -> Path:
    """Write the state of a model in training, keep the newest `keep` states, and return the directory of this one.

    The new state is complete on the disk before an old one is deleted, so a full disk leaves the last good one. `step`
    is the position in the data; `None` takes the optimizer's count of updates.
    """
    directory = Path(directory)
    arrays = {name: to_numpy(variable) for name, variable in _state(model).items()}
    step = int(to_numpy(model.optimizer.iterations)) if step is None else step
    final, partial = directory / f"step-{step:09d}", directory / f".step-{step:09d}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        save_file(arrays, partial / "state.safetensors")
        (partial / "state.json").write_text(json.dumps({"step": step, "arrays": len(arrays)}) + "\n")
        for path in (partial / "state.safetensors", partial / "state.json", partial):
            sync(path)
        shutil.rmtree(final, ignore_errors=True)  # the same step, from before a resume
        os.replace(partial, final)
        sync(directory)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        good = _states(directory)
        last = f"the last good state is {good[-1]}" if good else "there is no earlier state"
        raise OSError(
            f"The state of step {step} could not be written to {directory} ({error}); {last}. Free some space, or "
            "choose another directory."
        ) from error
    for old in _states(directory)[:-keep]:
        shutil.rmtree(old)
    return final


def restore_state(model: keras.Model, directory: str | os.PathLike[str]) -> int:
    """Load the newest saved state into a compiled model and return its step, 0 if nothing was saved yet."""
    states = _states(Path(directory))
    if not states:
        return 0
    path = states[-1] / "state.safetensors"
    try:
        arrays = load_file(path)
    except SafetensorError as error:
        raise ValueError(
            f"{path} is damaged ({error}); delete {states[-1]} to resume from the state before it."
        ) from error
    model.optimizer.build(model.trainable_variables)
    variables = _state(model)
    wrong = sorted(set(arrays) ^ set(variables))
    wrong += [n for n in arrays if n in variables and tuple(variables[n].shape) != arrays[n].shape]
    if wrong:
        raise ValueError(
            f"{path} is the state of another model or optimizer; these differ: {', '.join(wrong[:5])}"
            f"{' …' if len(wrong) > 5 else ''}. Use the settings that it was saved with, or another directory."
        )
    for name, array in arrays.items():
        variables[name].assign(array)
    return int(states[-1].name.removeprefix("step-"))


def newest_step(directory: str | os.PathLike[str]) -> int:
    """The step of the newest saved state, 0 where there is none yet."""
    states = _states(Path(directory))
    return int(states[-1].name.removeprefix("step-")) if states else 0


def _state(model: keras.Model) -> dict[str, Any]:
    """Return all variables that the next step depends on, by a name that is the same in every process."""
    model.optimizer.build(model.trainable_variables)
    state = {f"optimizer/{index}": variable for index, variable in enumerate(model.optimizer.variables)}
    return state | {f"model/{index}": variable for index, variable in enumerate(_model_variables(model))}


def _model_variables(model: keras.Model) -> list[Any]:
    # `variables` has the seeds of dropout, which `weights` leaves out, and also those of metrics, which are reset.
    metrics = {id(variable) for metric in model.metrics for variable in metric.variables}
    return [variable for variable in model.variables if id(variable) not in metrics]


def _states(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("step-*") if _NAME.fullmatch(path.name))
