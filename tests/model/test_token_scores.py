"""Scores of a vocabulary, GELU and layer norm as accelerators take them, beside their definitions; on both backends."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy.special import erf
from tiny_encoders import slope

from keras_bert.model.embeddings import LayerNorm, normalize
from keras_bert.model.fast_gelu import fast_gelu
from keras_bert.model.token_scores import token_cross_entropy, token_hits

NUMBERS = np.random.default_rng(0)
LOGITS = (5 * NUMBERS.normal(size=(4, 6, 50))).astype("float32")
LOGITS[0, :2, [7, 9]] = 30.0  # equal scores, of which the first counts
IDS = np.where(NUMBERS.random((4, 6)) < 0.5, LOGITS.argmax(-1), NUMBERS.integers(0, 50, (4, 6))).astype("int32")
IDS[0, :2] = 9, 7
LINE = np.linspace(-9, 9, 2001, dtype="float32")


def test_cross_entropy_and_its_gradient():
    shares = np.exp(LOGITS - LOGITS.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    expected = -np.log(np.take_along_axis(shares, IDS[..., None], -1)[..., 0])
    np.testing.assert_allclose(token_cross_entropy(IDS, LOGITS), expected, atol=1e-5)
    np.testing.assert_allclose(
        slope(lambda x: token_cross_entropy(IDS, x), LOGITS), shares - np.eye(50)[IDS], atol=1e-6
    )


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_hits_are_those_of_argmax(precision):
    logits = ops.cast(LOGITS, precision)
    expected = np.asarray(ops.cast(logits, "float32")).argmax(-1) == IDS
    assert 0 < expected.sum() < expected.size
    np.testing.assert_array_equal(token_hits(IDS, logits), expected.astype("float32"))


def test_gelu_and_its_slope():
    x = LINE.astype("float64")
    below, bell = 0.5 * (1 + erf(x * 0.5**0.5)), np.exp(-0.5 * x * x) / (2 * np.pi) ** 0.5
    np.testing.assert_allclose(fast_gelu(ops.convert_to_tensor(LINE)), x * below, atol=1e-6)
    np.testing.assert_allclose(slope(fast_gelu, LINE), below + x * bell, atol=1e-6)
    assert keras.backend.standardize_dtype(fast_gelu(ops.cast(LINE, "bfloat16")).dtype) == "bfloat16"


def test_layer_norm_and_its_gradient():
    x, weights = LOGITS[0].astype("float64"), NUMBERS.normal(size=(3, 50)).astype("float32")
    gamma, beta, upstream = weights
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt(centred.var(-1, keepdims=True) + 1e-12)
    expected = centred * scale * gamma + beta
    np.testing.assert_allclose(normalize(LOGITS[0], gamma, beta, 1e-12), expected, atol=2e-6)
    parts = gamma * upstream - (gamma * upstream).mean()
    expected = scale * (parts - centred * scale * (gamma * upstream * centred * scale).mean(-1, keepdims=True))
    found = slope(lambda x: normalize(x, gamma, beta, 1e-12) * upstream, LOGITS[0])
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("mean", [0, 20])
def test_layer_norm_is_keras_own(precision, mean):
    kinds = (LayerNorm, keras.layers.LayerNormalization)
    ours, theirs = (kind(epsilon=1e-12, dtype=precision) for kind in kinds)
    x = ops.cast(LOGITS + mean, ours.compute_dtype)
    found, expected = (np.asarray(ops.cast(layer(x), "float32")) for layer in (ours, theirs))
    # One unit in the last place of half precision, from sums in another order; nothing at all in single.
    np.testing.assert_allclose(found, expected, rtol={"float32": 0, "mixed_float16": 2**-10}.get(precision, 2**-7))
