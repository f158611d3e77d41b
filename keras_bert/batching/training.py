"""Makes the training batches of a task's prepared examples, as shared rows or in length buckets."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.batching.length_buckets import bucketed_batches
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.batching.replicas import replica_count
from keras_bert.batching.shared_rows import packed_batches, packed_shape
from keras_bert.batching.widths import bucket_boundaries, few_widths


def training_batches(
    data: PreparedData,
    targets: Mapping[str, Any],
    *,
    batch_size: int,
    sequence_length: int,
    hidden_dim: int,
    packed: bool = False,
    table: np.ndarray | None = None,
) -> tuple[Callable[[int | None, int, int], tf.data.Dataset], int]:
    """Return a function of seed, epoch and number of epochs that gives batches, and the batches of an epoch.

    Args:
        data: The examples.
        targets: Their labels by the name of the output.
        batch_size: The number of examples in a batch.
        sequence_length: The largest number of tokens in a row.
        hidden_dim: The encoder's width, which decides the best shape of shared rows.
        packed: Whether several texts share a row; otherwise rows of similar length share a batch.
        table: The ids of the token table, if training uses only some rows of it.
    """
    tokenized = data.tokenized if table is None else data.tokenized.renumbered(table)
    options: dict[str, Any] = {"batch_size": batch_size, "sample_weights": data.weights}
    group = data.texts_per_example
    parts = replica_count()
    if keras.backend.backend() == "jax" and batch_size % parts:
        raise ValueError(f"batch_size={batch_size} does not divide among {parts} devices; use a multiple of {parts}.")
    if packed:
        sizes = {"batch_size": batch_size, "hidden_dim": hidden_dim, "group": group, "parts": parts}
        shape = packed_shape(tokenized.lengths, **sizes)
    else:
        widths = bucket_boundaries(tokenized.lengths, sequence_length=sequence_length)
        few = None
        if keras.backend.backend() == "jax":  # the same batches as on TensorFlow, in fewer shapes
            few = few_widths(tokenized.lengths, sequence_length=sequence_length)

    def batches(seed: int | None, epoch: int, epochs: int) -> tf.data.Dataset:
        order = {"epoch": epoch, "epochs": epochs, **options}
        if packed:
            if seed is None:
                raise ValueError("seed=None: expected a number, because texts share rows at random; pass a seed.")
            return packed_batches(tokenized, targets, shape=shape, seed=seed, group=group, parts=parts, **order)
        # With a full last batch XLA has one shape less to compile.
        order |= {"fill_last": True, "padded_to": few}
        return bucketed_batches(tokenized, targets, boundaries=widths, shuffle_seed=seed, **order)

    return batches, -(-len(tokenized) // (group * batch_size))
