"""The states of a text's tokens → their mean, from plain rows and from packed ones.

Takes `states [B, T, H]` and which tokens belong to which text; gives one vector for each text. A room of its own
because the encoder's pooler and the vectors of sentences are the same mean. Drawn for the edge: the sum is a matrix
product with the mask, so that TFLite needs built-in ops alone and XNNPACK takes them all.
"""

import keras
from keras import ops


def mean_of_tokens(states, visible, starts=None, *, packed: bool = False):
    """The mean of each text's states, special tokens included.

    Args:
        states: `[B, T, H]`.
        visible: `[B, T]`: 1 for tokens and 0 for padding; in packed rows the number of the text in them, from 1 on.
        starts: Of packed rows, where texts begin. `[X]`, places in all rows one after the other, whose texts are
            numbered through: gives `[X, H]`. `[B, E]`, places in each row, numbered anew: gives `[B, E, H]`.
        packed: Without `starts`: whether rows are packed; the mean is then that of the first text of each.

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


def _shares(owners, starts, dtype):
    numbers = ops.arange(1, ops.shape(starts)[-1] + 1, dtype="int32")[:, None]
    return ops.cast(ops.equal(ops.cast(owners, "int32"), numbers), dtype)


def grouped_model(model: keras.Model, output: str, group: int, *, name: str) -> keras.Model:
    """A model over packed rows whose output for single texts, `[B * G, …]`, is that of groups, `[B, G, …]`.

    Example:
        ```python
        grouped_model(embedder, "sentence_embedding", 2, name="pair_embeddings")
        ```
    """
    vectors = model.output[output]
    return keras.Model(model.input, {name: ops.reshape(vectors, (-1, group, *vectors.shape[1:]))}, name=model.name)
