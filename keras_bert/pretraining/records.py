"""Writes the records of a pretraining run: plan, history, TensorBoard scalars, and the batches of a NaN loss.

Takes the logs of `fit`, gives files in the directory of the run: `plan.json`, `history.jsonl` (one line for every saved
state), `logs/` and, after a NaN loss, `nan-batches.npz`. A run that was killed and started again has the same records
as an uninterrupted one: lines after the last saved state are removed.
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

from keras_bert.pretraining.corpus.manifest import load_manifest
from keras_bert.pretraining.plan import PretrainingPlan
from keras_bert.system.atomic_files import write_whole

HISTORY, PLAN, LOGS = "history.jsonl", "plan.json", "logs"

# === History ===


class RecordHistory(keras.callbacks.Callback):
    """Writes the numbers of every epoch to `history.jsonl`, and to `logs/` for TensorBoard.

    Besides losses and metrics these are `learning_rate`, `tokens` (read in the epoch, without padding), `seconds` (of
    training) and `tokens_per_second` (without the compilation of the first step). Where a run was stopped within an
    epoch, losses and tokens are those of the rest of it.

    Args:
        directory: The run's directory.
        steps_per_epoch: As for `fit`.
        start: The step at which training continues; later lines are removed.

    Example:
        ```python
        model.fit(data, steps_per_epoch=500, callbacks=[RecordHistory("my-bert", steps_per_epoch=500)])
        ```
    """

    def __init__(self, directory: str | os.PathLike[str], *, steps_per_epoch: int, start: int = 0) -> None:
        super().__init__()
        self.directory, self.steps_per_epoch, self.start = Path(directory), steps_per_epoch, start
        self.scalars: ScalarFile
        self.compiled = False

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        path = self.directory / HISTORY
        with explained_write(path):
            self.directory.mkdir(parents=True, exist_ok=True)
            rows = [row for row in _rows(path) if row["step"] <= self.start]
            write_whole(path, "".join(json.dumps(row) + "\n" for row in rows))
            shutil.rmtree(self.directory / LOGS, ignore_errors=True)  # written again below, without duplicates
            self.scalars = ScalarFile(self.directory / LOGS)
            for row in rows:
                self.scalars.write(row)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.began = self.counted_from = self.ended = time.monotonic()
        self.counted_share = 1.0  # of the epoch's steps: those after the compilation
        self.steps = (epoch + 1) * self.steps_per_epoch - max(self.start, epoch * self.steps_per_epoch)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.ended = time.monotonic()
        if not self.compiled and batch + 1 < self.steps:
            self.counted_from, self.counted_share = self.ended, 1 - (batch + 1) / self.steps
        self.compiled = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = logs or {}
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

    def _full_name(self, name: str) -> str:
        """Add the name of the output, which Keras leaves out if a model has only one (the masked LM without NSP)."""
        measured = name.removeprefix("val_")
        if len(self.model.output) > 1 or measured not in ("accuracy", "perplexity"):
            return name
        return f"{name.removesuffix(measured)}{next(iter(self.model.output))}_{measured}"


def read_history(path: str | os.PathLike[str]) -> dict[str, list[float]]:
    """Read the columns of a `history.jsonl`; an incomplete last line is skipped.

    Example:
        ```python
        read_history("my-bert/history.jsonl")["loss"][-1]
        ```
    """
    rows = _rows(Path(path))
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name, float("nan")) for row in rows] for name in names}


def _rows(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]  # a killed run may leave an incomplete line


class ScalarFile:
    """Writes an event file for TensorBoard. Unlike `tf.summary.scalar`, it does not need TensorBoard installed.

    Example:
        ```python
        ScalarFile("my-bert/logs").write({"step": 500, "loss": 4.2, "val_loss": 4.3})
        ```
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        Path(directory).mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{os.getpid()}"
        self.writer = tf.io.TFRecordWriter(os.fspath(Path(directory) / name))
        self._write(tf.compat.v1.Event(wall_time=time.time(), file_version="brain.Event:2"))

    def write(self, row: dict[str, float]) -> None:
        """Write all numbers of a row, at its `step`."""
        names = [name for name in row if name != "step"]
        values = [tf.compat.v1.Summary.Value(tag=name, simple_value=row[name]) for name in names]
        summary = tf.compat.v1.Summary(value=values)
        self._write(tf.compat.v1.Event(wall_time=time.time(), step=int(row["step"]), summary=summary))

    def _write(self, event: Any) -> None:
        self.writer.write(event.SerializeToString())
        self.writer.flush()


