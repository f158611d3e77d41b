"""Measure how much each attention head or neuron of a task matters on labelled data, and what it outputs.

The importance of a head is how much the loss would change if its output were scaled down: the absolute gradient, text
by text (Michel et al. 2019). The same holds for a neuron.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from export.tasks.base.measuring import training_step
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.tasks.base.task import Task

PARTS = ("heads", "neurons")


@dataclass(frozen=True, eq=False)
class PartStatistics:
    """The importance and the outputs of the parts of each block; W is the width of all parts of a block.

    Args:
        importance: `[L, parts]`, the mean absolute derivative of the loss by a part's scale.
        means: `[L, W]`, the mean of the outputs over all tokens.
        covariances: `[L, W, W]`, the covariances of the outputs.
    """

    importance: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


def part_importance(task: Task, data: PreparedData, part: str, *, batch_size: int = 32) -> PartStatistics:
    """Measure all heads, or all neurons, of a task on data.

    Example:
        ```python
        found = part_importance(*prepare(classifier, texts, labels), "heads")
        found.importance.argmin(axis=1)  # the head of each block that matters least
        ```
    """
    if part not in PARTS:
        raise ValueError(f"Got part={part!r}; expected one of {', '.join(map(repr, PARTS))}.")
    model, batches, summed = training_step(task, data, batch_size=batch_size)
    blocks = [model.get_layer(f"block_{index}") for index in range(task.config.num_layers)]
    given: dict[int, tf.Tensor] = {}
    for index, block in enumerate(blocks):  # the input of the matrix after all parts of a block
        _record_input(block.attention.output_dense if part == "heads" else block.output_dense, given, index)
    each = task.config.head_dim if part == "heads" else 1

    @tf.function(input_signature=batches.element_spec, autograph=False)
    def step(inputs: dict[str, tf.Tensor], labels: dict[str, tf.Tensor], weights: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            loss, _ = summed(model(inputs, training=False), labels, weights)
        values = [given[index] for index in range(len(blocks))]
        gradients = tape.gradient(loss, values)
        real = tf.cast(inputs["padding_mask"] > 0, tf.float32)
        tokens = [tf.boolean_mask(value, real > 0) for value in values]  # [tokens, W] each
        return {
            "importance": [_by_text(v * g, inputs, each) for v, g in zip(values, gradients, strict=True)],
            "sums": [tf.reduce_sum(value, axis=0) for value in tokens],
            "products": [tf.matmul(value, value, transpose_a=True) for value in tokens],
            "count": tf.reduce_sum(real),
        }

    totals: Any = None
    for batch in batches:
        found = tf.nest.map_structure(lambda value: value.numpy(), step(*batch))
        totals = found if totals is None else tf.nest.map_structure(np.add, totals, found)
    count, means = totals["count"], np.stack(totals["sums"]) / totals["count"]
    covariances = [
        product / count - np.outer(mean, mean) for product, mean in zip(totals["products"], means, strict=True)
    ]
    return PartStatistics(np.stack(totals["importance"]) / len(data.tokenized), means, np.stack(covariances))


def _record_input(layer: Any, into: dict[int, tf.Tensor], key: int) -> None:
    """Record the input of a layer each time it is called. The model is a fresh one that nothing else uses."""
    call = layer.call

    def recording(x: Any, **options: Any) -> Any:
        into[key] = x
        return call(x, **options)

    layer.call = recording


def _by_text(contributions: tf.Tensor, inputs: dict[str, tf.Tensor], each: int) -> tf.Tensor:
    """Sum `[R, T, W]` over each text's tokens and over `each` neighbours, then the absolute values over all texts."""
    width = contributions.shape[-1]
    by_part = tf.reduce_sum(tf.reshape(contributions, [-1, width // each, each]), axis=-1)  # [R * T, W / each]
    mask = inputs["padding_mask"]
    if "example_starts" in inputs:  # shared rows: the mask has the number of each text
        owners, texts = mask, tf.size(inputs["example_starts"]) + 1
    else:
        owners, texts = tf.broadcast_to(tf.range(tf.shape(mask)[0])[:, None], tf.shape(mask)), tf.shape(mask)[0]
    real = tf.cast(tf.reshape(mask, [-1, 1]) > 0, by_part.dtype)
    return tf.reduce_sum(tf.abs(tf.math.unsorted_segment_sum(by_part * real, tf.reshape(owners, [-1]), texts)), axis=0)
