"""Runs a model on tokenized rows and returns its outputs in the order of the rows.

Rows run in batches of similar length, so that little compute goes into padding.
"""

from collections.abc import Callable, Collection
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.batching.length_buckets import length_sorted_batches, restore_order, restore_token_order
from keras_bert.batching.widths import bucket_boundaries
from keras_bert.model.encoder import INPUT_NAMES
from keras_bert.text.tokenized_texts import TokenizedTexts


def inference_graph(model: keras.Model) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a model's inference as one graph for all batch sizes and lengths."""
    spec = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in INPUT_NAMES}
    return tf.function(lambda inputs: model(inputs, training=False), input_signature=[spec])


def row_outputs(
    forward: Callable[[dict[str, Any]], dict[str, Any]],
    tokenized: TokenizedTexts,
    *,
    token_outputs: Collection[str],
    sequence_length: int,
    batch_size: int,
) -> dict[str, np.ndarray]:
    """Return the outputs for each row, by name.

    Args:
        forward: The function from `inference_graph`.
        tokenized: The rows.
        token_outputs: The outputs that have a value for each token. They are returned as `[tokens, …]`, without
            padding, in the order of `tokenized.packed()`.
        sequence_length: The largest number of tokens in a row.
        batch_size: The number of rows in a batch.
    """
    boundaries = bucket_boundaries(tokenized.lengths, sequence_length=sequence_length)
    batches, order = length_sorted_batches(tokenized, batch_size=batch_size, boundaries=boundaries)
    collected: dict[str, list[np.ndarray]] = {}
    for inputs in batches:
        for name, value in forward(inputs).items():
            value = value.numpy()
            if name in token_outputs:
                value = value[inputs["padding_mask"].numpy() > 0]
            collected.setdefault(name, []).append(value)
    outputs = {name: np.concatenate(values) for name, values in collected.items()}
    return {
        name: restore_token_order(values, order, tokenized.lengths)
        if name in token_outputs
        else restore_order(values, order)
        for name, values in outputs.items()
    }
