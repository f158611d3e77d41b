"""A tiny config, batches for it, and weights that show in the output. Both backends."""

import keras
import numpy as np
from keras import ops

from keras_bert.model.config import BertConfig

CONFIG = BertConfig(
    vocabulary_size=50, num_layers=2, num_heads=2, hidden_dim=16, intermediate_dim=32, max_sequence_length=12
)


def batch(rows=3, length=8, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, length + 1, rows)
    return {
        "token_ids": rng.integers(0, CONFIG.vocabulary_size, (rows, length)).astype("int32"),
        "segment_ids": rng.integers(0, 2, (rows, length)).astype("int32"),
        "padding_mask": (np.arange(length)[None] < lengths[:, None]).astype("int32"),
    }


def randomize(model, seed=0):
    """Weights large enough that every part of the graph shows in the output."""
    rng = np.random.default_rng(seed)
    for variable in model.variables:
        if "seed_generator" not in variable.path and variable.trainable:
            variable.assign(rng.normal(0, 0.3, variable.shape))
    return {v.path: ops.convert_to_numpy(v).astype("float64") for v in model.variables}


def numpy(tensor):
    return ops.convert_to_numpy(tensor).astype("float32")


def slope(function, x):
    """The gradient of the sum of what a function gives."""
    if keras.backend.backend() == "jax":
        import jax

        return np.asarray(jax.grad(lambda x: function(x).astype("float32").sum())(x))
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x := ops.convert_to_tensor(x))
        total = ops.sum(function(x))
    return np.asarray(tape.gradient(total, x))
