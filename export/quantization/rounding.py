"""Matrices → small integers with a scale for each row, in NumPy.

Rows are output channels. `round_weights` chooses the scales by the error that they leave; `round_with_data` also lets
the later columns of a row make up for what the earlier ones lost, on what the layer really sees (GPTQ, Frantar et al.
2022).
"""

import numpy as np

from export.quantization.statistics import LayerStatistics


def round_weights(
    weights: np.ndarray, bits: int, importance: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Nearest integers and a scale per row.

    At 4 bits it pays to let the few largest weights of a row saturate: the scale is the best of some, by the squared
    error weighted with `importance` (how large each input is). At 8 bits the largest weight is the end of the scale.

    Example:
        >>> integers, scales = round_weights(np.array([[1.0, -0.5], [0.1, 0.0]]), 8)
        >>> integers.tolist(), (scales * 127).round(3).tolist()
        ([[127, -64], [127, 0]], [1.0, 0.1])
    """
    top = 2 ** (bits - 1) - 1
    full = np.maximum(np.abs(weights).max(axis=1), 1e-12) / top
    shares = (1.0,) if bits >= 8 else np.linspace(1.0, 0.5, 21)
    importance = 1.0 if importance is None else importance
    best_error, best_scale = np.full(len(weights), np.inf), full
    for share in shares:
        scale = full * share
        rounded = _round(weights, scale, top) * scale[:, None]
        error = (np.square(rounded - weights) * importance).sum(axis=1)
        best_scale = np.where(error < best_error, scale, best_scale)
        best_error = np.minimum(error, best_error)
    return _round(weights, best_scale, top).astype(np.int8), best_scale


def round_with_data(weights: np.ndarray, bits: int, moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Integers and scales that keep a layer's outputs on its calibration data.

    Args:
        weights: `[outputs, inputs]`.
        bits: 4 or 8.
        moments: The sum of `x xᵀ` over the inputs, `[inputs, inputs]`.
    """
    top, size = 2 ** (bits - 1) - 1, weights.shape[1]
    moments = moments + np.eye(size) * max(1e-12, 0.01 * float(np.mean(np.diag(moments))))
    _, scale = round_weights(weights, bits, np.diag(moments))
    order = np.argsort(-np.diag(moments))  # the loudest inputs first, while many columns can still make up for them
    rest = weights[:, order].astype(np.float64)
    pull = np.linalg.cholesky(np.linalg.inv(moments[np.ix_(order, order)])).T
    integers = np.empty(rest.shape, np.int8)
    for begin in range(0, size, 64):  # blocks: the far columns are corrected by one product for 64 columns
        end = min(begin + 64, size)
        errors = np.empty((len(rest), end - begin))
        for column in range(begin, end):
            rounded = np.clip(np.round(rest[:, column] / scale), -top, top)
            error = (rest[:, column] - rounded * scale) / pull[column, column]
            rest[:, column:end] -= np.outer(error, pull[column, column:end])
            integers[:, order[column]] = rounded
            errors[:, column - begin] = error
        rest[:, end:] -= errors @ pull[begin:end, end:]
    return integers, scale


def round_to_scales(weights: np.ndarray, scales: np.ndarray, bits: int) -> np.ndarray:
    """Nearest integers where the scale of each row is given.

    Example:
        >>> round_to_scales(np.array([[1.0, -0.5]]), np.array([0.1]), 4).tolist()
        [[7, -5]]
    """
    return _round(weights, scales, 2 ** (bits - 1) - 1).astype(np.int8)


def pack_int4(integers: np.ndarray) -> np.ndarray:
    """Two values a byte, the first in the low half: what TFLite stores.

    Example:
        >>> pack_int4(np.array([[1, -1], [7, 0]], np.int8)).tolist()
        [-15, 7]
    """
    flat = integers.reshape(-1)
    flat = np.pad(flat, (0, flat.size % 2))
    return (flat[0::2] & 0x0F) | (flat[1::2] << 4)


def _round(weights, scale, top):
    return np.clip(np.round(weights / scale[:, None]), -top, top)


SMALLEST_TABLE = 4096  # values; a smaller table is not worth the two more ops


def row_scales(values: np.ndarray, bits: int) -> np.ndarray:
    """The scale of each row, `[rows, 1]`: its largest value is the end of the integers; of 4 bits, where every step
    counts, the one with the least error, beyond which values are cut. Rounded values keep their scale.

    Example:
        >>> row_scales(np.array([[2.0, -254.0]]), 8).tolist()
        [[2.0]]
    """
    widest = np.maximum(np.abs(values).max(axis=1, keepdims=True), 1e-12) / (2 ** (bits - 1) - 1)
    if bits != 4:
        return widest
    shares = np.linspace(1.0, 0.5, 26)
    errors = np.stack([np.square(round_rows(values, share * widest, 4) - values).sum(axis=1) for share in shares])
    return shares[errors.argmin(axis=0)][:, None] * widest


def round_rows(values: np.ndarray, scales: np.ndarray, bits: int) -> np.ndarray:
    """What a table holds of its values: multiples of each row's scale.

    Example:
        >>> round_rows(np.array([[1.2, -9.0]]), np.array([[1.0]]), 4).tolist()
        [[1.0, -7.0]]
    """
    return _integers(values, scales, bits) * scales


def _integers(values, scales, bits):
    top = 2 ** (bits - 1) - 1
    return np.clip(np.round(values / scales), -top, top)


_FEW_OUTPUTS = 32


def bits_of(weights: np.ndarray, bits: int) -> int:
    """How many bits a matrix `[outputs, inputs]` gets where most get `bits`.

    Example:
        >>> bits_of(np.zeros((2, 384)), 4), bits_of(np.zeros((384, 384)), 4)
        (8, 4)
    """
    return 8 if len(weights) < _FEW_OUTPUTS else bits


def round_matrix(
    weights: np.ndarray, bits: int, statistics: LayerStatistics | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Integers and scales of a matrix of a dynamic product."""
    bits = bits_of(weights, bits)
    if bits == 8 or statistics is None:
        return round_weights(weights, bits)
    return round_with_data(weights, bits, statistics.moments)
