"""The states of a text's tokens → one vector for the text: the layer, and the model that ends in it.

Takes an encoder, gives a model with `sentence_embedding [B, H]`. A room of its own because the same vectors are wanted
from plain rows (answers, devices) and from packed ones (training), where the tokens of a text stand somewhere in the
rows; the layer has no weights, so a model with it is saved as an ordinary encoder.

Drawn for the edge: of vectors that are made to length 1 the sum of squares has a small number added to it, so that
nothing is divided by zero and no op is needed that TFLite has not.
"""

import keras
from keras import ops

from keras_bert.model.pooling import mean_of_tokens

POOLINGS = ("mean", "cls", "pooler")
OUTPUT = "sentence_embedding"
_SMALLEST = 1e-12


@keras.saving.register_keras_serializable("keras_bert")
class SentencePooling(keras.layers.Layer):
    """States `[B, T, H]` → a vector for each text, `[B, H]`, float32 whatever the encoder computes in.

    In packed rows `visible` has the number of the text that each token belongs to, and `starts [X]` where each of the X
    texts begins, in all rows one after the other; that gives `[X, H]`.

    Args:
        pooling: `"mean"` of a text's tokens, special ones included; `"cls"`, the state of its first token; or
            `"pooler"`, which takes the encoder's `pooled_output` as it is.
        normalize: Whether vectors are made to length 1.

    Example:
        >>> states = np.array([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
        >>> SentencePooling(normalize=False)(states, np.array([[1, 1, 0]])).numpy().tolist()
        [[0.5, 0.5]]
    """

    def __init__(self, pooling="mean", normalize=True, **kwargs):
        # In half precision squares overflow, and the smallest number that is added would be 0.
        kwargs.setdefault("dtype", "float32")
        super().__init__(**kwargs)
        self.pooling, self.normalize = check_pooling(pooling), normalize

    def call(self, states, visible=None, starts=None):
        vectors = self._pool(states, visible, starts)
        if not self.normalize:
            return vectors
        return vectors * ops.rsqrt(ops.sum(vectors * vectors, axis=-1, keepdims=True) + _SMALLEST)

    def _pool(self, states, visible, starts):
        if self.pooling == "pooler":
            return states
        if self.pooling == "mean":
            return mean_of_tokens(states, visible, starts)
        return (
            states[:, 0, :] if starts is None else ops.take(ops.reshape(states, (-1, states.shape[-1])), starts, axis=0)
        )

    def compute_output_shape(self, states_shape, visible_shape=None, starts_shape=None):
        return (*(starts_shape or states_shape[:1]), states_shape[-1])

    def get_config(self):
        return {**super().get_config(), "pooling": self.pooling, "normalize": self.normalize}


def embedding_model(encoder: keras.Model, *, pooling: str = "mean", normalize: bool = True) -> keras.Model:
    """An encoder that gives a vector for each text, from plain rows or (after `with_example_starts`) packed ones.

    Example:
        >>> embedding_model(bert_encoder(BertConfig.preset("tiny"))).output["sentence_embedding"].shape
        (None, 128)
    """
    layer = SentencePooling(pooling, normalize, name="sentence_pooling")
    if pooling == "pooler":
        vectors = layer(encoder.output["pooled_output"])
    else:
        starts = encoder.input.get("example_starts")
        given = () if starts is None else (starts,)
        vectors = layer(encoder.output["sequence_output"], encoder.input["padding_mask"], *given)
    return keras.Model(encoder.input, {OUTPUT: vectors}, name=encoder.name)


def check_pooling(pooling: str) -> str:
    """The pooling, or an error that names those that there are."""
    if pooling not in POOLINGS:
        raise ValueError(f"pooling={pooling!r}: expected one of {', '.join(map(repr, POOLINGS))}.")
    return pooling
