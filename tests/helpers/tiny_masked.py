"""Batches of masked rows for tests of pretraining."""

import numpy as np
import tensorflow as tf
from tiny_encoders import CONFIG, batch

MASKED = 3


def masked_batch(rows=6, seed=0):
    rng = np.random.default_rng(seed)
    inputs = batch(rows=rows, seed=seed)
    return {
        **{name: tf.constant(value) for name, value in inputs.items()},
        "masked_positions": tf.constant(rng.integers(0, 8, (rows, MASKED)), tf.int32),
        "masked_ids": tf.constant(rng.integers(0, CONFIG.vocabulary_size, (rows, MASKED)), tf.int32),
        "masked_weights": tf.constant(np.arange(MASKED)[None] < rng.integers(1, MASKED + 1, (rows, 1)), tf.float32),
        "next_sentence_label": tf.constant(rng.integers(0, 2, rows), tf.int32),
    }
