"""A task → how it is served, and what its signature for strings computes, in TensorFlow and by Keras.

What a task takes and gives is in its own module, as `ServedTask`; the functions that a server calls are put together in
`serving/signatures.py`.
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
    """How a task is served; an error for what is no task, or none that can be served.

    Example:
        >>> find_served(classifier).forms  # doctest: +SKIP
        ('texts', 'pairs')
    """
    if not isinstance(task, Task):
        raise TypeError(
            f"Expected a task model such as TextClassifier; got {type(task).__name__}. A server needs tokenizer and "
            "labels too: make a task of the model, or open a saved one with keras_bert.load_task."
        )
    exported = find_export(task.name)
    if exported.served is not None:
        return exported.served
    if exported.writes:
        return SERVED_TEXTS
    raise ValueError(f"The task {task.name!r} cannot be served; register it with served=ServedTask(…).")


def serve_strings(served: ServedTask, graph: SharedGraph, *texts: tf.Tensor) -> dict:
    """What `serving_default` gives for strings.

    Args:
        served: How the task is served.
        graph: The parts that all signatures share.
        texts: Strings `[B]`, a tensor for each text of a row.
    """
    if served.serve is not None:
        return served.serve(graph, *map(clean, texts))
    packed, truncated = graph.pack(*texts)
    return {**served.answers(graph.task, graph.forward(packed)), "truncated": truncated}


def expect(served: ServedTask, task: Task, *texts: list[str]) -> dict:
    """The same by Keras, or a part of it, to compare with.

    Args:
        served: How the task is served.
        task: The task.
        texts: Strings, a list for each text of a row.
    """
    if served.expected is not None:
        return served.expected(task, *texts)
    packed = pack(task.tokenizer, *texts, sequence_length=task.sequence_length)
    return served.answers(task, task.model(packed, training=False))
