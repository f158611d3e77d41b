"""A task and labelled data → how much each attention head, or each neuron, matters to it, and what it gives.

Takes a task and prepared data, gives `PartStatistics`. A head is as important as the loss would change if its output
were scaled down, by the gradient, in absolute value, text by text (Michel et al. 2019; the same for a neuron). A room
of its own because measuring asks nothing of what is done with the numbers.
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
    """What the parts of each block matter and give; W is the width of all parts of a block side by side.

    Args:
        importance: `[L, parts]`, the mean absolute derivative of the loss by a part's scale, in units of the loss.
        means: `[L, W]`, what the parts give, the mean over all tokens.
        covariances: `[L, W, W]`, how what they give goes together.
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
        raise ValueError(f"part={part!r}: expected one of {', '.join(map(repr, PARTS))}.")
    model, batches, summed = training_step(task, data, batch_size=batch_size)
    blocks = [model.get_layer(f"block_{index}") for index in range(task.config.num_layers)]
    given: dict = {}
    for index, block in enumerate(blocks):  # what goes into the matrix behind all parts of a block
        _record_input(block.attention.output_dense if part == "heads" else block.output_dense, given, index)
    each = task.config.head_dim if part == "heads" else 1

    @tf.function(input_signature=batches.element_spec, autograph=False)
    def step(inputs, labels, weights):
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


def _record_input(layer, into, key):
    """Keep what goes into a layer, each time it is called. The model is a fresh one that nobody else has."""
    call = layer.call

    def recording(x, **options):
        into[key] = x
        return call(x, **options)

    layer.call = recording


def _by_text(contributions, inputs, each):
    """`[R, T, W]` → `[W / each]`: summed over a text's tokens and over `each` neighbours, absolute, over all texts."""
    width = contributions.shape[-1]
    by_part = tf.reduce_sum(tf.reshape(contributions, [-1, width // each, each]), axis=-1)  # [R * T, W / each]
    mask = inputs["padding_mask"]
    if "example_starts" in inputs:  # several texts in a row, by their numbers
        owners, texts = mask, tf.size(inputs["example_starts"]) + 1
    else:
        owners, texts = tf.broadcast_to(tf.range(tf.shape(mask)[0])[:, None], tf.shape(mask)), tf.shape(mask)[0]
    real = tf.cast(tf.reshape(mask, [-1, 1]) > 0, by_part.dtype)
    return tf.reduce_sum(tf.abs(tf.math.unsorted_segment_sum(by_part * real, tf.reshape(owners, [-1]), texts)), axis=0)
