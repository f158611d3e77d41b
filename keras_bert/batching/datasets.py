"""Turns off the autotuning of a `tf.data` dataset, so that its iterators end at once.

`tf.data` tunes its parallelism in a thread that sleeps, at last for up to a minute. With TensorFlow 2.21, an iterator
that is deleted meanwhile waits until the thread wakes, which can double the time of a short `fit`.
"""

import tensorflow as tf


def prompt(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return the dataset without autotuning; `AUTOTUNE` in its maps then means all of TensorFlow's threads.

    Example:
        >>> prompt(tf.data.Dataset.range(3)).options().autotune.enabled
        False
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
