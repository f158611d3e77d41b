"""Measure the chosen file beside its teacher: score difference, confusions, times and ops.

`Proof` has the values that report, card and manifest show. They are measured once, for the one file that is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from export.runtime import load
from export.search.data import DeploymentData
from export.search.intervals import ScoreInterval
from export.search.run import time_beside
from export.tasks.base.registry import find_export
from export.verification.latency import BenchmarkReport, benchmark
from export.verification.parity import ParityReport, verify
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.decoding import mean_by_owner
from keras_bert.tasks.base.task import Task


@dataclass(frozen=True)
class Confusion:
    """The confusion matrices: a row for each true class, a column for each answer."""

    labels: tuple[str, ...]
    teacher: np.ndarray
    file: np.ndarray


@dataclass(frozen=True)
class Proof:
    """The measurements of the chosen file.

    Args:
        parity: The comparison with the Keras model that it was made from, with the ops.
        interval: Its score minus the teacher's, with an interval; `None` if parts cannot be scored alone.
        cold: Its size, memory and time to the first answer, in a fresh process.
        latency: Tokens, milliseconds of the teacher's float32 file, and its own milliseconds.
        confusion: The confusions, for tasks with one class for each text.
    """

    parity: ParityReport
    interval: ScoreInterval | None
    cold: BenchmarkReport
    latency: tuple[tuple[int, float, float], ...]
    confusion: Confusion | None


def gather_proof(teacher: Task, task: Task, data: DeploymentData, file: Path, reference: Path) -> Proof:
    """Measure a chosen file.

    Args:
        teacher: The fine-tuned task.
        task: The task that the file was made from.
        data: The user's data.
        file: The file.
        reference: The teacher's float32 file.

    Example:
        ```python
        print(gather_proof(teacher, student, data, Path("student.tflite"), Path("teacher.tflite")).parity)
        ```
    """
    theirs, ours = time_beside(data, (teacher, reference), (task, file), rounds=5)
    latency = zip(ours.by_length(), theirs.by_length(), strict=True)
    return Proof(
        parity=verify(task, file, data.validation),
        interval=data.difference(teacher, task, load(file)),
        cold=benchmark(file, repeats=10),
        latency=tuple((tokens, before, now) for (tokens, now), (_, before) in latency),
        confusion=_confusion(teacher, task, data, file),
    )


# === Classes ===


def _confusion(teacher: Task, task: Task, data: DeploymentData, file: Path) -> Confusion | None:
    """The confusions of tasks that give one class for each input; `None` for others."""
    output = find_export(teacher.name).class_output
    if output is None or teacher.labels is None or getattr(teacher, "kind", "single_label") != "single_label":
        return None
    rows = teacher.prepare(data.validation.labelled, None)
    ready, outputs, own = data.file_outputs(task, load(file))
    tables = [_count(output, teacher.outputs(rows.tokenized), rows, teacher.labels)]
    tables.append(_count(output, outputs, own, ready.labels or ()))
    return Confusion(tuple(teacher.labels), *tables)


def _count(output: str, outputs: dict[str, np.ndarray], rows: PreparedData, names: Sequence[str]) -> np.ndarray:
    labels = rows.labels[output] if isinstance(rows.labels, dict) else rows.labels
    true = np.asarray(labels)[np.unique(rows.owners, return_index=True)[1]]
    found = mean_by_owner(outputs[output], rows.owners).argmax(axis=-1)
    table = np.zeros((len(names), len(names)), int)
    np.add.at(table, (true, found), 1)
    return table
