"""Round tensors as a file will, with quantizers of tfmot on Keras 3 layers.

Matrices in 8 bits use tfmot's own `LastValueQuantizer`. The other quantizers have tfmot's interface (`Quantizer.build`,
`__call__`): ranges that are learned, and ranges that LiteRT computes for every token. `attach` adapts tfmot, which adds
weights as Keras 2 does, to Keras 3. Rounding passes gradients through (straight-through); values cut off at the ends of
a range get none. `quantization/training_model.py` says what is rounded. Needs the extra `quantize`.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from export.quantization.tfmot import load_tfmot

_QUANTIZERS = load_tfmot().quantization.keras.quantizers

# How much further a step of the optimizer moves the logarithm of a range than a weight; weights are small numbers.
RANGE_RATE = 10.0

LOWEST, HIGHEST = -128, 127  # of an int8 activation

# === On Keras 3 layers ===


class _Owner:
    """A built Keras 3 layer with the `add_weight` that tfmot's quantizers call."""

    def __init__(self, layer: keras.Layer):
        self.layer = layer

    def add_weight(self, name: str, *, shape: Any = None, **options: Any) -> keras.Variable:
        self.layer._tracker.unlock()
        try:
            return self.layer.add_weight(name=name, shape=() if shape is None else shape, **options)
        finally:
            self.layer._tracker.lock()


class _NotKept:
    """Takes the ranges that tfmot assigns and drops them: the range of weights always comes from their values."""

    def assign(self, value: Any, name: str | None = None) -> Any:
        return value


class Attached:
    """A quantizer with its weights on a layer, called with a tensor."""

    def __init__(self, quantizer: Any, weights: dict[str, Any]) -> None:
        self.quantizer, self.weights = quantizer, weights

    def __call__(self, inputs: Any) -> Any:
        return self.quantizer(tf.convert_to_tensor(inputs), True, self.weights)

    def scale(self) -> tuple[np.ndarray, np.ndarray]:
        """The current scale and zero point."""
        scale, zero_point = self.quantizer.scale(self.weights)
        return ops.convert_to_numpy(scale), ops.convert_to_numpy(zero_point)


def attach(quantizer: Any, layer: keras.Layer, name: str, shape: Any = None) -> Attached:
    """Give a built Keras 3 layer the weights that a quantizer of tfmot needs.

    Example:
        >>> quantize = attach(LearnedRange(-1.0, 1.0), dense, "input")
        >>> quantize(np.array([0.1234], "float32")).numpy()
        array([0.12156863], dtype=float32)
    """
    return Attached(quantizer, quantizer.build(shape, name, _Owner(layer)))


def last_value(bits: int = 8) -> Attached:
    """tfmot's quantizer of a matrix `[inputs, outputs]`: symmetric, each output scaled by its largest weight."""
    quantizer = _QUANTIZERS.LastValueQuantizer(num_bits=bits, per_axis=True, symmetric=True, narrow_range=True)
    return Attached(quantizer, {"min_var": _NotKept(), "max_var": _NotKept()})


# === Ranges that are learned ===


class LearnedRange(_QUANTIZERS.Quantizer):  # type: ignore[name-defined]  # its module is loaded by a function
    """Rounds to 8 bits between two trained numbers around 0, with LSQ's gradients (Esser et al. 2020).

    Args:
        low, high: The range at the start of training.
    """

    def __init__(self, low: float, high: float):
        self.ends = np.array([min(low, 0.0), max(high, 0.0)], "float32")

    def build(self, tensor_shape: Any, name: str, layer: Any) -> dict[str, Any]:
        return {"range": layer.add_weight(f"{name}_range", shape=(2,), initializer="zeros", trainable=True)}

    def scale(self, weights: dict[str, Any]) -> tuple[Any, Any]:
        """The current scale and zero point."""
        low, high = ops.unstack(self.ends * ops.exp(RANGE_RATE * weights["range"]))
        scale = ops.maximum(high - low, 1e-8) / (HIGHEST - LOWEST)
        return scale, _round(LOWEST - low / scale)  # within the ends, because low <= 0 <= high

    def __call__(self, inputs: Any, training: Any, weights: dict[str, Any], **kwargs: Any) -> Any:
        return _rounded(inputs, *self.scale(weights), LOWEST, HIGHEST)

    def get_config(self) -> dict[str, Any]:
        return {"low": float(self.ends[0]), "high": float(self.ends[1])}


