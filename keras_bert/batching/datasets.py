"""Changes whole `tf.data` datasets: fills their last batch, and turns off autotuning, so that iterators end at once.

`tf.data` tunes its parallelism in a thread that sleeps, at last for up to a minute. With TensorFlow 2.21, an iterator
that is deleted meanwhile waits until the thread wakes, which can double the time of a short `fit`.
"""

import tensorflow as tf


def filled_batches(dataset: tf.data.Dataset, batch_size: int) -> tf.data.Dataset:
    """Return batches that all have `batch_size` rows; a smaller one is filled with rows of zeros.

    Weights are among what is filled, so that the new rows count nothing; a loss must be divided by its weights.

    Example:
        >>> batches = tf.data.Dataset.range(1, 4).batch(2)
        >>> [batch.tolist() for batch in filled_batches(batches, 2).as_numpy_iterator()]
        [[1, 2], [3, 0]]
    """

    def fill(rows: tf.Tensor) -> tf.Tensor:
        missing = batch_size - tf.shape(rows)[0]
        filled = tf.pad(rows, [[0, missing], *[[0, 0]] * (rows.shape.rank - 1)])
        return tf.ensure_shape(filled, [batch_size, *rows.shape[1:]])

    return dataset.map(lambda *batch: tf.nest.map_structure(fill, batch if len(batch) > 1 else batch[0]))


def prompt(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return the dataset without autotuning; `AUTOTUNE` in its maps then means all of TensorFlow's threads.

    Example:
        >>> prompt(tf.data.Dataset.range(3)).options().autotune.enabled
        False
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
