"""Tensors → the same, rounded as a file will round them: tfmot's quantizers on Keras 3 layers.

Matrices in 8 bits are tfmot's own `LastValueQuantizer`; the others are quantizers of ours behind tfmot's interface
(`Quantizer.build`, `__call__`): ranges that are learned, and ranges that LiteRT looks up for every token. `attach` is
the adapter between tfmot, which adds weights as Keras 2 does, and Keras 3. Rounding passes gradients on as they are
(straight-through), and what is cut off at the ends of a range gets none. A room of its own because these are numbers
alone: what is rounded, and where, is said in `quantization/training_model.py`. Needs the extra `quantize`.
"""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from export.quantization.tfmot import load_tfmot

_QUANTIZERS = load_tfmot().quantization.keras.quantizers

# What a step of the optimizer moves the logarithm of a range, beside what it moves a weight: weights are hundredths.
RANGE_RATE = 10.0

LOWEST, HIGHEST = -128, 127  # of an int8 activation

# === On Keras 3 layers ===


class _Owner:
    """A Keras 3 layer with the `add_weight` that tfmot's quantizers call; as Keras' own `quantize`, after `build`."""

    def __init__(self, layer: keras.Layer):
        self.layer = layer

    def add_weight(self, name, *, shape=None, **options):
        self.layer._tracker.unlock()
        try:
            return self.layer.add_weight(name=name, shape=() if shape is None else shape, **options)
        finally:
            self.layer._tracker.lock()


class _NotKept:
    """What tfmot assigns a range to that nobody reads: that of weights is always the one of their values right now."""

    def assign(self, value, name=None):
        return value


class Attached:
    """A quantizer with its weights on a layer: a function of a tensor."""

    def __init__(self, quantizer, weights: dict):
        self.quantizer, self.weights = quantizer, weights

    def __call__(self, inputs):
        return self.quantizer(tf.convert_to_tensor(inputs), True, self.weights)

    def scale(self) -> tuple[np.ndarray, np.ndarray]:
        """The scale, and the zero point, as they are now."""
        scale, zero_point = self.quantizer.scale(self.weights)
        return ops.convert_to_numpy(scale), ops.convert_to_numpy(zero_point)


def attach(quantizer, layer: keras.Layer, name: str, shape=None) -> Attached:
    """Give a built Keras 3 layer the weights that a quantizer of tfmot's kind needs.

    Example:
        >>> quantize = attach(LearnedRange(-1.0, 1.0), dense, "input")
        >>> quantize(np.array([0.1234], "float32")).numpy()
        array([0.12156863], dtype=float32)
    """
    return Attached(quantizer, quantizer.build(shape, name, _Owner(layer)))


def last_value(bits: int = 8) -> Attached:
    """tfmot's quantizer of a matrix `[inputs, outputs]`: symmetric, for each output a scale by its largest weight."""
    quantizer = _QUANTIZERS.LastValueQuantizer(num_bits=bits, per_axis=True, symmetric=True, narrow_range=True)
    return Attached(quantizer, {"min_var": _NotKept(), "max_var": _NotKept()})


# === Ranges that are learned ===


class LearnedRange(_QUANTIZERS.Quantizer):  # type: ignore[name-defined]  # its module is loaded by a function
    """8 bits for values between two numbers that are trained, 0 among them, with LSQ's gradients (Esser et al. 2020).

    Args:
        low, high: Where training begins.
    """

    def __init__(self, low: float, high: float):
        self.ends = np.array([min(low, 0.0), max(high, 0.0)], "float32")

    def build(self, tensor_shape, name, layer):
        return {"range": layer.add_weight(f"{name}_range", shape=(2,), initializer="zeros", trainable=True)}

    def scale(self, weights):
        """Scale and zero point, as they are now."""
        low, high = ops.unstack(self.ends * ops.exp(RANGE_RATE * weights["range"]))
        scale = ops.maximum(high - low, 1e-8) / (HIGHEST - LOWEST)
        return scale, _round(LOWEST - low / scale)  # low is at most 0 and high at least: between the ends by itself

    def __call__(self, inputs, training, weights, **kwargs):
        return _rounded(inputs, *self.scale(weights), LOWEST, HIGHEST)

    def get_config(self):
        return {"low": float(self.ends[0]), "high": float(self.ends[1])}


