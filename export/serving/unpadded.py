"""Run a model on the tokens of a batch alone, without the padding between them.

The rows of a batch have one width, that of the longest. Everything in BERT but attention works on each token by itself,
so here the tokens of all rows stand one after the other, `[X, H]`, and only queries, keys and values are arranged as
rows `[B, T, …]` for the attention within each row. So a batch pays for its tokens. The answers are the same, for all
models whose outputs have a row for each text.
"""

from typing import Any

import keras
import tensorflow as tf

from keras_bert.model.attention_bias import MASK_BIAS
from keras_bert.model.embeddings import BertEmbeddings
from keras_bert.model.encoder import INPUT_NAMES, EncoderBlock

PRECISIONS = ("float32", "bfloat16")


class UnpaddedModel:
    """A model whose encoder reads tokens without padding; calling it gives the model's outputs.

    Args:
        model: A model on `bert_encoder`.
        precision: The type of the matrix products: `"float32"`, or `"bfloat16"` for processors that multiply it.
    """

    def __init__(self, model: keras.Model, precision: str = "float32"):
        self._blocks = [layer for layer in model.layers if isinstance(layer, EncoderBlock)]
        self._tokens = model.get_layer("token_embedding")
        (self._embeddings,) = (layer for layer in model.layers if isinstance(layer, BertEmbeddings))
        self._product = _Product(precision)
        states = self._blocks[-1].output[0]
        self._heads = keras.Model([states, *(model.input[name] for name in INPUT_NAMES)], model.output)

    @staticmethod
    def fits(model: keras.Model) -> bool:
        """Whether a model can be run in this way: plain rows, and outputs for each text, none for each token."""
        names = {layer.name for layer in model.layers}
        is_plain = {"token_embedding", "embeddings", "padding_bias"} <= names and "prefix_bias" not in names
        blocks = [layer for layer in model.layers if isinstance(layer, EncoderBlock)]
        outputs = model.output if isinstance(model.output, dict) else {}
        return bool(is_plain and blocks and outputs and all(len(value.shape) == 2 for value in outputs.values()))

    def __call__(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Give the outputs of the model.

        Args:
            inputs: `token_ids`, `segment_ids` and `padding_mask`, int32 `[B, T]`.
        """
        ids, segments, mask = (inputs[name] for name in INPUT_NAMES)
        rows = _Rows(mask)
        x = self._embeddings(self._tokens(rows.tokens(ids)), rows.tokens(segments), rows.positions)  # [X, H]
        for block in self._blocks:
            x = self._feed(block, x, self._attend(block.attention, x, rows))
        return self._heads([rows.arrange(x), ids, segments, mask], training=False)

    def _attend(self, attention: Any, x: tf.Tensor, rows: "_Rows") -> tf.Tensor:
        """The attended vectors of all tokens, `[X, H]`."""
        config = attention.config

        def split(values: tf.Tensor, axes: list[int]) -> tf.Tensor:
            rows_of_heads = rows.arrange(values)
            shape = tf.concat([tf.shape(rows_of_heads)[:2], [config.num_heads, config.head_dim]], axis=0)
            return tf.transpose(tf.reshape(rows_of_heads, shape), axes)

        query = split(self._product(attention.query, x) * config.head_dim**-0.5, [0, 2, 1, 3])
        key = split(self._product(attention.key, x), [0, 2, 3, 1])
        value = split(self._product(attention.value, x), [0, 2, 1, 3])
        probabilities = tf.nn.softmax(tf.matmul(query, key) + rows.bias)  # [B, N, T, T]
        attended = rows.tokens(tf.transpose(tf.matmul(probabilities, value), [0, 2, 1, 3]))  # [X, N, D]
        return self._product(attention.output_dense, tf.reshape(attended, [-1, config.heads_dim]))

    def _feed(self, block: Any, x: tf.Tensor, attended: tf.Tensor) -> tf.Tensor:
        x = block.attention_norm(x + attended)
        return block.output_norm(x + self._product(block.output_dense, self._product(block.intermediate, x)))


class _Rows:
    """The rows of a batch: from `[B, T, …]` to its tokens `[X, …]` and back."""

    def __init__(self, mask: tf.Tensor):
        is_token = mask > 0
        self._places = tf.where(tf.reshape(is_token, [-1]))[:, 0]  # of each token in the flattened rows
        number = tf.cumsum(tf.cast(tf.reshape(is_token, [-1]), tf.int32), exclusive=True)
        # Padding gets the token of another place, which the bias hides. The last row is for a batch without tokens.
        self._numbers = tf.reshape(number, tf.shape(mask))
        self.positions = tf.gather(tf.reshape(tf.zeros_like(mask) + tf.range(tf.shape(mask)[1]), [-1]), self._places)
        self.bias = (1.0 - tf.cast(is_token, tf.float32))[:, None, None, :] * MASK_BIAS

    def tokens(self, values: tf.Tensor) -> tf.Tensor:
        """The values of tokens: `[X, …]` from `[B, T, …]`."""
        return tf.gather(tf.reshape(values, tf.concat([[-1], tf.shape(values)[2:]], axis=0)), self._places)

    def arrange(self, values: tf.Tensor) -> tf.Tensor:
        """The values as rows: `[B, T, W]` from `[X, W]`; padding gets finite values."""
        return tf.gather(tf.concat([values, tf.zeros([1, values.shape[1]])], axis=0), self._numbers)


class _Product:
    """Applies a dense layer in a precision; the matrices of another one than float32 become constants of the graph."""

    def __init__(self, precision: str):
        if precision not in PRECISIONS:
            raise ValueError(f"Got precision={precision!r}; expected one of {', '.join(map(repr, PRECISIONS))}.")
        self._dtype = tf.as_dtype(precision)

    def __call__(self, layer: Any, x: tf.Tensor) -> tf.Tensor:
        if self._dtype == tf.float32:
            return layer(x)
        with tf.init_scope():  # made once, outside of the graph that is traced
            kernel = tf.cast(layer.kernel.value, self._dtype).numpy()
        product = tf.cast(tf.matmul(tf.cast(x, self._dtype), tf.constant(kernel)), tf.float32) + layer.bias
        return layer.activation(product) if layer.activation is not None else product
