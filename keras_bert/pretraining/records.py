"""What a pretraining run leaves behind beside its model: its plan, its history, TensorBoard's scalars, a NaN's batches.

Takes the logs of `fit`, gives files in the run's directory: `plan.json`, `history.jsonl` (a line for every saved
state), `logs/` and, if it comes to that, `nan-batches.npz`. A room of its own because the records of a run that was
killed and started again must be those of a run that was not: what was written too much is cut off, nothing stands
there twice.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.pretraining.plan import PretrainingPlan
from keras_bert.system.atomic_files import write_whole

HISTORY, PLAN, LOGS = "history.jsonl", "plan.json", "logs"

# === History ===


class RecordHistory(keras.callbacks.Callback):
    """Writes the numbers of every epoch to `history.jsonl`, and to `logs/` for TensorBoard.

    Beside the losses and metrics: `learning_rate`, `tokens` (real ones, read in the epoch), `seconds` (of training) and
    `tokens_per_second`, in which the compilation of the first step does not count.

    Args:
        directory: The run's directory.
        steps_per_epoch: What `fit` gets.
        start: The step at which this start of the run begins; later lines are cut off.

    Example:
        ```python
        model.fit(data, steps_per_epoch=500, callbacks=[RecordHistory("my-bert", steps_per_epoch=500)])
        ```
    """

    def __init__(self, directory: str | os.PathLike, *, steps_per_epoch: int, start: int = 0):
        super().__init__()
        self.directory, self.steps_per_epoch, self.start = Path(directory), steps_per_epoch, start
        self.scalars = None
        self.compiled = False

    def on_train_begin(self, logs=None):
        path = self.directory / HISTORY
        with explained_write(path):
            self.directory.mkdir(parents=True, exist_ok=True)
            rows = [row for row in _rows(path) if row["step"] <= self.start]
            write_whole(path, "".join(json.dumps(row) + "\n" for row in rows))
            shutil.rmtree(self.directory / LOGS, ignore_errors=True)  # written anew, so that nothing is there twice
            self.scalars = ScalarFile(self.directory / LOGS)
            for row in rows:
                self.scalars.write(row)

    def on_epoch_begin(self, epoch, logs=None):
        self.began = self.counted_from = self.ended = time.monotonic()
        self.counted_share = 1.0  # of the epoch's steps: those after the compilation

    def on_train_batch_end(self, batch, logs=None):
        self.ended = time.monotonic()
        if not self.compiled and batch + 1 < self.steps_per_epoch:
            self.counted_from, self.counted_share = self.ended, 1 - (batch + 1) / self.steps_per_epoch
        self.compiled = True

    def on_epoch_end(self, epoch, logs=None):
        numbers = {self._full_name(name): float(value) for name, value in logs.items() if name != "val_tokens"}
        row = {"step": (epoch + 1) * self.steps_per_epoch, **numbers}
        row["learning_rate"] = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        row["seconds"] = round(self.ended - self.began, 3)
        if "tokens" in row:
            row["tokens"] = int(row["tokens"])
            counted = row["tokens"] * self.counted_share
            row["tokens_per_second"] = round(counted / (self.ended - self.counted_from), 1)
        path = self.directory / HISTORY
        with explained_write(path):
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            self.scalars.write(row)

    def _full_name(self, name):
        """Keras leaves out the output's name where a model has one output alone: the masked LM without NSP."""
        measured = name.removeprefix("val_")
        if len(self.model.output) > 1 or measured not in ("accuracy", "perplexity"):
            return name
        return f"{name.removesuffix(measured)}{next(iter(self.model.output))}_{measured}"


def read_history(path: str | os.PathLike) -> dict[str, list[float]]:
    """The columns of a `history.jsonl`, whose last line may be half written.

    Example:
        ```python
        read_history("my-bert/history.jsonl")["loss"][-1]
        ```
    """
    rows = _rows(Path(path))
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name, float("nan")) for row in rows] for name in names}


def _rows(path):
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]  # a killed run may leave half a line


class ScalarFile:
    """An event file that TensorBoard reads. `tf.summary.scalar` would need TensorBoard installed; this does not.

    Example:
        ```python
        ScalarFile("my-bert/logs").write({"step": 500, "loss": 4.2, "val_loss": 4.3})
        ```
    """

    def __init__(self, directory: str | os.PathLike):
        Path(directory).mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{os.getpid()}"
        self.writer = tf.io.TFRecordWriter(os.fspath(Path(directory) / name))
        self._write(tf.compat.v1.Event(wall_time=time.time(), file_version="brain.Event:2"))

    def write(self, row: dict[str, float]) -> None:
        """All numbers of a row, at its `step`."""
        names = [name for name in row if name != "step"]
        values = [tf.compat.v1.Summary.Value(tag=name, simple_value=row[name]) for name in names]
        summary = tf.compat.v1.Summary(value=values)
        self._write(tf.compat.v1.Event(wall_time=time.time(), step=int(row["step"]), summary=summary))

    def _write(self, event):
        self.writer.write(event.SerializeToString())
        self.writer.flush()


