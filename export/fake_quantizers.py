"""Tensors → the same, rounded as a file will round them: tfmot's quantizers on Keras 3 layers.

Matrices in 8 bits are tfmot's own `LastValueQuantizer`; the others are quantizers of ours behind tfmot's interface
(`Quantizer.build`, `__call__`): ranges that are learned, and ranges that LiteRT looks up for every token. `attach` is
the adapter between tfmot, which adds weights as Keras 2 does, and Keras 3. Rounding passes gradients on as they are
(straight-through), and what is cut off at the ends of a range gets none. A room of its own because these are numbers
alone: what is rounded, and where, is said in `quantized_training_model.py`. Needs the extra `quantize`.
"""

import keras
import numpy as np
from keras import ops

from export.model_optimization import load_tfmot

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
        return self.quantizer(inputs, True, self.weights)

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


class LearnedRange(_QUANTIZERS.Quantizer):
    """8 bits for values between two numbers that are trained, 0 among them, with LSQ's gradients (Esser et al. 2020).

    Args:
        low, high: Where training begins.
    """

    def __init__(self, low: float, high: float):
        self.low, self.high = min(float(low), 0.0), max(float(high), 0.0)

    def build(self, tensor_shape, name, layer):
        return {end: layer.add_weight(f"{name}_{end}", initializer="zeros", trainable=True) for end in ("low", "high")}

    def scale(self, weights, share=1.0):
        """Scale and zero point; `share` is how much of their gradients the weights get."""
        low, high = (
            _share_gradient(getattr(self, end) * ops.exp(RANGE_RATE * weights[end]), share) for end in ("low", "high")
        )
        scale = ops.maximum(high - low, 1e-8) / (HIGHEST - LOWEST)
        return scale, ops.clip(_round(LOWEST - low / scale), LOWEST, HIGHEST)

    def __call__(self, inputs, training, weights, **kwargs):
        scale, zero_point = self.scale(weights, _gradient_share(inputs, HIGHEST))
        return _rounded(inputs, scale, zero_point, LOWEST, HIGHEST)

    def get_config(self):
        return {"low": self.low, "high": self.high}


class LearnedScales(_QUANTIZERS.Quantizer):
    """Few bits for a matrix `[inputs, outputs]`, with a trained scale for each output.

    Args:
        scales: Where training begins, one for each output.
        bits: 4, or another number.
    """

    def __init__(self, scales: np.ndarray, bits: int = 4):
        self.scales, self.bits = np.asarray(scales, "float32"), bits

    def build(self, tensor_shape, name, layer):
        return {"scale": layer.add_weight(f"{name}_scale", shape=self.scales.shape, initializer="zeros")}

    def scale(self, weights, share=1.0):
        """The scales, and 0: matrices are symmetric."""
        return _share_gradient(self.scales * ops.exp(RANGE_RATE * weights["scale"]), share), ops.zeros(())

    def __call__(self, inputs, training, weights, **kwargs):
        top = 2 ** (self.bits - 1) - 1
        scale, zero_point = self.scale(weights, _gradient_share(inputs[:, 0], top))
        return _rounded(inputs, scale, zero_point, -top, top)

    def get_config(self):
        return {"scales": self.scales.tolist(), "bits": self.bits}


# === Ranges of every vector ===


class TokenRange(_QUANTIZERS.Quantizer):
    """8 bits for each vector `[…, channels]` by its own range: what LiteRT does to the inputs of a dynamic product."""

    def build(self, tensor_shape, name, layer):
        return {}

    def __call__(self, inputs, training, weights, **kwargs):
        low = ops.stop_gradient(ops.minimum(ops.min(inputs, axis=-1, keepdims=True), 0.0))
        high = ops.stop_gradient(ops.maximum(ops.max(inputs, axis=-1, keepdims=True), 0.0))
        scale = ops.where(high > low, (high - low) / (HIGHEST - LOWEST), 1.0)
        zero_point = ops.round(ops.clip(LOWEST - low / scale, LOWEST, HIGHEST))
        return _rounded(inputs, scale, zero_point, LOWEST, HIGHEST)

    def get_config(self):
        return {}


class RowRange(_QUANTIZERS.Quantizer):
    """8 bits for each vector `[…, channels]`, symmetric, by its largest value: what a table's rows become."""

    def build(self, tensor_shape, name, layer):
        return {}

    def __call__(self, inputs, training, weights, **kwargs):
        largest = ops.stop_gradient(ops.max(ops.abs(inputs), axis=-1, keepdims=True))
        return _rounded(inputs, ops.maximum(largest, 1e-12) / HIGHEST, 0.0, -HIGHEST, HIGHEST)

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
    return _round(values / step) * step


def _rounded(values, scale, zero_point, lowest, highest):
    integers = ops.clip(_round(values / scale) + zero_point, lowest, highest)
    return (integers - zero_point) * scale


def _round(values):
    return values + ops.stop_gradient(ops.round(values) - values)


def _share_gradient(values, share):
    return values * share + ops.stop_gradient(values * (1 - share))


def _gradient_share(inputs, top):
    """LSQ's: a range that thousands of values share would otherwise outshout the weights in the clipped norm."""
    return ops.stop_gradient(ops.cast(1.0, "float32") / ops.sqrt(ops.cast(ops.size(inputs), "float32") * top))
