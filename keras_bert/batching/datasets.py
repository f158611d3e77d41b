"""A `tf.data` dataset → the same one, which lets go at once when a loop over it ends.

`tf.data` tunes its own parallelism in a thread that sleeps 10 ms, then 20, then 40, …, up to a minute; an iterator that
is given up while that thread sleeps waits until it wakes (seen with TensorFlow 2.21, when a step was compiled with XLA
in the same loop): a `fit` whose steps took 5.2 s lasted 10.4. A room of its own because the datasets of fine-tuning and
of pretraining both go through it. The first gather their batches from memory and have nothing to tune; what
pretraining, which reads files, loses by it was not measured.
"""

import tensorflow as tf


def prompt(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset without the tuner. What it maps with `AUTOTUNE` runs on the threads that TensorFlow has.

    Example:
        >>> prompt(tf.data.Dataset.range(3)).options().autotune.enabled
        False
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
