"""Run a SavedModel that was written for TF Serving, for rows and for strings, as a server does.

`ServedRows` takes a version directory and has the methods that `verification/parity.py` uses to compare files. It needs
TensorFlow.
"""

import copy
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from export.file.ops import OpAudit
from export.serving.tasks import expect, find_served
from export.tasks.base.inputs import task_reader
from export.tasks.base.registry import find_export
from export.tasks.base.served_file import FORMS
from keras_bert.tasks.base.task import Task
from keras_bert.text.tokenized_texts import TokenizedTexts

_GRAPH, _LABELS = "saved_model.pb", "assets.extra/labels.txt"
_TEXTS_AT_ONCE = 32


def find_version(path: str | os.PathLike[str]) -> Path | None:
    """Find a version directory: the path itself, or the highest version in it; `None` if there is none.

    Example:
        >>> find_version("serving/sentiment")  # doctest: +SKIP
        PosixPath('serving/sentiment/2')
    """
    path = Path(path).expanduser()
    if (path / _GRAPH).is_file():
        return path
    versions = [place for place in path.glob("*") if place.name.isdecimal() and (place / _GRAPH).is_file()]
    return max(versions, key=lambda place: int(place.name), default=None)


class ServedRows:
    """A loaded version, with the task that it was made from.

    Args:
        path: The version directory.
        task: The task.
    """

    def __init__(self, path: Path, task: Task):
        labels = (path / _LABELS).read_text(encoding="utf-8").splitlines() if (path / _LABELS).is_file() else None
        if labels != (None if task.labels is None else list(task.labels)):
            raise ValueError(f"{path} has other labels than the task; pass the task that it was made from.")
        self.reader = task_reader(task, task.sequence_length)
        self.longest = task.sequence_length
        self._loaded = tf.saved_model.load(str(path))  # kept, because its variables live as long as it does
        self._task = copy.copy(task)  # a copy, because a task keeps the graph of the last model that it ran
        self._path = path

    def outputs(self, tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
        """The outputs of `from_ids` for rows, in the form of the task's file."""
        raw = self._task.outputs(tokenized, model=self._from_ids)
        return find_export(self._task.name).from_task(self._task, raw, tokenized)

    def _from_ids(self, inputs: dict[str, tf.Tensor], training: Any) -> dict[str, tf.Tensor]:
        answers = self._loaded.signatures["from_ids"](**inputs)
        return {name: answers[name] for name, value in self._task.model.output.items() if name in answers}

    def string_errors(self, inputs: list[Any]) -> np.ndarray:
        """The error of each row of strings against Keras; empty if the task takes only ids."""
        served = find_served(self._task)
        rows = [row for given in inputs for row in served.rows(given)] if served.forms else []
        errors = [np.zeros(0)]
        for start in range(0, len(rows), _TEXTS_AT_ONCE):
            columns = list(map(list, zip(*rows[start : start + _TEXTS_AT_ONCE], strict=True)))
            answers, expected = self.answers(*columns), expect(served, self._task, *columns)
            errors.append(np.max([row_errors(expected[name], answers[name]) for name in expected], axis=0))
        return np.concatenate(errors)

    def answers(self, *columns: list[str]) -> dict[str, tf.Tensor]:
        """The answers of the signature for strings, given a list for each text of a row."""
        names = next(FORMS[form] for form in find_served(self._task).forms if len(FORMS[form]) == len(columns))
        return self._find_signature(names)(**dict(zip(names, map(tf.constant, columns), strict=True)))

    def _find_signature(self, names: Sequence[str]) -> Any:
        for signature in self._loaded.signatures.values():
            if set(signature.structured_input_signature[1]) == set(names):
                return signature
        raise ValueError(f"{self._path} does not take {' and '.join(names)}; save it again with inputs that do.")

    def audit(self) -> OpAudit:
        """Count the ops of the graph and its functions."""
        return OpAudit(dict(Counter(node.op for node in self._nodes()).most_common()), (), {})

    @property
    def precision(self) -> str:
        """The type of the matrix products, `"float32"` or `"bfloat16"`."""
        types = {tf.as_dtype(node.attr["T"].type) for node in self._nodes() if node.op == "MatMul"}
        return "bfloat16" if tf.bfloat16 in types else "float32"

    def _nodes(self) -> list[Any]:
        """The nodes of the graph and of its functions, without calls of these."""
        (graph,) = saved_model_pb2.SavedModel.FromString((self._path / _GRAPH).read_bytes()).meta_graphs
        functions = graph.graph_def.library.function
        nodes = [*graph.graph_def.node, *(node for function in functions for node in function.node_def)]
        own = {function.signature.name for function in functions}
        return [node for node in nodes if node.op not in own]


def row_errors(expected: tf.Tensor, answer: tf.Tensor) -> np.ndarray:
    """The largest difference of numbers in each row, relative to the largest number if above 1; 0 for strings.

    Strings are not compared: labels may differ only if their probabilities are almost equal.
    """
    answer = answer.numpy()
    if answer.dtype.kind not in "fiub":
        return np.zeros(len(answer))
    # The answers of Keras for tokens have more padding.
    expected = expected.numpy()[tuple(slice(length) for length in answer.shape)].astype(np.float64)
    difference = np.abs(expected - answer).reshape(len(answer), -1)
    return difference.max(axis=-1, initial=0.0) / np.max(np.abs(expected), initial=1.0)
