"""Build the model that goes into a task's file."""

from typing import TYPE_CHECKING, Any

from export.tasks.base.registry import find_export

if TYPE_CHECKING:
    import keras


def app_model(task: Any) -> "keras.Model":
    """Build the functional model that goes into a file: the task's inputs and weights, with outputs for apps.

    Example:
        >>> sorted(app_model(classifier).output)  # doctest: +SKIP
        ['probabilities']
    """
    import keras

    return keras.Model(task.model.input, find_export(task.name).in_graph(task), name=task.model.name)
