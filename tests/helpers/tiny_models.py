"""Tiny models with weights that no initializer would give, for tests that move weights about."""

import functools

import keras
import numpy as np

from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.heads import bert_model

TINY = BertConfig(
    vocabulary_size=40,
    num_layers=2,
    num_heads=2,
    hidden_dim=16,
    intermediate_dim=24,
    max_sequence_length=12,
    layer_norm_epsilon=1e-12,
)
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##c", "é", "中"]


@functools.cache
def tiny_model(heads=(), *, seed=1, num_classes=3, **changes) -> keras.Model:
    """An encoder, or a model with heads, whose every weight is random: biases and norms as well.

    Kept from test to test: read it, do not change it.
    """
    config = TINY.replace(**changes)
    options = {"num_classes": num_classes, "marker_ids": (8, 5)}
    model = bert_model(config, heads, **options) if heads else bert_encoder(config)
    random = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(random.normal(0.1, 0.3, weight.shape))
    return model


def batch(length=9):
    """A padded batch of pairs."""
    random = np.random.default_rng(7)
    lengths = np.array([[length], [length - 4], [3]])
    mask = (np.arange(length) < lengths).astype("int32")
    return {
        "token_ids": (random.integers(1, 40, mask.shape) * mask).astype("int32"),
        "segment_ids": (np.arange(length) >= 2).astype("int32") * mask,
        "padding_mask": mask,
    }


def assert_same_weights(first: keras.Model, second: keras.Model) -> None:
    """Both models have the same weights under the same names, bit by bit."""
    ours, theirs = ({weight.path: np.asarray(weight) for weight in model.weights} for model in (first, second))
    assert sorted(ours) == sorted(theirs)
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name], err_msg=name)
