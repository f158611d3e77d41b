"""What flows through matrix products → how they are done in integers, in and out: factors, scales, zero points.

Static int8 by itself is ruined by a few loud channels, because all channels of an activation share a scale. So channels
are brought to similar loudness first: inputs are divided by a factor each, which the weights' columns are multiplied by
(SmoothQuant, Xiao et al. 2022), and outputs likewise by way of the weights' rows, which have scales of their own and
lose nothing. What is left of it in the graph is a float MUL before and after.

A room of its own because it is NumPy on statistics: a file is rewritten by these numbers, and quantization-aware
training begins with them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from export.quantization.rounding import round_weights
from export.quantization.statistics import LayerStatistics

_STRENGTHS = (0.0, 0.15, 0.25, 0.35, 0.5, 0.65, 0.8)


@dataclass(frozen=True)
class StaticLayer:
    """A matrix product in integers, in and out.

    Args:
        integers: The matrix, `[outputs, inputs]`.
        scales: One for each output.
        input_factors: What inputs are divided by, and the matrix is multiplied with; `None` is 1.
        input_scale: Scale and zero point of the inputs.
        output_factors: What outputs are multiplied with, and the matrix is divided by; `None` is 1.
        output_scale: Scale and zero point of the outputs.
        activation_bits: 8, or 16.
    """

    integers: np.ndarray
    scales: np.ndarray
    input_factors: np.ndarray | None
    input_scale: tuple[float, int]
    output_factors: np.ndarray | None
    output_scale: tuple[float, int]
    activation_bits: int

    @classmethod
    def from_weights(cls, weights, input_factors, input_scale, output_factors, output_scale, bits=8) -> "StaticLayer":
        """The same from float weights `[outputs, inputs]`."""
        divide, multiply = (1.0 if factors is None else factors for factors in (input_factors, output_factors))
        integers, scales = round_weights(((weights * divide).T / multiply).T, 8)
        return cls(integers, scales, input_factors, input_scale, output_factors, output_scale, bits)

    @property
    def input_key(self) -> tuple:
        """What readers of one tensor must have in common to read the same integers."""
        factors = None if self.input_factors is None else self.input_factors.tobytes()
        return self.input_scale, factors


def plan_static(
    matrices: Mapping[Any, np.ndarray], statistics: Mapping[Any, LayerStatistics], *, activation_bits: int = 8
) -> dict[Any, StaticLayer]:
    """The static form of products, from what flows through them.

    Args:
        matrices: The weights `[outputs, inputs]`, by any key.
        statistics: What flows through them, by the same.
        activation_bits: 8, or 16.
    """
    readers: dict[Any, list] = {}
    for key in matrices:
        readers.setdefault(statistics[key].source, []).append(key)
    layers = {}
    for keys in readers.values():
        factors = None
        if activation_bits == 8:  # 16 bits have room for loud channels
            factors = _input_factors([matrices[key].astype(np.float64) for key in keys], statistics[keys[0]])
        for key in keys:
            layers[key] = _static_layer(matrices[key].astype(np.float64), statistics[key], factors, activation_bits)
    return layers


def _static_layer(weights, layer, input_factors, bits):
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


def _input_factors(matrices, layer):
    """What to divide the channels of an input by, for all matrices that read it; `None` where it gains little.

    The best of some powers of the channels' loudness, by the error to be expected: rounding inputs leaves step² / 12 on
    every one, rounding weights the same on theirs.
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
    best = min(errors, key=errors.get)
    return None if errors[0.0] < 1.15 * errors[best] else (loudness / loudness.mean()) ** best


def _range_scale(low, high, bits):
    """Scale and zero point for values between the smallest and the largest, 0 among them; 16 bits are symmetric."""
    low, high = min(float(np.min(low)), 0.0), max(float(np.max(high)), 0.0)
    if bits == 16:
        return max(-low, high, 1e-8) / 32767, 0
    scale = max(high - low, 1e-8) / 255
    return scale, int(np.clip(round(-128 - low / scale), -128, 127))