class LearnedScales(_QUANTIZERS.Quantizer):  # type: ignore[name-defined]  # its module is loaded by a function
    """Few bits for a matrix `[inputs, outputs]`, with a trained scale for each output.

    Args:
        scales: Where training begins, one for each output.
        bits: 4, or another number.
    """

    def __init__(self, scales: np.ndarray, bits: int = 4):
        self.scales, self.bits = np.asarray(scales, "float32"), bits

    def build(self, tensor_shape, name, layer):
        return {"scale": layer.add_weight(f"{name}_scale", shape=self.scales.shape, initializer="zeros")}

    def scale(self, weights):
        """The scales, as they are now, and 0: matrices are symmetric."""
        return self.scales * ops.exp(RANGE_RATE * weights["scale"]), ops.zeros(())

    def __call__(self, inputs, training, weights, **kwargs):
        top = 2 ** (self.bits - 1) - 1
        return _rounded(inputs, *self.scale(weights), -top, top)

    def get_config(self):
        return {"scales": self.scales.tolist(), "bits": self.bits}


# === Ranges of every vector ===


class TokenRange(_QUANTIZERS.Quantizer):  # type: ignore[name-defined]  # its module is loaded by a function
    """8 bits for each vector `[…, channels]` by its own range: what LiteRT does to the inputs of a dynamic product."""

    def build(self, tensor_shape, name, layer):
        return {}

    def __call__(self, inputs, training, weights, **kwargs):
        low = ops.minimum(ops.min(inputs, axis=-1, keepdims=True), 0.0)
        high = ops.maximum(ops.max(inputs, axis=-1, keepdims=True), 0.0)
        scale = ops.where(high > low, (high - low) / (HIGHEST - LOWEST), 1.0)
        zero_point = ops.round(LOWEST - low / scale)
        integers = ops.clip(ops.round(inputs / scale) + zero_point, LOWEST, HIGHEST)
        return _straight_through(inputs, (integers - zero_point) * scale)

    def get_config(self):
        return {}


class RowRange(_QUANTIZERS.Quantizer):  # type: ignore[name-defined]  # its module is loaded by a function
    """8 bits for each vector `[…, channels]`, symmetric, by its largest value: what a table's rows become."""

    def build(self, tensor_shape, name, layer):
        return {}

    def __call__(self, inputs, training, weights, **kwargs):
        scale = ops.maximum(ops.max(ops.abs(inputs), axis=-1, keepdims=True), 1e-12) / HIGHEST
        return _straight_through(inputs, ops.round(inputs / scale) * scale)

    def get_config(self):
        return {}


def of_each_token() -> Attached:
    """The quantizer of dynamic products' inputs."""
    return Attached(TokenRange(), {})


def of_each_row() -> Attached:
    """The quantizer of tables."""
    return Attached(RowRange(), {})


# === Rounding ===


def on_grid(values, step):
    """Values as whole multiples of a step, for the gradient as they are."""
    return _straight_through(values, ops.round(values / step) * step)


def _straight_through(values, rounded):
    return values + ops.stop_gradient(rounded - values)


@tf.custom_gradient
def _round(values):
    return tf.round(values), lambda gradient: gradient


def _rounded(values, scale, zero_point, lowest, highest):
    """Values as integers from `lowest` to `highest` times a scale; both the values and the scale learn.

    The gradients of the scale are those of LSQ and LSQ+ (Bhalgat et al. 2020), with LSQ's factor: a range that
    thousands of values share would otherwise outshout the weights in the clipped norm. A scale is one for all values,
    or one for each of the last dimension.
    """

    @tf.custom_gradient
    def rounded(values, scale, zero_point):
        places = values / scale
        integers = tf.clip_by_value(tf.round(places) + zero_point, lowest, highest) - zero_point

        def gradients(upstream):
            inside = tf.logical_and(places >= lowest - zero_point, places <= highest - zero_point)
            moved = upstream * tf.where(inside, integers - places, integers)
            shifted = tf.where(inside, 0.0, -upstream * scale)
            axis = None if scale.shape.rank == 0 else list(range(values.shape.rank - 1))
            count = tf.size(values) if axis is None else tf.size(values) // tf.size(scale)
            share = tf.math.rsqrt(tf.cast(count, "float32") * highest)
            return (
                tf.where(inside, upstream, 0.0),
                tf.reduce_sum(moved, axis) * share,
                tf.reduce_sum(shifted) * share,
            )

        return integers * scale, gradients

    return rounded(*(tf.convert_to_tensor(part) for part in (values, scale, zero_point)))
