"""Read and check the training and validation data of a search, and score models and files with it.

Takes data in any form that the task's `fit` takes; gives scores, lengths of rows, and texts to calibrate with.
"""

import copy
import hashlib
import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from export.file.metadata import describe_task
from export.runtime import Runtime
from export.search.costs import Costs, work_of
from export.search.intervals import ScoreInterval, score_interval, scores_without, split_examples
from export.tasks.base.examples import Examples
from export.tasks.base.inputs import read_examples
from export.tasks.base.registry import find_export
from keras_bert import __version__
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.model.weights import to_numpy
from keras_bert.tasks.base.task import Task, is_pair_of_xy

_CALIBRATION = 256


@dataclass(frozen=True)
class DeploymentData:
    """The data that a search trains and measures with.

    Args:
        validation: Examples with labels.
        train: The same for training; `None` if there are none.
        metric: The metric.
        seed: The seed of random choices.
        notes: Remarks on the data.
    """

    validation: Examples
    train: Examples | None
    metric: str
    seed: int = 0
    notes: tuple[str, ...] = ()

    # === Scores ===

    def score_task(self, task: Task) -> float:
        """The metric of a task on the validation data, in Keras."""
        rows = task.prepare(self.validation.labelled, None)
        return self._score(task, task.outputs(rows.tokenized), rows)

    def score_file(self, task: Task, runtime: Runtime) -> float:
        """The metric of a task's file, run by the device runtime."""
        ready, outputs, rows = self.file_outputs(task, runtime)
        return self._score(ready, outputs, rows)

    def file_outputs(self, task: Task, runtime: Runtime) -> tuple[Task, dict[str, np.ndarray], PreparedData]:
        """The task with the reading settings of the file, the file's outputs for the validation data, and that data."""
        ready = copy.copy(task)
        for name, value in runtime.reader.reading.items():
            setattr(ready, name, value)
        rows = ready.prepare(self.validation.labelled, None)
        return ready, find_export(task.name).to_task(task, runtime.outputs(rows.tokenized), rows.tokenized), rows

    def _score(self, task: Task, outputs: dict[str, np.ndarray], rows: PreparedData) -> float:
        return float(find_export(task.name).score(task, outputs, rows, self.metric))

    def difference(self, teacher: Task, task: Task, runtime: Runtime) -> ScoreInterval | None:
        """A file's score minus the teacher's, with its interval; `None` if parts cannot be scored alone."""
        rows = teacher.prepare(self.validation.labelled, None)
        models = [(teacher, teacher.outputs(rows.tokenized), rows), self.file_outputs(task, runtime)]
        groups = split_examples(rows.num_examples, self.seed)
        theirs, ours = (self._scores_without(groups, model, found, data) for model, found, data in models)
        if theirs is None or ours is None:
            return None
        before, after = (self._score(model, found, data) for model, found, data in models)
        return score_interval(after - before, ours - theirs, rows.num_examples)

    def _scores_without(
        self, groups: list[np.ndarray], task: Task, outputs: dict[str, np.ndarray], rows: PreparedData
    ) -> np.ndarray | None:
        labelled = self.validation.labelled

        def prepare(numbers: np.ndarray) -> PreparedData:
            part = tuple(labelled[int(i)] for i in numbers)
            report = getattr(labelled, "report", None)  # a task of the user's own may have a plain list
            return task.prepare(list(part) if report is None else type(labelled)(part, report), None)

        return scores_without(groups, lambda found, part: self._score(task, found, part), prepare, rows, outputs)

    # === Rows ===

    def row_lengths(self, task: Task, longest: int | None = None) -> np.ndarray:
        """The tokens of each row of the validation data."""
        lengths = np.asarray(task.prepare(self.validation.labelled, None).tokenized.lengths)
        return lengths if longest is None else np.minimum(lengths, longest)

    @property
    def calibration(self) -> list[Any]:
        """Some random inputs to calibrate with, from the training data if there is any."""
        inputs = (self.validation if self.train is None else self.train).inputs
        order = np.random.default_rng(self.seed).permutation(len(inputs))[:_CALIBRATION]
        return [inputs[index] for index in order]

    def measure_teacher(self, teacher: Task) -> tuple[float, Costs]:
        """The teacher's score, and estimates of the cost of models from the time it took."""
        lengths, score = self.row_lengths(teacher), self.score_task(teacher)
        start = time.perf_counter()  # a second time, because the first one traced the graph
        self.score_task(teacher)
        spent = (time.perf_counter() - start) / (lengths.sum() * work_of(teacher.config))
        if self.train is None:
            return score, Costs(teacher.config, 0, 0, spent)
        rows = teacher.prepare(self.train.labelled, None)
        return score, Costs(teacher.config, int(rows.tokenized.lengths.sum()), rows.num_examples, spent)

    def fingerprint(self, teacher: Task) -> str:
        """A name for this teacher and this data; results for others cannot be used."""
        told = {**describe_task(teacher), "config": teacher.config.to_dict(), "seed": self.seed, "version": __version__}
        digest = hashlib.sha256(json.dumps(told, sort_keys=True, default=repr).encode())
        for weight in teacher.model.weights:
            digest.update(weight.path.encode())
            digest.update(np.ascontiguousarray(to_numpy(weight)).tobytes())
        for examples in (self.train, self.validation):
            for example in () if examples is None else examples.labelled:
                digest.update(repr(example).encode())
        return digest.hexdigest()[:16]


def read_data(
    teacher: Task, train: Any, validation: Any, *, columns: dict[str, Any] | None = None, seed: int = 0
) -> DeploymentData:
    """Read and check a user's data.

    Args:
        teacher: The fine-tuned task.
        train: What `teacher.fit` takes, as `(x, y)` or as one value; `None` if there is none.
        validation: The same, to measure on.
        columns: Columns of files, as for `fit`.
        seed: The seed of random choices.

    Example:
        ```python
        data = read_data(classifier, "train.tsv", "dev.tsv")
        ```
    """
    if teacher.fresh_heads:
        raise ValueError(f"The heads of this {type(teacher).__name__} are untrained; call fit() before you deploy it.")
    if validation is None:
        raise ValueError("There is no validation data; pass labelled examples to measure the files on.")
    checks, notes = _read(teacher, validation, columns, "validation"), []
    rows = teacher.prepare(checks.labelled, None)
    examples = None
    if train is None:
        notes.append("no training data: nothing could be trained, and files were calibrated with the validation data")
    else:
        examples = _read(teacher, train, columns, "train")
        teacher.check_training(teacher.prepare(examples.labelled, None))
        if both := _count_common(examples, checks):
            notes.append(f"{both:,} of {len(checks.inputs):,} validation inputs are also in the training data")
    metric = find_export(teacher.name).metric(teacher, rows)
    return DeploymentData(checks, examples, metric, seed, (*notes, *rows.notes))


def _read(teacher: Task, given: Any, columns: dict[str, Any] | None, name: str) -> Examples:
    x, y = given if is_pair_of_xy(given) else (given, None)
    try:
        examples = read_examples(teacher, x, y, **(columns or {}))
        if examples.labelled is None:
            raise ValueError("It has no labels; pass labelled examples.")
        teacher.prepare(examples.labelled, None)  # raises an error for labels that the teacher does not know
    except ValueError as error:
        raise ValueError(f"The {name} data cannot be used: {error}") from error
    return examples


def _count_common(train: Examples, validation: Examples) -> int:
    seen = set(map(repr, train.inputs))
    return sum(repr(given) in seen for given in validation.inputs)
