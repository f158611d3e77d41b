"""BERT's encoder, from attention to the functional model.

`bert_encoder(config)` gives a plain functional `keras.Model`. Shape letters, here and everywhere: B batch, T tokens,
H hidden_dim, N heads, D head_dim, V vocabulary, M masked, C classes.

The graph is built for edge devices: weights of matmuls become constants, the mask bias is finite, a reshape has at most
one unknown dimension, and GELU is one op. In TFLite the whole encoder is then one XNNPACK partition.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_bert.model.attention_bias import MASK_BIAS, PackedBias, PaddingBias, PrefixBias  # noqa: F401  known from here
from keras_bert.model.config import BertConfig
from keras_bert.model.dropout import HashDropout
from keras_bert.model.embeddings import (
    BertEmbeddings,
    Shape,
    as_config,
    dense,
    layer_norm,
    spread_seed,
    token_embedding,
)
from keras_bert.model.fast_gelu import fast_gelu
from keras_bert.model.neighbour_heads import NeighbourHeads, initial_heads, look_at_neighbours
from keras_bert.model.pooling import mean_of_tokens

INPUT_NAMES = ("token_ids", "segment_ids", "padding_mask")
_LONG, _HEADS_AT_ONCE = 256, 3  # on JAX: tokens of a long row, in which few heads attend at a time

# === Layers ===


@keras.saving.register_keras_serializable("keras_bert")
class SelfAttention(keras.layers.Layer):
    """Multi-head self-attention.

    Takes `x [B, T, H]` and an additive `bias` of `[B, 1, 1, T]` (padding) or `[B, 1, T, T]` (shared rows, prefix-LM);
    gives the attended vectors `[B, T, H]` and the probabilities `[B, N, T, T]`.
    """

    def __init__(self, config: BertConfig | dict[str, Any], *, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = as_config(config)
        self.seed = seed
        width, seeds = self.config.heads_dim, spread_seed(seed, 5)
        self.query = dense(self, width, "query", seed=seeds[0])
        self.key = dense(self, width, "key", seed=seeds[1])
        self.value = dense(self, width, "value", seed=seeds[2])
        self.output_dense = dense(self, self.config.hidden_dim, "output", seed=seeds[3])
        rate = self.config.attention_dropout
        self.dropout = HashDropout(rate, seed=seeds[4], dtype=self.dtype_policy, name="dropout")

    def build(self, x_shape: Shape, bias_shape: Shape | None = None) -> None:
        for layer in (self.query, self.key, self.value):
            layer.build(x_shape)
        self.output_dense.build((*x_shape[:-1], self.config.heads_dim))

    def call(self, x: Any, bias: Any, training: bool | None = None) -> tuple[Any, Any]:
        if keras.backend.backend() == "jax":
            return self._attend_in_place(x, bias, training)
        query, key, value = self.project(x)
        probabilities = ops.softmax(ops.matmul(query, key) + bias)  # [B, N, T, T]
        attended = ops.matmul(self.dropout(probabilities, training=training), value)  # [B, N, T, D]
        return self.merge(attended), probabilities

    def _attend_in_place(self, x: Any, bias: Any, training: bool | None) -> tuple[Any, Any]:
        """Attend without moving heads to the front: compilers for accelerators lay them out for each product."""
        query, key, value = (self._heads(layer(x)) for layer in (self.query, self.key, self.value))  # [B, T, N, D]
        query, together, parts = query * self.config.head_dim**-0.5, self._heads_at_once(x.shape[1]), []
        for first in range(0, self.config.num_heads, together):
            here = slice(first, first + together)
            scores = ops.einsum("btnd,bsnd->bnts", query[:, :, here], key[:, :, here]) + bias
            parts.append(self._weigh(scores, value[:, :, here], training))
        attended, probabilities = (
            heads[0] if len(parts) == 1 else ops.concatenate(heads, axis=axis)
            for heads, axis in zip(zip(*parts, strict=True), (2, 1), strict=True)
        )
        return self.output_dense(ops.reshape(attended, (*_leading(x), self.config.heads_dim))), probabilities

    def _weigh(self, scores: Any, value: Any, training: bool | None) -> tuple[Any, Any]:
        """Return the attended vectors `[B, T, N, D]` and the probabilities `[B, N, T, T]`."""
        if not _is_long(scores.shape[-1]) or keras.backend.standardize_dtype(scores.dtype) == "float16":
            probabilities = ops.softmax(scores)
            dropped = self.dropout(probabilities, training=training)
            return ops.einsum("bnts,bsnd->btnd", dropped, value), probabilities
        # Softmax divides after the product, so that the gradient sums D columns instead of T scores. In float16 the
        # product could be too large.
        powers = ops.exp(scores - ops.stop_gradient(ops.max(scores, axis=-1, keepdims=True)))
        total = ops.sum(powers, axis=-1, keepdims=True)  # [B, N, T, 1]
        attended = ops.einsum("bnts,bsnd->btnd", self.dropout(powers, training=training), value)
        return attended / ops.transpose(total, (0, 2, 1, 3)), powers / total

    def _heads_at_once(self, length: int | None) -> int:
        """The heads to attend with together: few in long rows, so that their scores stay in a chip's fast memory."""
        heads = self.config.num_heads
        if not _is_long(length):
            return heads
        return max(count for count in range(1, _HEADS_AT_ONCE + 1) if heads % count == 0)

    def project(self, x: Any) -> tuple[Any, Any, Any]:
        """Return queries `[B, N, T, D]`, keys `[B, N, D, T]` and values `[B, N, T, D]`, ready to multiply."""
        query = self._split(self.query(x) * self.config.head_dim**-0.5, (0, 2, 1, 3))
        return query, self._split(self.key(x), (0, 2, 3, 1)), self._split(self.value(x), (0, 2, 1, 3))

    def merge(self, attended: Any) -> Any:
        """Concatenate the outputs of the heads, `[B, N, T, D]`, and apply the output layer: `[B, T, H]`."""
        attended = ops.transpose(attended, (0, 2, 1, 3))  # [B, T, N, D]
        return self.output_dense(ops.reshape(attended, (*_leading(attended), self.config.heads_dim)))

    def _split(self, x: Any, axes: tuple[int, ...]) -> Any:
        return ops.transpose(self._heads(x), axes)

    def _heads(self, x: Any) -> Any:
        return ops.reshape(x, (*_leading(x), self.config.num_heads, self.config.head_dim))  # [B, T, N, D]

    def compute_output_shape(self, x_shape: Shape, bias_shape: Shape | None = None) -> tuple[Shape, Shape]:
        batch, length, _ = x_shape
        return tuple(x_shape), (batch, self.config.num_heads, length, length)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "config": self.config.to_dict(), "seed": self.seed}


