"""A task or model as it was trained → one that files can be made from: on TensorFlow, and in float32.

Takes a model under a mixed-precision policy, gives one with the same weights under none; a model in float32 comes back
as it is. The choice of bits is the recipe's, and LiteRT does not run a graph full of casts.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from typing import TypeVar

import keras

from keras_bert.checkpoint import load_model, save_pretrained
from keras_bert.tasks.base.saved_tasks import load_task
from keras_bert.tasks.base.task import Task

_Either = TypeVar("_Either", bound="Task | keras.Model")


def in_float32(task_or_model: _Either) -> _Either:
    """The task or model itself where it computes in float32, else its twin that does.

    Example:
        >>> in_float32(classifier) is classifier
        True
    """
    model = getattr(task_or_model, "model", task_or_model)
    if not isinstance(model, keras.Model) or all(layer.compute_dtype == "float32" for layer in model.layers):
        return task_or_model
    with tempfile.TemporaryDirectory() as directory, _float32_policy():
        if isinstance(task_or_model, Task):
            task_or_model.save(directory)
            return load_task(directory)  # type: ignore[return-value]
        save_pretrained(model, directory)
        return load_model(directory)[0]


def check_backend(what: str) -> None:
    """An error where Keras computes with something else than TensorFlow, whose graphs files are made from."""
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            f"Keras runs on {keras.backend.backend()}; {what} needs the model on TensorFlow. Save the task, set "
            "KERAS_BACKEND=tensorflow and open it with keras_bert.load_task."
        )


@contextlib.contextmanager
def _float32_policy() -> Iterator[None]:
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(policy)
