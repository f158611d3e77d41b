"""Pool the states of tokens into one vector for each text.

`embedding_model` takes an encoder and gives a model with `sentence_embedding [B, H]`. It works on plain rows (answers,
devices) and on shared rows (training). The layer has no weights, so a model with it is saved as an ordinary encoder.
Normalizing adds a small number to the sum of squares, which avoids division by zero with ops that TFLite has.
"""

from typing import Any

import keras
from keras import ops

from keras_bert.model.pooling import mean_of_tokens

POOLINGS = ("mean", "cls", "pooler")
OUTPUT = "sentence_embedding"
_SMALLEST = 1e-12


@keras.saving.register_keras_serializable("keras_bert")
class SentencePooling(keras.layers.Layer):
    """Pools states `[B, T, H]` into a vector for each text, `[B, H]`, always float32.

    In shared rows `visible` has the number of the text that each token belongs to, and `starts [X]` where each of the X
    texts begins, counted over all rows; the output is `[X, H]`.

    Args:
        pooling: `"mean"` of a text's tokens, including special ones; `"cls"`, the state of its first token; or
            `"pooler"`, the encoder's `pooled_output`.
        normalize: Whether vectors are scaled to length 1.
        dimensions: How many of the first numbers of a vector are kept; `None` keeps all.

    Example:
        >>> states = np.array([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
        >>> SentencePooling(normalize=False)(states, np.array([[1, 1, 0]])).numpy().tolist()
        [[0.5, 0.5]]
    """

    def __init__(self, pooling: str = "mean", normalize: bool = True, dimensions: int | None = None, **kwargs: Any):
        # In half precision squares overflow, and the small number would be 0.
        kwargs.setdefault("dtype", "float32")
        super().__init__(**kwargs)
        self.pooling, self.normalize, self.dimensions = check_pooling(pooling), normalize, dimensions

    def call(self, states: Any, visible: Any = None, starts: Any = None) -> Any:
        vectors = self._pool(states, visible, starts)
        if self.dimensions is not None:
            vectors = vectors[:, : self.dimensions]
        if not self.normalize:
            return vectors
        return vectors * ops.rsqrt(ops.sum(vectors * vectors, axis=-1, keepdims=True) + _SMALLEST)

    def _pool(self, states: Any, visible: Any, starts: Any) -> Any:
        if self.pooling == "pooler":
            return states
        if self.pooling == "mean":
            return mean_of_tokens(states, visible, starts)
        return (
            states[:, 0, :] if starts is None else ops.take(ops.reshape(states, (-1, states.shape[-1])), starts, axis=0)
        )

    def compute_output_shape(
        self, states_shape: Any, visible_shape: Any = None, starts_shape: Any = None
    ) -> tuple[int | None, ...]:
        return (*(starts_shape or states_shape[:1]), self.dimensions or states_shape[-1])

    def get_config(self) -> dict[str, Any]:
        settings = {"pooling": self.pooling, "normalize": self.normalize, "dimensions": self.dimensions}
        return {**super().get_config(), **settings}


def embedding_model(
    encoder: keras.Model, *, pooling: str = "mean", normalize: bool = True, dimensions: int | None = None
) -> keras.Model:
    """Make a model that gives a vector for each text, from plain rows or, after `with_example_starts`, shared ones.

    Args:
        encoder: The encoder.
        pooling, normalize, dimensions: As for `SentencePooling`.

    Example:
        >>> embedding_model(bert_encoder(BertConfig.preset("tiny"))).output["sentence_embedding"].shape
        (None, 128)
    """
    width = encoder.output["sequence_output"].shape[-1]
    if dimensions is not None and (type(dimensions) is not int or not 1 <= dimensions <= width):
        raise ValueError(
            f"dimensions={dimensions!r}: expected 1 to {width}, the encoder's hidden_dim, or None for all."
        )
    layer = SentencePooling(pooling, normalize, dimensions, name="sentence_pooling")
    if pooling == "pooler":
        vectors = layer(encoder.output["pooled_output"])
    else:
        starts = encoder.input.get("example_starts")
        given = () if starts is None else (starts,)
        vectors = layer(encoder.output["sequence_output"], encoder.input["padding_mask"], *given)
    return keras.Model(encoder.input, {OUTPUT: vectors}, name=encoder.name)


def check_pooling(pooling: str) -> str:
    """Return the pooling; raise an error if it is unknown."""
    if pooling not in POOLINGS:
        raise ValueError(f"pooling={pooling!r}: expected one of {', '.join(map(repr, POOLINGS))}.")
    return pooling
