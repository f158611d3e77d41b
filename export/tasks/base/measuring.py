"""Measure a task on labelled data before and after it is made smaller.

Takes what `fit` takes. Gives a copy of the task with the loss and metric that suit the data (pairs with scores or
without need different ones), the prepared data, and numbers: loss and score.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.batching.length_buckets import bucketed_batches
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.batching.widths import bucket_boundaries
from keras_bert.finetuning.recipes import Recipe
from keras_bert.tasks.base.fitting import fresh_model, packs_rows, task_batches
from keras_bert.tasks.base.task import Task
from keras_bert.tasks.base.training_method import TrainingMethod


def prepare(
    task: Task, x: Any, y: Any = None, *, columns: dict[str, Any] | None = None, examples: int | None = None
) -> tuple[Task, PreparedData]:
    """Make a copy of the task (with the same model) for labelled data, and prepare the data.

    Args:
        task: A trained task.
        x, y: Examples in any form that `task.fit` takes.
        columns: As for `task.fit`.
        examples: Use at most this many rows, the first ones.

    Example:
        ```python
        ready, data = prepare(classifier, "dev.tsv", columns={"text": "sentence"})
        ```
    """
    if task.fresh_heads:
        raise ValueError(
            f"The heads of this {type(task).__name__} are untrained, so there is nothing to measure; call fit() first."
        )
    data = task.prepare(x, y, **(columns or {}))
    data = data if examples is None else data.first_rows(examples)
    task.check_training(data)
    return task.for_data(data), data


def training_step(
    task: Task, data: PreparedData, *, batch_size: int = 32, method: TrainingMethod | None = None
) -> tuple[keras.Model, tf.data.Dataset, Callable[[dict[str, Any], dict[str, Any], Any], tuple[Any, Any]]]:
    """Build the training model (without dropout), its batches, and a function from a batch's outputs to its loss.

    The loss is a sum over texts or tokens, so that the losses of batches can be added up.
    """
    model = fresh_model(task, Recipe(), seed=0, method=method)
    losses = (method or TrainingMethod()).losses(task.training_losses())
    if packs_rows(task):
        batches = task_batches(task, data, batch_size, packed=True)[0](0, 0, 1)
    else:  # without the rows that fill up the last batch: they must not count here
        batches = bucketed_batches(
            data.tokenized,
            task.targets(data.labels),
            batch_size=batch_size,
            boundaries=bucket_boundaries(data.tokenized.lengths, sequence_length=task.sequence_length),
            sample_weights=np.ones(len(data.tokenized), np.float32) if data.weights is None else data.weights,
        )

    def summed(outputs: dict[str, Any], labels: dict[str, Any], weights: Any) -> tuple[Any, Any]:
        total, count = 0.0, 0.0
        for name, loss in losses.items():
            weight = weights[name] if isinstance(weights, dict) else weights
            total += loss(labels[name], outputs[name], weight) * tf.reduce_sum(weight)
            count += tf.reduce_sum(weight)
        return total, count

    return model, batches, summed


def measure(task: Task, data: PreparedData, metric: str) -> tuple[float, float]:
    """Compute the mean loss of a task on data, and its score by `metric`.

    Example:
        ```python
        loss, accuracy = measure(*prepare(classifier, texts, labels), "accuracy")
        ```
    """
    model, batches, summed = training_step(task, data)

    @tf.function(input_signature=batches.element_spec, autograph=False)
    def step(inputs: dict[str, Any], labels: dict[str, Any], weights: Any) -> tuple[Any, Any]:
        return summed(model(inputs, training=False), labels, weights)

    total, count = np.sum([[float(value) for value in step(*batch)] for batch in batches], axis=0)
    outputs = task.outputs(data.tokenized) | task.extra_state(model)
    return float(total / count), task.score(outputs, data, metric).value
