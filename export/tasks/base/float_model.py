"""Give a task or model that can be exported: in float32.

A model with a mixed-precision policy is copied to one in float32 with the same weights; a float32 model comes back as
it is. LiteRT does not run the casts of mixed precision, and the recipe chooses the bits of a file.
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
    """Give the task or model itself if it computes in float32, else a float32 copy.

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


@contextlib.contextmanager
def _float32_policy() -> Iterator[None]:
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(policy)
