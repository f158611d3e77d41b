"""Plan matrix products with integer inputs and outputs: factors, scales and zero points.

All channels of an activation share a scale, so a few large channels spoil static int8. So the channels are brought to
similar sizes first. Inputs are divided by a factor each, and the columns of the weights are multiplied by it
(SmoothQuant, Xiao et al. 2022). Outputs are treated likewise through the rows of the weights, which have their own
scales and lose nothing. In the graph, a float MUL remains before and after.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from export.quantization.rounding import round_weights
from export.quantization.statistics import LayerStatistics

_STRENGTHS = (0.0, 0.15, 0.25, 0.35, 0.5, 0.65, 0.8)
# How much larger than in the calibration data a value of 16 bits may be. The steps stay far smaller than those of the
# weights, and a text with larger values than any that was seen is not cut.
_HEADROOM = 2.0


@dataclass(frozen=True)
class StaticLayer:
    """A matrix product with integer inputs and outputs.

    Args:
        integers: The matrix, `[outputs, inputs]`.
        scales: One for each output.
        input_factors: Inputs are divided by these, and the matrix is multiplied; `None` is 1.
        input_scale: Scale and zero point of the inputs.
        output_factors: Outputs are multiplied by these, and the matrix is divided; `None` is 1.
        output_scale: Scale and zero point of the outputs.
        activation_bits: 8 or 16.
    """

    integers: np.ndarray
    scales: np.ndarray
    input_factors: np.ndarray | None
    input_scale: tuple[float, int]
    output_factors: np.ndarray | None
    output_scale: tuple[float, int]
    activation_bits: int

    @classmethod
    def from_weights(
        cls,
        weights: np.ndarray,
        input_factors: np.ndarray | None,
        input_scale: tuple[float, int],
        output_factors: np.ndarray | None,
        output_scale: tuple[float, int],
        bits: int = 8,
    ) -> "StaticLayer":
        """Build it from float weights `[outputs, inputs]`."""
        divide, multiply = (1.0 if factors is None else factors for factors in (input_factors, output_factors))
        integers, scales = round_weights(((weights * divide).T / multiply).T, 8)
        return cls(integers, scales, input_factors, input_scale, output_factors, output_scale, bits)

    @property
    def input_key(self) -> tuple[tuple[float, int], bytes | None]:
        """A key that is equal for products that can read the same integers."""
        factors = None if self.input_factors is None else self.input_factors.tobytes()
        return self.input_scale, factors


def plan_static(
    matrices: Mapping[Any, np.ndarray], statistics: Mapping[Any, LayerStatistics], *, activation_bits: int = 8
) -> dict[Any, StaticLayer]:
    """Plan the static form of products from the statistics of their inputs and outputs.

    Args:
        matrices: The weights `[outputs, inputs]`, by any key.
        statistics: The statistics of their inputs and outputs, by the same keys.
        activation_bits: 8 or 16.
    """
    readers: dict[Any, list[Any]] = {}
    for key in matrices:
        readers.setdefault(statistics[key].source, []).append(key)
    layers = {}
    for keys in readers.values():
        factors = None
        if activation_bits == 8:  # 16 bits are enough for large channels
            factors = _input_factors([matrices[key].astype(np.float64) for key in keys], statistics[keys[0]])
        for key in keys:
            layers[key] = _static_layer(matrices[key].astype(np.float64), statistics[key], factors, activation_bits)
    return layers


def _static_layer(
    weights: np.ndarray, layer: LayerStatistics, input_factors: np.ndarray | None, bits: int
) -> StaticLayer:
    output_factors = None
    if bits == 8:
        loudness = np.maximum(np.maximum(-layer.output_low, layer.output_high), 1e-6)
        output_factors = loudness / np.exp(np.log(loudness).mean())
    divide, multiply = (1.0 if factors is None else factors for factors in (input_factors, output_factors))
    return StaticLayer.from_weights(
        weights,
        input_factors,
        _range_scale(layer.input_low / divide, layer.input_high / divide, bits),
        output_factors,
        _range_scale(layer.output_low / multiply, layer.output_high / multiply, bits),
        bits,
    )


def _input_factors(matrices: list[np.ndarray], layer: LayerStatistics) -> np.ndarray | None:
    """The factors to divide an input's channels by, for all matrices that read it; `None` if they gain little.

    Several powers of the channels' sizes are tried, and the one with the least expected error is taken: rounding leaves
    step² / 12 on every input, and likewise on every weight.
    """
    low, high = layer.input_low, layer.input_high
    loudness = np.maximum(np.maximum(-low, high), 1e-6)
    energy = np.diag(layer.moments) / max(1, layer.tokens)
    errors = {}
    for strength in _STRENGTHS:
        factors = (loudness / loudness.mean()) ** strength
        step, _ = _range_scale(low / factors, high / factors, 8)
        error = 0.0
        for weights in matrices:
            scaled = weights * factors
            steps = np.abs(scaled).max(axis=1) / 127
            error += step**2 * np.square(scaled).sum() + np.square(steps).sum() * (energy / factors**2).sum()
        errors[strength] = error
    best = min(errors, key=lambda strength: errors[strength])
    return None if errors[0.0] < 1.15 * errors[best] else (loudness / loudness.mean()) ** best


def _range_scale(low: np.ndarray, high: np.ndarray, bits: int) -> tuple[float, int]:
    """The scale and zero point for a range of values that includes 0; 16 bits are symmetric, with headroom."""
    low, high = min(float(np.min(low)), 0.0), max(float(np.max(high)), 0.0)
    if bits == 16:
        return _HEADROOM * max(-low, high, 1e-8) / 32767, 0
    scale = max(high - low, 1e-8) / 255
    return scale, int(np.clip(round(-128 - low / scale), -128, 127))
