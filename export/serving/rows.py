"""A SavedModel that was written for TF Serving → what it gives for rows and for strings, as a server would run it.

Takes a version directory, or the directory of all versions, gives `ServedRows`: the face that `verification/parity.py`
asks files for. A room of its own because it is the reader of what `serving/saving.py` writes. It needs TensorFlow, as
servers do.
"""

import copy
import os
from collections import Counter
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from export.file.ops import OpAudit
from export.serving.tasks import expect, find_served
from export.tasks.base.definition import FORMS
from export.tasks.base.inputs import task_reader
from export.tasks.base.registry import find_export
from keras_bert.tasks.base.task import Task
from keras_bert.text.tokenized_texts import TokenizedTexts

_GRAPH, _LABELS = "saved_model.pb", "assets.extra/labels.txt"
_TEXTS_AT_ONCE = 32


def find_version(path: str | os.PathLike) -> Path | None:
    """The version directory that a path is, or the highest in it; `None` where there is none.

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
    """A loaded version beside the task that it was made from.

    Args:
        path: The version directory.
        task: The task.
    """

    def __init__(self, path: Path, task: Task):
        labels = (path / _LABELS).read_text(encoding="utf-8").splitlines() if (path / _LABELS).is_file() else None
        if labels != (None if task.labels is None else list(task.labels)):
            raise ValueError(f"{path} has other labels than the task; verify it with the task that it was made from.")
        self.reader = task_reader(task, task.sequence_length)
        self.longest = task.sequence_length
        self._loaded = tf.saved_model.load(str(path))  # let go of it, and its variables are gone
        self._task = copy.copy(task)  # which keeps the graph of the last model that it ran
        self._path = path

    def outputs(self, tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
        """What `from_ids` gives for rows, as the file of the task would."""
        raw = self._task.outputs(tokenized, model=self._from_ids)
        return find_export(self._task.name).from_task(self._task, raw, tokenized)

    def _from_ids(self, inputs, training):
        answers = self._loaded.signatures["from_ids"](**inputs)
        return {name: answers[name] for name, value in self._task.model.output.items() if name in answers}

    def string_errors(self, inputs: list) -> np.ndarray:
        """For each row of strings, how far the answers of its signature are from Keras's; none where it takes ids."""
        served = find_served(self._task)
        rows = [row for given in inputs for row in served.rows(given)] if served.forms else []
        errors = [np.zeros(0)]
        for start in range(0, len(rows), _TEXTS_AT_ONCE):
            columns = list(map(list, zip(*rows[start : start + _TEXTS_AT_ONCE], strict=True)))
            answers, expected = self.answers(*columns), expect(served, self._task, *columns)
            errors.append(np.max([row_errors(expected[name], answers[name]) for name in expected], axis=0))
        return np.concatenate(errors)

    def answers(self, *columns: list[str]) -> dict[str, tf.Tensor]:
        """What the signature for strings gives, a list for each text of a row."""
        names = next(FORMS[form] for form in find_served(self._task).forms if len(FORMS[form]) == len(columns))
        return self._find_signature(names)(**dict(zip(names, map(tf.constant, columns), strict=True)))

    def _find_signature(self, names):
        for signature in self._loaded.signatures.values():
            if set(signature.structured_input_signature[1]) == set(names):
                return signature
        raise ValueError(f"{self._path} takes no {' and '.join(names)}; it was written for other inputs.")

    def audit(self) -> OpAudit:
        """The ops of the graph and its functions."""
        (graph,) = saved_model_pb2.SavedModel.FromString((self._path / _GRAPH).read_bytes()).meta_graphs
        functions = graph.graph_def.library.function
        nodes = [*graph.graph_def.node, *(node for function in functions for node in function.node_def)]
        own = {function.signature.name for function in functions}
        return OpAudit(dict(Counter(node.op for node in nodes if node.op not in own).most_common()), (), {})


def row_errors(expected: tf.Tensor, answer: tf.Tensor) -> np.ndarray:
    """The largest difference of numbers in each row, of large ones as a share of the largest; 0 for strings.

    Labels may differ only where their probabilities are as good as equal.
    """
    answer = answer.numpy()
    if answer.dtype.kind not in "fiub":
        return np.zeros(len(answer))
    # Of tokens, Keras's answer has more padding.
    expected = expected.numpy()[tuple(slice(length) for length in answer.shape)].astype(np.float64)
    difference = np.abs(expected - answer).reshape(len(answer), -1)
    return difference.max(axis=-1, initial=0.0) / np.max(np.abs(expected), initial=1.0)
