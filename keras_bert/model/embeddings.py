"""BERT's embeddings: the sum of token, position and segment vectors, with layer norm and dropout.

Some small checkpoints have tables narrower than the encoder and a projection, or fixed sinusoidal positions.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.model.config import BertConfig
from keras_bert.model.dropout import HashDropout

Shape = tuple[int | None, ...]


def token_embedding(
    config: BertConfig, *, seed: int | None = None, name: str = "token_embedding"
) -> keras.layers.ReversibleEmbedding:
    """Return the table of token vectors. Called with `reverse=True`, it scores vectors against the table (MLM).

    In mixed precision, vectors are looked up in full precision: the gradient of a row is a sum over all places of its
    token, thousands for `[CLS]` or `[MASK]`, in which half precision would lose most of them. Scores are computed in
    half precision.
    """
    policy = keras.config.dtype_policy()
    return keras.layers.ReversibleEmbedding(
        config.vocabulary_size,
        config.table_dim,
        embeddings_initializer=initializer(config.initializer_range, seed),
        reverse_dtype=None if policy.compute_dtype == policy.variable_dtype else policy.compute_dtype,
        dtype=policy.variable_dtype,
        name=name,
    )


@keras.saving.register_keras_serializable("keras_bert")
class BertEmbeddings(keras.layers.Layer):
    """Adds position and segment to token vectors; layer norm, dropout and, for narrow tables, a projection.

    Takes `token_vectors [B, T, E]` and `segment_ids [B, T]`, gives `[B, T, H]`. Positions count from the row's start
    unless `position_ids [B, T]` is given, as for shared rows; either way the first is 0, which takes the row
    `position_offset` of the table.

    Example:
        >>> config = BertConfig.preset("tiny")
        >>> ids = np.zeros((2, 16), "int32")
        >>> tuple(BertEmbeddings(config)(token_embedding(config)(ids), ids).shape)
        (2, 16, 128)
    """

    def __init__(self, config: BertConfig | dict[str, Any], *, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.config = as_config(config)
        self.seed = seed
        seeds = spread_seed(seed, 4)
        self._position_initializer = initializer(self.config.initializer_range, seeds[0])
        self.segment = None
        if self.config.num_segments:
            self.segment = keras.layers.Embedding(
                self.config.num_segments,
                self.config.table_dim,
                initializer(self.config.initializer_range, seeds[1]),
                dtype=self.dtype_policy,
                name="segment",
            )
        self.norm = layer_norm(self, "norm")
        self.dropout = HashDropout(self.config.dropout, seed=seeds[2], dtype=self.dtype_policy, name="dropout")
        self.projection = None
        if self.config.table_dim != self.config.hidden_dim:
            self.projection = dense(self, self.config.hidden_dim, "projection", seed=seeds[3])

    def build(
        self,
        token_vectors_shape: Shape,
        segment_ids_shape: Shape | None = None,
        position_ids_shape: Shape | None = None,
    ) -> None:
        if self.segment is not None:
            self.segment.build(segment_ids_shape)
        self.norm.build(token_vectors_shape)
        if self.projection is not None:
            self.projection.build(token_vectors_shape)
        sinusoidal = self.config.position == "sinusoidal"
        # A sinusoidal table is a frozen weight, so that checkpoints and converters know one kind of position table.
        self.position = self.add_weight(
            name="position",
            shape=(self.config.num_positions, self.config.table_dim),
            initializer=_sinusoid if sinusoidal else self._position_initializer,
            trainable=not sinusoidal,
            autocast=False,  # for gradients in full precision, as those of tokens and, in Keras' layer, of segments
        )

    def call(self, token_vectors: Any, segment_ids: Any, position_ids: Any = None, training: bool | None = None) -> Any:
        packed = position_ids is not None
        positions = ops.take(self.position_rows(), position_ids, axis=0) if packed else self._positions(token_vectors)
        x = token_vectors if self.segment is None else token_vectors + self.segment_vectors(segment_ids)
        x = x + ops.cast(positions, self.compute_dtype)
        x = self.dropout(self.norm(x), training=training)
        return x if self.projection is None else self.projection(x)

    def segment_vectors(self, segment_ids: Any) -> Any:
        """Return what is added to tokens for their segments: `[B, T, E]`, or a vector `[E]` for all of them."""
        if self.segment is None:
            return ops.zeros((self.config.table_dim,), self.compute_dtype)
        if self.config.num_segments == 1:  # packing numbers a pair's second text 1, whatever the model
            return ops.cast(self.segment.embeddings[0], self.compute_dtype)
        if self.config.num_segments == 2 and keras.backend.backend() == "jax":
            # The gradient of a choice is two sums; that of a lookup adds rows that collide, one after the other.
            second = ops.expand_dims(segment_ids, -1) > 0
            chosen = ops.where(second, self.segment.embeddings[1], self.segment.embeddings[0])
            return ops.cast(chosen, self.compute_dtype)
        return self.segment(segment_ids)

    def position_rows(self) -> Any:
        """Return the rows of the position table that tokens can have, `[max_sequence_length, E]`."""
        offset = self.config.position_offset
        return self.position[offset:] if offset else self.position

    def _positions(self, token_vectors: Any) -> Any:
        """Return the rows of the first T positions, `[T, E]`."""
        length, rows = token_vectors.shape[1], self.config.max_sequence_length
        if length is None:
            # GATHER over a RANGE is the only form of a run-time length that TFLite's XNNPACK delegate takes as a whole.
            return ops.take(self.position_rows(), ops.arange(ops.shape(token_vectors)[1]), axis=0)
        if length > rows:
            raise ValueError(
                f"sequence_length={length} exceeds max_sequence_length={rows}; shorten the text or use windows."
            )
        return self.position_rows()[:length]

    def compute_output_shape(
        self,
        token_vectors_shape: Shape,
        segment_ids_shape: Shape | None = None,
        position_ids_shape: Shape | None = None,
    ) -> Shape:
        return (*token_vectors_shape[:-1], self.config.hidden_dim)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "config": self.config.to_dict(), "seed": self.seed}


# === Parts of the encoder's layers ===


def as_config(config: BertConfig | dict[str, Any]) -> BertConfig:
    """Return a `BertConfig`, also from the dictionary of a saved layer."""
    return config if isinstance(config, BertConfig) else BertConfig.from_dict(config)


def spread_seed(seed: int | None, count: int) -> list[Any]:
    """Return `count` seeds made from one, all `None` for `None`: layers with equal seeds would get equal weights."""
    if seed is None:
        return [None] * count
    return [int(child.generate_state(1)[0] >> 1) for child in np.random.SeedSequence(seed).spawn(count)]


def initializer(stddev: float, seed: int | None = None) -> keras.initializers.Initializer:
    """Return the initializer of BERT's weights: normal, truncated at two standard deviations."""
    return keras.initializers.TruncatedNormal(stddev=stddev, seed=seed)