# === Plan ===


# What version 0.1.0 did where its plan did not say otherwise.
_OLD_DEFAULTS: dict[str, Any] = {
    "learning_rate": 1e-4,
    "beta_2": 0.999,
    "warmup": 0.1,
    "dropout": None,
    "mask_rate": 0.15,
    "final_mask_rate": None,
}


def keep_old_defaults(plan: PretrainingPlan, directory: str | os.PathLike) -> PretrainingPlan:
    """The plan with which a run of version 0.1.0 goes on as it began: that version's defaults for what it leaves open.

    Args:
        plan: What the run is started with now.
        directory: The run's directory; without a `plan.json` of that version the plan stays as it is.
    """
    before = _read_plan(directory)
    if not before or "mask_rate" in before:
        return plan
    defaults = {field.name: field.default for field in dataclasses.fields(plan)}
    unsaid = {name: old for name, old in _OLD_DEFAULTS.items() if getattr(plan, name) == defaults[name]}
    return dataclasses.replace(plan, **unsaid)


def _read_plan(directory):
    path = Path(directory) / PLAN
    return json.loads(path.read_text(encoding="utf-8")).get("plan", {}) if path.exists() else {}


def write_plan(directory: str | os.PathLike, record: dict[str, Any]) -> None:
    """Write how a run is done; where the directory has another plan, warn of what is different from now on.

    Args:
        directory: The run's directory.
        record: The plan's fields under `"plan"`, and anything else that is worth knowing.
    """
    path = Path(directory) / PLAN
    before = _read_plan(directory)
    now = json.loads(json.dumps(record["plan"]))  # as it is read: a tuple is a list
    changes = [
        f"{name} was {before[name]!r}, is {now[name]!r}" for name in now if before.get(name, now[name]) != now[name]
    ]
    if changes:
        warnings.warn(f"{directory} was begun with another plan: {'; '.join(changes)}.", stacklevel=3)
    with explained_write(path):
        write_whole(path, json.dumps(record, indent=2) + "\n")


# === Files ===


@contextlib.contextmanager
def explained_write(path: Path) -> Iterator[None]:
    """Say what a failed write means for the run."""
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        raise OSError(
            f"{path} could not be written ({error}); the states in {path.parent / 'state'} are whole. Make room, and "
            "start again to go on from the newest."
        ) from error


# === NaN ===


class StopOnNaN(keras.callbacks.Callback):
    """Stops at the first loss that is no number, and saves its batch for a look. The last good state stays.

    Where several steps run in one execution, the batches of all of them are saved, for any of them may be the one.

    Args:
        directory: The run's directory.
        batches_from: Step → the batches from there on, as `training_batches` gives them.
        steps_per_epoch: What `fit` gets.
    """

    def __init__(
        self, directory: str | os.PathLike, batches_from: Callable[[int], tf.data.Dataset], *, steps_per_epoch: int
    ):
        super().__init__()
        self.directory, self.batches_from, self.steps_per_epoch = Path(directory), batches_from, steps_per_epoch

    def on_epoch_begin(self, epoch, logs=None):
        self.before = self.good = epoch * self.steps_per_epoch

    def on_train_batch_end(self, batch, logs=None):
        step = self.before + batch + 1
        if np.isfinite(logs["loss"]):
            self.good = step
            return
        batches = list(self.batches_from(self.good).take(step - self.good))  # drawn again, by seed and step
        arrays = {
            name: np.stack([{**inputs, **labels}[name] for inputs, labels, _ in batches]) for name in _names(batches)
        }
        path = self.directory / "nan-batches.npz"
        np.savez(path, step=np.arange(self.good + 1, step + 1), **arrays)
        where = f"step {step}" if step == self.good + 1 else f"one of the steps {self.good + 1} to {step}"
        raise FloatingPointError(
            f"The loss at {where} is {logs['loss']}; what was read there is in {path}. Start again from the last good "
            "state with a lower learning rate."
        )


def _names(batches):
    inputs, labels, _ = batches[0]
    return [*inputs, *labels]