# === Plan ===


# The defaults of version 0.1.0.
_OLD_DEFAULTS: dict[str, Any] = {
    "learning_rate": 1e-4,
    "beta_2": 0.999,
    "warmup": 0.1,
    "dropout": None,
    "mask_rate": 0.15,
    "final_mask_rate": None,
}


def keep_old_defaults(plan: PretrainingPlan, directory: str | os.PathLike[str]) -> PretrainingPlan:
    """Use the defaults of version 0.1.0 if a run was begun with it, so that the run continues as it began.

    Args:
        plan: The plan that the run is started with now.
        directory: The directory of the run; without a `plan.json` of that version the plan is returned unchanged.
    """
    before = _read_plan(directory)
    if not before or "mask_rate" in before:
        return plan
    defaults = {field.name: field.default for field in dataclasses.fields(plan)}
    unsaid = {name: old for name, old in _OLD_DEFAULTS.items() if getattr(plan, name) == defaults[name]}
    return dataclasses.replace(plan, **unsaid)


def _read_plan(directory: str | os.PathLike[str]) -> dict[str, Any]:
    path = Path(directory) / PLAN
    return json.loads(path.read_text(encoding="utf-8")).get("plan", {}) if path.exists() else {}


def write_plan(directory: str | os.PathLike[str], record: dict[str, Any]) -> None:
    """Write the plan of a run; warn of differences if the directory already has a plan.

    Args:
        directory: The run's directory.
        record: The fields of the plan under `"plan"`, and other facts about the run.
    """
    path = Path(directory) / PLAN
    before = _read_plan(directory)
    now = json.loads(json.dumps(record["plan"]))  # as JSON reads it: a tuple becomes a list
    changes = [
        f"{name} was {before[name]!r}, is {now[name]!r}" for name in now if before.get(name, now[name]) != now[name]
    ]
    if changes:
        warnings.warn(f"{directory} was begun with another plan: {'; '.join(changes)}.", stacklevel=3)
    with explained_write(path):
        write_whole(path, json.dumps(record, indent=2) + "\n")


# === Files ===


def describe_examples(examples: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a run's plan says of the examples it reads."""
    manifest = load_manifest(os.fspath(examples))
    return {
        "directory": os.fspath(examples),
        "rows": manifest.examples,
        "tokens": manifest.tokens,
        "sequence_length": manifest.settings.sequence_length,
        "pairs": manifest.settings.pairs,
    }


@contextlib.contextmanager
def explained_write(path: Path) -> Iterator[None]:
    """Explain in an error what a failed write means for the run."""
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        raise OSError(
            f"{path} could not be written ({error}); the states in {path.parent / 'state'} are whole. Make room, and "
            "start again to go on from the newest."
        ) from error


# === NaN ===


class StopOnNaN(keras.callbacks.Callback):
    """Stops at the first loss that is not a finite number, and saves its batch. The last good state is kept.

    If several steps run in one execution, the batches of all of them are saved, because any may be the cause.

    Args:
        directory: The run's directory.
        batches_from: Takes a step, gives the batches from there on, as `training_batches` does.
        steps_per_epoch: As for `fit`.
        start: The step at which training continues.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        batches_from: Callable[[int], tf.data.Dataset],
        *,
        steps_per_epoch: int,
        start: int = 0,
    ) -> None:
        super().__init__()
        self.directory, self.batches_from, self.steps_per_epoch = Path(directory), batches_from, steps_per_epoch
        self.start = start

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.before = self.good = max(self.start, epoch * self.steps_per_epoch)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        step, loss = self.before + batch + 1, (logs or {})["loss"]
        if np.isfinite(loss):
            self.good = step
            return
        batches = list(self.batches_from(self.good).take(step - self.good))  # made again from seed and step
        arrays: dict[str, Any] = {
            name: np.stack([{**inputs, **labels}[name] for inputs, labels, _ in batches]) for name in _names(batches)
        }
        path = self.directory / "nan-batches.npz"
        np.savez(path, step=np.arange(self.good + 1, step + 1), **arrays)
        where = f"step {step}" if step == self.good + 1 else f"one of the steps {self.good + 1} to {step}"
        raise FloatingPointError(
            f"The loss at {where} is {loss}; what was read there is in {path}. Start again from the last good "
            "state with a lower learning rate."
        )


def _names(batches: list[tuple[dict[str, Any], dict[str, Any], Any]]) -> list[str]:
    inputs, labels, _ = batches[0]
    return [*inputs, *labels]
