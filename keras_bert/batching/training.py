"""A task's prepared examples → the batches of its epochs, packed rows or length buckets.

A room of its own because recipes, plain Keras, distillation and benchmarks train on the same batches.
"""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from keras_bert.batching.length_buckets import bucketed_batches
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.batching.shared_rows import packed_batches, packed_shape
from keras_bert.batching.widths import bucket_boundaries


def training_batches(
    data: PreparedData,
    targets: Mapping,
    *,
    batch_size: int,
    sequence_length: int,
    hidden_dim: int,
    packed: bool = False,
    table: np.ndarray | None = None,
) -> tuple[Callable[[int | None, int, int], tf.data.Dataset], int]:
    """A function from seed, epoch and number of epochs to batches, and how many an epoch has.

    Args:
        data: The examples.
        targets: Their labels by the name of the output.
        batch_size: Examples of a batch.
        sequence_length: The most tokens of a row.
        hidden_dim: The encoder's width, by which packed rows are shaped.
        packed: Several texts in a row, instead of rows of similar length.
        table: The token ids that training knows, where it renumbers them.
    """
    tokenized = data.tokenized if table is None else data.tokenized.renumbered(table)
    options = {"batch_size": batch_size, "sample_weights": data.weights}
    group = data.texts_per_example
    if packed:
        shape = packed_shape(tokenized.lengths, batch_size=batch_size, hidden_dim=hidden_dim, group=group)
    else:
        widths = bucket_boundaries(tokenized.lengths, sequence_length=sequence_length)

    def batches(seed, epoch, epochs):
        order = {"epoch": epoch, "epochs": epochs, **options}
        if packed:
            return packed_batches(tokenized, targets, shape=shape, seed=seed, group=group, **order)
        # Filled up, the last batch is one shape less for XLA to compile.
        return bucketed_batches(tokenized, targets, boundaries=widths, shuffle_seed=seed, fill_last=True, **order)

    return batches, -(-len(tokenized) // (group * batch_size))
