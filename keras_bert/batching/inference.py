"""Runs a model on tokenized rows and returns its outputs in the order of the rows.

Rows run in batches of similar length, so that little compute goes into padding. JAX compiles a program for each shape,
so that there batches are filled, and have one of two widths and a power of two of rows.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import keras
import numpy as np

from keras_bert.batching.length_buckets import length_sorted_batches, restore_order, restore_token_order
from keras_bert.batching.replicas import divide_rows, replica_count
from keras_bert.batching.widths import bucket_boundaries, few_widths
from keras_bert.model.compilation import compiled
from keras_bert.model.encoder import INPUT_NAMES
from keras_bert.text.tokenized_texts import TokenizedTexts


def inference_graph(model: keras.Model) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a model's inference, compiled: one graph for all batch sizes and lengths, on JAX one for each."""
    spec = {name: keras.KerasTensor((None, None), "int32", name=name) for name in INPUT_NAMES}
    variables = getattr(model, "variables", ())  # a served graph that stands for a model has its own
    return compiled(lambda inputs: model(inputs, training=False), variables, signature=[spec])


def inference_batches(
    tokenized: TokenizedTexts, *, sequence_length: int, batch_size: int
) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Yield batches of inputs, as NumPy or sharded arrays, and the row that each of their rows is.

    A filled batch has more rows than the second array has numbers: those at its end are copies to leave out.
    """
    several_shapes = keras.backend.backend() != "jax"
    if several_shapes:
        boundaries = bucket_boundaries(tokenized.lengths, sequence_length=sequence_length)
    else:
        boundaries = few_widths(tokenized.lengths, sequence_length=sequence_length)
        batch_size = _filled_size(min(batch_size, len(tokenized)))
    batches, order = length_sorted_batches(
        tokenized, batch_size=batch_size, boundaries=boundaries, fill_last=not several_shapes
    )
    for index, inputs in enumerate(batches.as_numpy_iterator()):
        rows = order[index * batch_size : (index + 1) * batch_size]
        yield divide_rows(inputs), rows[rows >= 0]


def _filled_size(rows: int) -> int:
    """Return a power of two that has room for the rows, times the devices that share them."""
    replicas = replica_count()
    return replicas * (1 << (-(-rows // replicas) - 1).bit_length())


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
    collected: dict[str, list[np.ndarray]] = {}
    order: list[np.ndarray] = []
    for inputs, rows in inference_batches(tokenized, sequence_length=sequence_length, batch_size=batch_size):
        order.append(rows)
        is_token = np.asarray(inputs["padding_mask"])[: len(rows)] > 0
        for name, value in forward(inputs).items():
            value = np.asarray(value)[: len(rows)]
            collected.setdefault(name, []).append(value[is_token] if name in token_outputs else value)
    outputs = {name: np.concatenate(values) for name, values in collected.items()}
    rows = np.concatenate(order)
    return {
        name: restore_token_order(values, rows, tokenized.lengths)
        if name in token_outputs
        else restore_order(values, rows)
        for name, values in outputs.items()
    }
