"""Find how a task is served, and compute its answers to strings in TensorFlow and with Keras.

Each task defines its `ServedTask` in its own module; `serving/signatures.py` builds the functions that a server calls.
"""

from typing import Any

import tensorflow as tf

from export.serving.generation import SERVED_TEXTS
from export.serving.graph import SharedGraph, clean
from export.tasks.base.definition import ServedTask
from export.tasks.base.registry import find_export
from keras_bert.tasks.base.task import Task
from keras_bert.text.packing import pack


def find_served(task: Any) -> ServedTask:
    """Find how a task is served; raise an error if it is not a task, or cannot be served.

    Example:
        >>> find_served(classifier).forms  # doctest: +SKIP
        ('texts', 'pairs')
    """
    if not isinstance(task, Task):
        raise TypeError(
            f"Expected a task model such as TextClassifier; got {type(task).__name__}. A server also needs a tokenizer "
            "and labels: make a task from the model, or open a saved one with keras_bert.load_task."
        )
    exported = find_export(task.name)
    if exported.served is not None:
        return exported.served
    if exported.writes:
        return SERVED_TEXTS
    raise ValueError(f"The task {task.name!r} cannot be served; register it with served=ServedTask(…).")


def serve_strings(served: ServedTask, graph: SharedGraph, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Compute the answers of `serving_default` to strings.

    Args:
        served: How the task is served.
        graph: The functions that all signatures share.
        texts: Strings `[B]`, a tensor for each text of a row.
    """
    if served.serve is not None:
        return served.serve(graph, *map(clean, texts))
    inputs, truncated = graph.pack(*texts)
    return {**served.answers(graph.task, graph.forward(inputs)), "truncated": truncated}


def expect(served: ServedTask, task: Task, *texts: list[str]) -> dict[str, tf.Tensor]:
    """Compute the same answers, or some of them, with Keras.

    Args:
        served: How the task is served.
        task: The task.
        texts: Strings, a list for each text of a row.
    """
    if served.expected is not None:
        return served.expected(task, *texts)
    inputs = pack(task.tokenizer, *texts, sequence_length=task.sequence_length)
    return served.answers(task, task.model(inputs, training=False))
