"""Integrated gradients (Sundararajan, Taly and Yan 2017).

Takes a function, token vectors and a baseline of the same shape; gives a number for each token. Their sum is the
difference of the function's values ("completeness"). Gradients come from the backend, because `keras.ops` has none.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

_BATCH = 16
_FEWEST, _MOST = 16, 1024


def integrate_gradients(
    function: Callable[[Any], Any],
    vectors: np.ndarray,
    baseline: np.ndarray,
    *,
    steps: int | None = None,
    tolerance: float = 0.01,
) -> tuple[np.ndarray, float, float, int]:
    """Compute what each token adds to `function(vectors) − function(baseline)`.

    The gradient is computed at the points of a Gauss–Legendre quadrature on the line between the two, which needs
    far fewer points than equal steps.

    Args:
        function: Takes `[S, T, E]`, gives `[S]`; differentiable by the backend.
        vectors: `[T, E]`.
        baseline: `[T, E]`.
        steps: Number of points. `None` doubles it until the sum is within `tolerance * (1 + |difference|)`.
        tolerance: See `steps`.

    Returns:
        The attributions `[T]`, the function's values at the vectors and at the baseline, and the number of points.

    Example:
        >>> vectors = np.array([[1.0, 2.0], [3.0, 0.0]], "float32")
        >>> integrate_gradients(lambda x: ops.sum(x**2, axis=(1, 2)), vectors, 0 * vectors)[0].round(4).tolist()
        [5.0, 9.0]
    """
    vectors, baseline = np.asarray(vectors, "float32"), np.asarray(baseline, "float32")
    value, least = ops.convert_to_numpy(function(ops.convert_to_tensor(np.stack([vectors, baseline])))).tolist()
    count = steps or _FEWEST
    while True:
        attributions = _integrate(function, vectors, baseline, count)
        gap = abs(attributions.sum() - (value - least))
        if steps is not None or gap <= tolerance * (1 + abs(value - least)) or count >= _MOST:
            return attributions, value, least, count
        count *= 2


def _integrate(function: Callable[[Any], Any], vectors: np.ndarray, baseline: np.ndarray, count: int) -> np.ndarray:
    points, weights = np.polynomial.legendre.leggauss(count)
    points, weights = (points + 1) / 2, weights / 2  # from 0 to 1 instead of −1 to 1
    total = np.zeros(vectors.shape, "float64")
    for start in range(0, count, _BATCH):
        share = points[start : start + _BATCH, None, None].astype("float32")
        gradients = input_gradients(function, baseline + share * (vectors - baseline))  # [S, T, E]
        total += np.einsum("s,ste->te", weights[start : start + _BATCH], gradients)
    return np.sum(total * (vectors - baseline), axis=-1)


def input_gradients(function: Callable[[Any], Any], points: np.ndarray) -> np.ndarray:
    """Compute the gradient of each row's value with respect to that row, `[S, T, E]`, on TensorFlow or JAX."""
    if keras.backend.backend() == "jax":
        import jax

        return np.asarray(jax.grad(lambda x: ops.sum(function(x)))(points))
    import tensorflow as tf

    with tf.GradientTape() as tape:
        x = tf.convert_to_tensor(points)
        tape.watch(x)
        total = ops.sum(function(x))
    return tape.gradient(total, x).numpy()
