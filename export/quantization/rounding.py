"""Round matrices to small integers with a scale for each row, in NumPy.

Rows are output channels. `round_weights` chooses the scales with the least error. `round_with_data` also corrects the
later columns of a row for the errors of the earlier ones, on the layer's own inputs (GPTQ, Frantar et al. 2022).
"""

import numpy as np

from export.quantization.statistics import LayerStatistics


def round_weights(
    weights: np.ndarray, bits: int, importance: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Round weights to the nearest integers, with a scale for each row.

    With 4 bits, the few largest weights of a row may saturate: several scales are tried, and the one with the least
    squared error, weighted with `importance` (how large each input is), is taken. With 8 bits, the largest weight is
    the end of the scale.

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
    """Round weights so that a layer's outputs on its calibration data change least.

    Args:
        weights: `[outputs, inputs]`.
        bits: 4 or 8.
        moments: The sum of `x xᵀ` over the inputs, `[inputs, inputs]`.
    """
    top, size = 2 ** (bits - 1) - 1, weights.shape[1]
    moments = moments + np.eye(size) * max(1e-12, 0.01 * float(np.mean(np.diag(moments))))
    _, scale = round_weights(weights, bits, np.diag(moments))
    order = np.argsort(-np.diag(moments))  # the largest inputs first, while many columns can still be corrected
    rest = weights[:, order].astype(np.float64)
    pull = np.linalg.cholesky(np.linalg.inv(moments[np.ix_(order, order)])).T
    integers = np.empty(rest.shape, np.int8)
    for begin in range(0, size, 64):  # in blocks: later columns are corrected once for 64 columns
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
    """Round weights to the nearest integers, with a given scale for each row.

    Example:
        >>> round_to_scales(np.array([[1.0, -0.5]]), np.array([0.1]), 4).tolist()
        [[7, -5]]
    """
    return _round(weights, scales, 2 ** (bits - 1) - 1).astype(np.int8)


def pack_int4(integers: np.ndarray) -> np.ndarray:
    """Store two values in a byte, the first in the low half, as TFLite does.

    Example:
        >>> pack_int4(np.array([[1, -1], [7, 0]], np.int8)).tolist()
        [-15, 7]
    """
    flat = integers.reshape(-1)
    flat = np.pad(flat, (0, flat.size % 2))
    return (flat[0::2] & 0x0F) | (flat[1::2] << 4)


def _round(weights: np.ndarray, scale: np.ndarray, top: int) -> np.ndarray:
    return np.clip(np.round(weights / scale[:, None]), -top, top)


SMALLEST_TABLE = 4096  # values; a smaller table is not worth two more ops


def row_scales(values: np.ndarray, bits: int) -> np.ndarray:
    """The scale of each row of a table, `[rows, 1]`.

    With 8 bits, the largest value of a row is the largest integer. With 4 bits, the scale with the least error is
    taken, and values beyond it are cut. Rounded values keep their scale.

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
    """Round the values of a table to multiples of each row's scale.

    Example:
        >>> round_rows(np.array([[1.2, -9.0]]), np.array([[1.0]]), 4).tolist()
        [[1.0, -7.0]]
    """
    return table_integers(values, scales, bits) * scales


def table_integers(values: np.ndarray, scales: np.ndarray, bits: int) -> np.ndarray:
    """Round the values of a table to integers, with a scale for each row.

    Example:
        >>> table_integers(np.array([[1.2, -9.0]]), np.array([[0.5]]), 4).tolist()
        [[2.0, -7.0]]"""
    top = 2 ** (bits - 1) - 1
    return np.clip(np.round(values / scales), -top, top)


_FEW_OUTPUTS = 32


def bits_of(weights: np.ndarray, bits: int) -> int:
    """How many bits a matrix `[outputs, inputs]` gets if most get `bits`. A matrix with few outputs gets 8.

    Example:
        >>> bits_of(np.zeros((2, 384)), 4), bits_of(np.zeros((384, 384)), 4)
        (8, 4)
    """
    return 8 if len(weights) < _FEW_OUTPUTS else bits


def round_matrix(
    weights: np.ndarray, bits: int, statistics: LayerStatistics | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Round the matrix of a dynamic product to integers, with a scale for each row."""
    bits = bits_of(weights, bits)
    if bits == 8 or statistics is None:
        return round_weights(weights, bits)
    return round_with_data(weights, bits, statistics.moments)
