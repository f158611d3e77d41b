"""What a task's file gives to apps, beside what its Keras model gives: one row a task.

A room of its own because the converter (which puts the outputs into the graph), the checks (which compare them with
Keras) and metadata must agree on them, and because this is all that a new task adds to be exported.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_bert.decoding import inverse_sigmoid, sigmoid, softmax


@dataclass(frozen=True)
class AppOutputs:
    """The outputs of a task's file.

    Args:
        in_graph: Takes the task, gives Keras tensors by name, made from its model's outputs.
        from_task: The same in NumPy: takes the task and its model's outputs, gives the file's.
        to_task: The way back: what the task scores, from the file's outputs.
        agreement: Takes the task and the file's outputs of both; gives the share of rows with the same answer.
    """

    in_graph: Callable[[Any], dict]
    from_task: Callable[[Any, dict], dict]
    to_task: Callable[[Any, dict], dict]
    agreement: Callable[[Any, dict, dict], float]


def app_outputs(task) -> AppOutputs:
    """The row of a task; an error where it cannot be exported yet."""
    if getattr(task, "name", None) not in _TASKS:
        raise ValueError(
            f"{type(task).__name__} cannot be exported as a task; expected one of {', '.join(_TASKS)}, or a functional "
            "model."
        )
    return _TASKS[task.name]


def app_model(task):
    """The functional model that goes into a file: the task's inputs and weights, outputs that apps can show.

    Example:
        >>> sorted(app_model(classifier).output)  # doctest: +SKIP
        ['probabilities']
    """
    import keras

    return keras.Model(task.model.input, app_outputs(task).in_graph(task), name=task.model.name)


# === Classification ===

# MediaPipe and the Task Library show scores as they come, so the activation is in the graph.
_ACTIVATIONS = {"single_label": (softmax, np.log), "multi_label": (sigmoid, inverse_sigmoid)}


def _class_tensors(task):
    import keras

    logits = task.model.output["class_logits"]
    if task.kind == "regression":
        return {"class_logits": logits}
    activation = _ACTIVATIONS[task.kind][0].__name__
    return {"probabilities": keras.layers.Activation(activation, dtype="float32", name="probabilities")(logits)}


def _class_probabilities(task, outputs):
    if task.kind == "regression":
        return outputs
    return {"probabilities": _ACTIVATIONS[task.kind][0](outputs["class_logits"])}


def _class_logits(task, outputs):
    if task.kind == "regression":
        return outputs
    # Up to a constant for each row, which no answer depends on.
    return {"class_logits": _ACTIVATIONS[task.kind][1](np.maximum(outputs["probabilities"], np.finfo("float32").tiny))}


def _class_agreement(task, ours, theirs):
    if task.kind == "regression":
        return _correlation(ours["class_logits"], theirs["class_logits"])
    ours, theirs = ours["probabilities"], theirs["probabilities"]
    if task.kind == "multi_label":
        return float(np.mean(np.all((ours >= 0.5) == (theirs >= 0.5), axis=-1)))
    return float(np.mean(ours.argmax(-1) == theirs.argmax(-1)))


def _correlation(ours, theirs):
    if np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        return float(np.allclose(ours, theirs))
    return float(np.corrcoef(ours.ravel(), theirs.ravel())[0, 1])


_TASKS = {
    "classification": AppOutputs(
        in_graph=_class_tensors,
        from_task=_class_probabilities,
        to_task=_class_logits,
        agreement=_class_agreement,
    )
}