@keras.saving.register_keras_serializable("keras_bert")
class EncoderBlock(keras.layers.Layer):
    """One layer of BERT: attention and feed-forward, each followed by dropout, residual and layer norm.

    Takes and gives `[B, T, H]`; the second output is the attention probabilities `[B, N, T, T]`.
    """

    def __init__(self, config: BertConfig | dict[str, Any], *, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = as_config(config)
        self.seed = seed
        seeds = spread_seed(seed, 5)
        self.attention = SelfAttention(self.config, seed=seeds[0], dtype=self.dtype_policy, name="attention")
        self.attention_norm = layer_norm(self, "attention_norm")
        self.intermediate = dense(
            self,
            self.config.intermediate_dim,
            "intermediate",
            activation=activation_function(self.config),
            seed=seeds[1],
        )
        self.output_dense = dense(self, self.config.hidden_dim, "output", seed=seeds[2])
        self.output_norm = layer_norm(self, "output_norm")
        rate, policy = self.config.dropout, self.dtype_policy
        self.attention_dropout = HashDropout(rate, seed=seeds[3], dtype=policy, name="attention_dropout")
        self.output_dropout = HashDropout(rate, seed=seeds[4], dtype=policy, name="output_dropout")

    def build(self, x_shape: Shape, bias_shape: Shape | None = None) -> None:
        self.attention.build(x_shape)
        for layer in (self.attention_norm, self.intermediate, self.output_norm):
            layer.build(x_shape)
        self.output_dense.build((*x_shape[:-1], self.config.intermediate_dim))

    def call(self, x: Any, bias: Any, training: bool | None = None) -> tuple[Any, Any]:
        attended, probabilities = self.attention(x, bias, training=training)
        return self.feed(x, attended, training=training), probabilities

    def feed(self, x: Any, attended: Any, training: bool | None = None) -> Any:
        """Compute what follows attention; takes `x` and the attended vectors, both `[B, T, H]`."""
        x = self.attention_norm(x + self.attention_dropout(attended, training=training))
        fed = self.output_dense(self.intermediate(x))
        return self.output_norm(x + self.output_dropout(fed, training=training))

    def compute_output_shape(self, x_shape: Shape, bias_shape: Shape | None = None) -> tuple[Shape, Shape]:
        return self.attention.compute_output_shape(x_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "config": self.config.to_dict(), "seed": self.seed}


@keras.saving.register_keras_serializable("keras_bert")
class Pooler(keras.layers.Layer):
    """A dense layer with tanh, or the config's `pooler_activation`, on the first token's state, or on the mean of all
    states: `[B, T, H]` to `[B, H]`.

    In shared rows, `starts` says where the examples begin: `[B, E]`, the places in each row, gives `[B, E, H]`; `[X]`,
    the places in all rows one after the other, gives `[X, H]`. The mean also takes `visible`, the `padding_mask`.
    """

    def __init__(self, config: BertConfig | dict[str, Any], *, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = as_config(config)
        self.seed = seed
        activation = gelu if self.config.pooler_activation == "gelu" else self.config.pooler_activation
        self.dense = dense(self, self.config.hidden_dim, "dense", activation=activation, seed=seed)

    def build(self, x_shape: Shape, starts_shape: Shape | None = None, visible_shape: Shape | None = None) -> None:
        self.dense.build((x_shape[0], x_shape[-1]))

    def call(self, x: Any, starts: Any = None, visible: Any = None, packed: bool = False) -> Any:
        if self.config.pooling == "mean":
            return self.dense(mean_of_tokens(x, visible, starts, packed=packed))
        if starts is None:
            return self.dense(x[:, 0, :])
        if len(starts.shape) == 1:
            return self.dense(ops.take(ops.reshape(x, (-1, self.config.hidden_dim)), starts, axis=0))
        return self.dense(ops.take_along_axis(x, starts[:, :, None], axis=1))

    def compute_output_shape(
        self, x_shape: Shape, starts_shape: Shape | None = None, visible_shape: Shape | None = None
    ) -> Shape:
        return (*(starts_shape or x_shape[:1]), self.config.hidden_dim)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "config": self.config.to_dict(), "seed": self.seed}


# === Functional Model ===


def bert_encoder(
    config: BertConfig,
    *,
    return_attentions: bool = False,
    packed: bool = False,
    prefix_lm: bool = False,
    sequence_length: int | None = None,
    initial: str | NeighbourHeads = "random",
    seed: int | None = None,
    name: str = "bert",
) -> keras.Model:
    """Create BERT as a functional Keras model with fresh weights.

    Inputs: a dictionary of `token_ids`, `segment_ids`, `padding_mask`, int32 `[B, T]`. Outputs, by name:
    `sequence_output [B, T, H]`, `pooled_output [B, H]`, `hidden_states` (a list of `num_layers + 1` tensors, the
    embeddings first) and, with `return_attentions`, `attentions` (a list of `num_layers` tensors `[B, N, T, T]`).

    With `packed`, a row may hold several examples, and `padding_mask` has the number of each token's example: 1, 2, 3,
    …, and 0 for padding. Weights and their names stay the same; `pooled_output` is that of the first example.

    With `prefix_lm`, segment 0 attends only to itself, and each token of segment 1 to all tokens up to itself, as text
    generation needs it (UniLM).

    `initial="neighbours"` is for models that are going to be pretrained from nothing: heads begin by looking at
    the tokens beside each token, so that training needs not find positions first. `NeighbourHeads(…)` says
    which heads, and how closely. The rest is random, by `seed`; nothing of it is kept in a saved model but the weights.

    Example:
        >>> encoder = bert_encoder(BertConfig.preset("tiny"))
        >>> ids = np.array([[101, 7592, 102]])
        >>> encoder({"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids * 0 + 1})["pooled_output"].shape
        TensorShape([1, 128])
    """
    heads, seeds = initial_heads(initial), spread_seed(seed, config.num_layers + 3)
    inputs = {key: keras.Input((sequence_length,), dtype="int32", name=key) for key in INPUT_NAMES}
    if packed:
        bias, *positions = PackedBias(name="padding_bias")(inputs["padding_mask"])
    else:
        bias, positions = PaddingBias(name="padding_bias")(inputs["padding_mask"]), ()
    if prefix_lm:
        bias = PrefixBias(name="prefix_bias")(bias, inputs["segment_ids"])
    token_vectors = token_embedding(config, seed=seeds[-1])(inputs["token_ids"])
    x = BertEmbeddings(config, seed=seeds[-2], name="embeddings")(token_vectors, inputs["segment_ids"], *positions)
    hidden_states, attentions = [x], []
    for index in range(config.num_layers):
        x, probabilities = EncoderBlock(config, seed=seeds[index], name=f"block_{index}")(x, bias)
        hidden_states.append(x)
        attentions.append(probabilities)
    seen = {"visible": inputs["padding_mask"], "packed": packed} if config.pooling == "mean" else {}
    outputs = {
        "sequence_output": x,
        "pooled_output": Pooler(config, seed=seeds[-3], name="pooler")(x, **seen),
        "hidden_states": hidden_states,
    }
    if return_attentions:
        outputs["attentions"] = attentions
    encoder = keras.Model(inputs, outputs, name=name)
    if heads is not None:
        look_at_neighbours(encoder, config, heads)
    return encoder


def with_example_starts(encoder: keras.Model) -> keras.Model:
    """Return an encoder of shared rows that pools every example.

    It also takes `example_starts [X]`, places in all rows one after the other, and gives `pooled_output [X, H]`.

    Example:
        >>> encoder = with_example_starts(bert_encoder(BertConfig.preset("tiny"), packed=True))
        >>> encoder.output["pooled_output"].shape
        (None, 128)
    """
    if not isinstance(encoder.get_layer("padding_bias"), PackedBias):
        raise ValueError("The encoder takes one example per row; create it by bert_encoder(…, packed=True).")
    starts = keras.Input((), dtype="int32", name="example_starts")
    inputs = {**encoder.input, "example_starts": starts}
    return keras.Model(inputs, {**encoder.output, "pooled_output": pool_examples(encoder, starts)}, name=encoder.name)


def pool_examples(encoder: keras.Model, starts: Any) -> Any:
    """Return the pooled outputs of the examples in shared rows; `starts` is as for `Pooler`."""
    pooler = encoder.get_layer("pooler")
    seen = {"visible": encoder.input["padding_mask"]} if pooler.config.pooling == "mean" else {}
    return pooler(encoder.output["sequence_output"], starts, **seen)


# === Config ===


def encoder_config(model: keras.Model) -> BertConfig:
    """Return the `BertConfig` of a model that was built from `bert_encoder`, also of a loaded one."""
    for layer in model.layers:
        if isinstance(layer, BertEmbeddings):
            return layer.config
    raise ValueError(f"Model {model.name!r} has no BertEmbeddings layer; expected one made from bert_encoder(config).")


def activation_function(config: BertConfig) -> str | Callable[[Any], Any]:
    """Return the config's activation as a registered function or a name."""
    if config.activation == "gelu_tanh":
        return gelu_tanh
    return config.activation if config.activation == "relu" else gelu


@keras.saving.register_keras_serializable("keras_bert")
def gelu(x: Any) -> Any:
    """Compute the exact GELU of BERT, with the error function."""
    if keras.backend.backend() == "jax":
        if keras.backend.standardize_dtype(x.dtype) in ("bfloat16", "float16"):
            return fast_gelu(x)
        # Keras' takes the complement of the function there, which costs a TPU a fifth of the feed-forward part.
        y = ops.cast(x, "float32")
        return ops.cast(0.5 * y * (1.0 + ops.erf(y * 0.5**0.5)), x.dtype)
    return keras.activations.gelu(x, approximate=False)


@keras.saving.register_keras_serializable("keras_bert")
def gelu_tanh(x: Any) -> Any:
    """Compute the tanh approximation of GELU, as in TensorFlow's early BERT code and keras-hub."""
    return keras.activations.gelu(x, approximate=True)


def _is_long(length: int | None) -> bool:
    return length is not None and length >= _LONG


def _leading(x: Any) -> tuple[Any, ...]:
    """Return batch and length of `x` for a reshape; if only one is unknown, it is −1 instead of a Shape op."""
    if x.shape[0] is None and x.shape[1] is None:
        return ops.shape(x)[:2]
    return tuple(-1 if extent is None else extent for extent in x.shape[:2])