def dense(
    layer: Any, units: int, name: str, *, activation: str | Callable[[Any], Any] | None = None, seed: int | None = None
) -> keras.layers.Dense:
    """Return a `Dense` with BERT's initial weights and the dtype policy of the layer that owns it."""
    init = initializer(layer.config.initializer_range, seed)
    return keras.layers.Dense(
        units, activation=activation, kernel_initializer=init, dtype=layer.dtype_policy, name=name
    )


@keras.saving.register_keras_serializable("keras_bert")
class LayerNorm(keras.layers.LayerNormalization):
    """Keras' layer normalization, which on JAX in half precision reads its input once for mean and variance."""

    def call(self, inputs: Any) -> Any:
        half = keras.backend.standardize_dtype(inputs.dtype) in ("bfloat16", "float16")
        if keras.backend.backend() != "jax" or not half:
            return super().call(inputs)
        return ops.cast(normalize(inputs, self.gamma, self.beta, self.epsilon), self.compute_dtype)


def normalize(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Normalize the last dimension in float32, with the variance as the mean of squares less the square of the mean.

    Where that loses digits, `x` in half precision has lost more of them before.

    Example:
        >>> normalize(np.array([[1.0, 3.0]]), np.ones(2), np.zeros(2), 0.0).numpy().tolist()
        [[-1.0, 1.0]]
    """
    x, gamma, beta = (ops.cast(part, "float32") for part in (x, gamma, beta))
    mean = ops.mean(x, axis=-1, keepdims=True)
    variance = ops.maximum(ops.mean(x * x, axis=-1, keepdims=True) - mean * mean, 0.0)
    return (x - mean) * ops.rsqrt(variance + epsilon) * gamma + beta


def layer_norm(layer: Any, name: str) -> LayerNorm:
    """Return a layer normalization with the epsilon of the layer's config."""
    return LayerNorm(epsilon=layer.config.layer_norm_epsilon, dtype=layer.dtype_policy, name=name)


def _sinusoid(shape: tuple[int, int], dtype: str | None = None) -> Any:
    """Return sines in the even columns, cosines in the odd ones (Vaswani et al. 2017, section 3.5)."""
    rows, width = shape
    angles = np.arange(rows)[:, None] / 10000.0 ** (2 * (np.arange(width)[None, :] // 2) / width)
    table = np.where(np.arange(width)[None, :] % 2 == 0, np.sin(angles), np.cos(angles))
    return ops.convert_to_tensor(table, dtype=dtype)
