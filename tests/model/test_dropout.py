"""Dropout by hashing has the promised rate, and no pattern that a training run could see. Both backends."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_bert.model.dropout import HashDropout, keep_mask


def masks(layer, shape, count):
    ones = np.ones(shape, "float32")
    return np.stack([ops.convert_to_numpy(layer(ones, training=True)) > 0 for _ in range(count)])


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_rate_and_scale(rate):
    layer = HashDropout(rate, seed=11)
    output = ops.convert_to_numpy(layer(np.full((1000, 1000), 2.0, "float32"), training=True))
    deviation = 5 * np.sqrt(rate * (1 - rate) / output.size)  # five standard deviations
    assert abs(np.mean(output == 0) - rate) < deviation
    np.testing.assert_allclose(output[output > 0], 2.0 / (1 - rate), rtol=1e-6)


def test_inference_and_rate_zero_change_nothing():
    x = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")
    np.testing.assert_array_equal(ops.convert_to_numpy(HashDropout(0.5)(x, training=False)), x)
    np.testing.assert_array_equal(ops.convert_to_numpy(HashDropout(0.0)(x, training=True)), x)


def test_masks_of_steps_layers_and_positions_are_independent():
    drawn = masks(HashDropout(0.5, seed=1), (256, 256), 8)
    other = masks(HashDropout(0.5, seed=2), (256, 256), 8)
    signs = np.concatenate([drawn, other]).reshape(16, -1) * 2.0 - 1.0
    correlation = signs @ signs.T / signs.shape[1]
    np.fill_diagonal(correlation, 0.0)
    assert np.abs(correlation).max() < 5 / 256  # five standard deviations of 65,536 fair coins
    flat = signs[0]
    for shift in (1, 2, 16, 255, 256, 257, 4096):
        assert abs(np.mean(flat[shift:] * flat[:-shift])) < 5 / 256
    assert np.abs(signs[0].reshape(256, 256).mean(0)).max() < 6 / 16
    assert np.abs(signs[0].reshape(256, 256).mean(1)).max() < 6 / 16


def test_same_seed_same_masks_and_state_moves_on():
    first, second = (masks(HashDropout(0.3, seed=9), (64, 64), 3) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first[0], first[1])


def test_gradient_flows_through_kept_elements_alone():
    layer = HashDropout(0.5, seed=4)
    dense = keras.layers.Dense(4, use_bias=False, kernel_initializer="ones")
    model = keras.Sequential([keras.Input((6,)), dense, layer])
    model.compile(keras.optimizers.SGD(1.0), lambda y, p: ops.sum(p, axis=-1))
    model.fit(np.ones((1, 6), "float32"), np.zeros((1, 4), "float32"), verbose=0)
    change = 1.0 - ops.convert_to_numpy(dense.kernel)
    kept = change[0] > 0
    assert set(np.unique(change).tolist()) <= {0.0, 2.0}
    assert np.array_equal(change, np.tile(change[0], (6, 1)))
    assert 0 < kept.sum() < 4


def test_noise_shape_is_honoured():
    output = ops.convert_to_numpy(
        HashDropout(0.5, noise_shape=(None, 1), seed=5)(np.ones((64, 8), "float32"), training=True)
    )
    assert all(len(np.unique(row)) == 1 for row in output)
    assert len(np.unique(output)) == 2


def test_half_precision_stays_half():
    output = HashDropout(0.1, seed=6, dtype="float16")(np.ones((8, 8), "float16"), training=True)
    assert keras.backend.standardize_dtype(output.dtype) == "float16"


def test_mask_bits_are_uniform_in_chi_square():
    """Eight masks at rate 1/2 give a byte per position; all 256 bytes must be about equally common."""
    bits = np.stack([ops.convert_to_numpy(keep_mask((1 << 17,), 0.5, np.array([7, step]))) for step in range(8)])
    counts = np.bincount(np.packbits(bits, axis=0).ravel(), minlength=256)
    expected = bits.shape[1] / 256
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert 150 < chi_square < 380  # 255 degrees of freedom: mean 255, standard deviation 22.6
