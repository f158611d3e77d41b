"""Computes the mean of each text's token states, for plain rows and for shared ones.

The sum is a matrix product with the mask, so TFLite needs only built-in ops, and XNNPACK runs all of them.
"""

from typing import Any

import keras
from keras import ops


def mean_of_tokens(states: Any, visible: Any, starts: Any = None, *, packed: bool = False) -> Any:
    """Return the mean of each text's states, special tokens included.

    Args:
        states: `[B, T, H]`.
        visible: `[B, T]`: 1 for tokens and 0 for padding; in shared rows the number of each token's text, from 1.
        starts: For shared rows: where the texts begin. `[X]`, places in all rows one after the other, with the texts
            numbered over all rows, gives `[X, H]`. `[B, E]`, places in each row, with the texts numbered in each row,
            gives `[B, E, H]`.
        packed: Whether rows are shared, if there is no `starts`; the mean is then that of the first text of each row.

    Example:
        >>> states = np.array([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
        >>> mean_of_tokens(states, np.array([[1, 1, 0]])).numpy().tolist()
        [[0.5, 0.5]]
    """
    if starts is None:
        share = ops.cast(ops.equal(visible, 1) if packed else visible, states.dtype)  # [B, T]
        summed = ops.matmul(share[:, None, :], states)[:, 0, :]
    elif len(starts.shape) == 1:
        share = _shares(ops.reshape(visible, (1, -1)), starts, states.dtype)  # [X, B * T]
        summed = ops.matmul(share, ops.reshape(states, (-1, states.shape[-1])))
    else:
        share = _shares(visible[:, None, :], starts, states.dtype)  # [B, E, T]
        summed = ops.matmul(share, states)
    return summed / ops.maximum(ops.sum(share, axis=-1, keepdims=True), 1.0)


def _shares(owners: Any, starts: Any, dtype: str) -> Any:
    numbers = ops.arange(1, ops.shape(starts)[-1] + 1, dtype="int32")[:, None]
    return ops.cast(ops.equal(ops.cast(owners, "int32"), numbers), dtype)


def grouped_model(model: keras.Model, output: str, group: int, *, name: str) -> keras.Model:
    """Return a model of shared rows whose output of single texts, `[B * G, …]`, is grouped to `[B, G, …]`.

    Example:
        ```python
        grouped_model(embedder, "sentence_embedding", 2, name="pair_embeddings")
        ```
    """
    vectors = model.output[output]
    return keras.Model(model.input, {name: ops.reshape(vectors, (-1, group, *vectors.shape[1:]))}, name=model.name)
