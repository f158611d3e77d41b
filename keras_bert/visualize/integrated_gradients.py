"""A number that a model gives, and two inputs → how much of the difference each token makes: integrated gradients.

Takes token vectors and a baseline of the same shape, gives a number for each token; together they are the difference of
the model's answers (Sundararajan, Taly and Yan 2017, "completeness"). A room of its own because it is calculus alone:
it knows no texts, and asks the backend for gradients, which `keras.ops` has not.
"""

from collections.abc import Callable

import keras
import numpy as np
from keras import ops

_BATCH = 16
_FEWEST, _MOST = 16, 1024


def integrate_gradients(
    function: Callable, vectors: np.ndarray, baseline: np.ndarray, *, steps: int | None = None, tolerance: float = 0.01
) -> tuple[np.ndarray, float, float, int]:
    """What each token adds to `function(vectors) − function(baseline)`.

    The gradient is taken at the points of a Gauss–Legendre quadrature on the straight line between the two, which needs
    far fewer of them than equal steps.

    Args:
        function: Takes `[S, T, E]`, gives `[S]`; made of the backend's ops.
        vectors: `[T, E]`.
        baseline: `[T, E]`.
        steps: How many points. `None` doubles them until the sum is right: within `tolerance * (1 + |difference|)`.
        tolerance: See `steps`.

    Returns:
        The attributions `[T]`, the function's values at the vectors and at the baseline, and how many points it took.

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


def _integrate(function, vectors, baseline, count):
    points, weights = np.polynomial.legendre.leggauss(count)
    points, weights = (points + 1) / 2, weights / 2  # from 0 to 1 instead of −1 to 1
    total = np.zeros(vectors.shape, "float64")
    for start in range(0, count, _BATCH):
        share = points[start : start + _BATCH, None, None].astype("float32")
        gradients = input_gradients(function, baseline + share * (vectors - baseline))  # [S, T, E]
        total += np.einsum("s,ste->te", weights[start : start + _BATCH], gradients)
    return np.sum(total * (vectors - baseline), axis=-1)


def input_gradients(function: Callable, points: np.ndarray) -> np.ndarray:
    """The gradient of each row's number by that row, `[S, T, E]`, on TensorFlow or JAX."""
    if keras.backend.backend() == "jax":
        import jax

        return np.asarray(jax.grad(lambda x: ops.sum(function(x)))(points))
    import tensorflow as tf

    with tf.GradientTape() as tape:
        x = tf.convert_to_tensor(points)
        tape.watch(x)
        total = ops.sum(function(x))
    return tape.gradient(total, x).numpy()