class LearnedScales(_QUANTIZERS.Quantizer):  # type: ignore[name-defined]  # its module is loaded by a function
    """Rounds a matrix `[inputs, outputs]` to few bits, with a trained scale for each output.

    Args:
        scales: The scale of each output at the start of training.
        bits: The number of bits, usually 4.
    """

    def __init__(self, scales: np.ndarray, bits: int = 4):
        self.scales, self.bits = np.asarray(scales, "float32"), bits

    def build(self, tensor_shape: Any, name: str, layer: Any) -> dict[str, Any]:
        return {"scale": layer.add_weight(f"{name}_scale", shape=self.scales.shape, initializer="zeros")}

    def scale(self, weights: dict[str, Any]) -> tuple[Any, Any]:
        """The current scales, and 0, because matrices are symmetric."""
        return self.scales * ops.exp(RANGE_RATE * weights["scale"]), ops.zeros(())

    def __call__(self, inputs: Any, training: Any, weights: dict[str, Any], **kwargs: Any) -> Any:
        top = 2 ** (self.bits - 1) - 1
        return _rounded(inputs, *self.scale(weights), -top, top)

    def get_config(self) -> dict[str, Any]:
        return {"scales": self.scales.tolist(), "bits": self.bits}


# === Ranges of every vector ===


class TokenRange(_QUANTIZERS.Quantizer):  # type: ignore[name-defined]  # its module is loaded by a function
    """Rounds each vector `[…, channels]` to 8 bits by its own range, as LiteRT does for dynamic products."""

    def build(self, tensor_shape: Any, name: str, layer: Any) -> dict[str, Any]:
        return {}

    def __call__(self, inputs: Any, training: Any, weights: dict[str, Any], **kwargs: Any) -> Any:
        low = ops.minimum(ops.min(inputs, axis=-1, keepdims=True), 0.0)
        high = ops.maximum(ops.max(inputs, axis=-1, keepdims=True), 0.0)
        scale = ops.where(high > low, (high - low) / (HIGHEST - LOWEST), 1.0)
        zero_point = ops.round(LOWEST - low / scale)
        integers = ops.clip(ops.round(inputs / scale) + zero_point, LOWEST, HIGHEST)
        return _straight_through(inputs, (integers - zero_point) * scale)

    def get_config(self) -> dict[str, Any]:
        return {}


class RowRange(_QUANTIZERS.Quantizer):  # type: ignore[name-defined]  # its module is loaded by a function
    """Rounds each vector `[…, channels]` to 8 bits, symmetric, by its largest value, as the rows of a table."""

    def build(self, tensor_shape: Any, name: str, layer: Any) -> dict[str, Any]:
        return {}

    def __call__(self, inputs: Any, training: Any, weights: dict[str, Any], **kwargs: Any) -> Any:
        scale = ops.maximum(ops.max(ops.abs(inputs), axis=-1, keepdims=True), 1e-12) / HIGHEST
        return _straight_through(inputs, ops.round(inputs / scale) * scale)

    def get_config(self) -> dict[str, Any]:
        return {}


def of_each_token() -> Attached:
    """The quantizer of the inputs of dynamic products."""
    return Attached(TokenRange(), {})


def of_each_row() -> Attached:
    """The quantizer of tables."""
    return Attached(RowRange(), {})


# === Rounding ===


def on_grid(values: Any, step: Any) -> Any:
    """Round values to multiples of a step; gradients pass through."""
    return _straight_through(values, ops.round(values / step) * step)


def _straight_through(values: Any, rounded: Any) -> Any:
    return values + ops.stop_gradient(rounded - values)


@tf.custom_gradient
def _round(values: Any) -> tuple[Any, Callable[[Any], Any]]:
    return tf.round(values), lambda gradient: gradient


def _rounded(values: Any, scale: Any, zero_point: Any, lowest: int, highest: int) -> Any:
    """Round values to integers from `lowest` to `highest` times a scale, with gradients for values and scale.

    The gradients of the scale are those of LSQ and LSQ+ (Bhalgat et al. 2020), with LSQ's factor: without it, the
    gradient of a range that thousands of values share would dominate the clipped norm. There is one scale for all
    values, or one for each of the last dimension.
    """

    @tf.custom_gradient
    def rounded(values: Any, scale: Any, zero_point: Any) -> tuple[Any, Callable[[Any], Any]]:
        places = values / scale
        integers = tf.clip_by_value(tf.round(places) + zero_point, lowest, highest) - zero_point

        def gradients(upstream: Any) -> tuple[Any, Any, Any]:
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
