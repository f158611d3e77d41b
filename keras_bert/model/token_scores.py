"""Cross-entropy and hits of scores over a whole vocabulary, which is the largest array of a step.

Takes `ids [...]` and `logits [..., V]`, gives `[...]` in float32. On JAX, all sums over the vocabulary are of a form
that a compiler makes together, in one reading of the scores; Keras' functions read them seven times, which is a fifth
of a small model's step on a TPU.
"""

from typing import Any

import keras
from keras import ops


def token_cross_entropy(ids: Any, logits: Any) -> Any:
    """Return the cross-entropy of each id.

    Example:
        >>> float(token_cross_entropy(np.array([1]), np.array([[0.0, 0.0]], "float32"))[0]).__round__(4)
        0.6931
    """
    if keras.backend.backend() != "jax":
        return keras.losses.sparse_categorical_crossentropy(ids, logits, from_logits=True)
    scores, top, own, _ = _compared(ids, logits)
    return ops.log(ops.sum(ops.exp(scores - top[..., None]), axis=-1)) + top - own


def token_hits(ids: Any, logits: Any) -> Any:
    """Return 1 for each id that has the greatest score, the first of equal ones, and 0 for the others.

    Example:
        >>> token_hits(np.array([1, 1]), np.array([[0.0, 2.0], [2.0, 2.0]], "float32")).numpy().tolist()
        [1.0, 0.0]
    """
    if keras.backend.backend() != "jax":
        return keras.metrics.sparse_categorical_accuracy(ids, logits)
    scores, top, own, before = _compared(ids, logits)
    equals = ops.sum(ops.cast(ops.logical_and(before, scores == top[..., None]), "float32"), axis=-1)
    return ops.cast(ops.logical_and(own == top, equals == 0), "float32")


def _compared(ids: Any, logits: Any) -> tuple[Any, Any, Any, Any]:
    """Return scores in float32, the greatest of each row, that of the id, and which places are before the id's."""
    scores = ops.cast(logits, "float32")
    top = ops.stop_gradient(ops.max(scores, axis=-1))
    places, ids = ops.arange(logits.shape[-1], dtype="int32"), ops.cast(ids, "int32")[..., None]
    return scores, top, ops.sum(ops.where(places == ids, scores, 0.0), axis=-1), places < ids
