"""A model over single texts → one whose output belongs to groups of them, for losses that see a group as a whole.

A room of its own because every task on groups (pairs of sentences, the choices of a question) trains on packed rows, in
which the texts of a group follow each other in `example_starts`.
"""

import keras
from keras import ops


def grouped_model(model: keras.Model, output: str, group: int, *, name: str) -> keras.Model:
    """A model over packed rows whose output for single texts, `[B * G, …]`, is that of groups, `[B, G, …]`.

    Example:
        ```python
        grouped_model(embedder, "sentence_embedding", 2, name="pair_embeddings")
        ```
    """
    vectors = model.output[output]
    return keras.Model(model.input, {name: ops.reshape(vectors, (-1, group, *vectors.shape[1:]))}, name=model.name)
