"""Token ids and segment ids → vectors: the bottom of BERT.

The sum of three embeddings (token, position, segment), normalized, with dropout. A room of its own because small
checkpoints differ here and nowhere else: tables narrower than the encoder with a projection, or fixed sinusoidal
positions.
"""

import keras
import numpy as np
from keras import ops

from keras_bert.model.config import BertConfig
from keras_bert.model.dropout import HashDropout


def token_embedding(config, *, seed=None, name="token_embedding"):
    """The table of token vectors. Called with `reverse=True` it scores vectors against the same table (MLM)."""
    return keras.layers.ReversibleEmbedding(
        config.vocabulary_size,
        config.table_dim,
        embeddings_initializer=initializer(config.initializer_range, seed),
        name=name,
    )


@keras.saving.register_keras_serializable("keras_bert")
class BertEmbeddings(keras.layers.Layer):
    """Adds position and segment to token vectors; layer norm, dropout and, for narrow tables, a projection.

    Takes `token_vectors [B, T, E]` and `segment_ids [B, T]`, gives `[B, T, H]`. Positions count from the row's start;
    where a row holds several examples, `position_ids [B, T]` says otherwise.

    Example:
        >>> config = BertConfig.preset("tiny")
        >>> ids = np.zeros((2, 16), "int32")
        >>> tuple(BertEmbeddings(config)(token_embedding(config)(ids), ids).shape)
        (2, 16, 128)
    """

    def __init__(self, config, *, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.config = as_config(config)
        self.seed = seed
        seeds = spread_seed(seed, 4)
        self._position_initializer = initializer(self.config.initializer_range, seeds[0])
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

    def build(self, token_vectors_shape, segment_ids_shape=None, position_ids_shape=None):
        self.segment.build(segment_ids_shape)
        self.norm.build(token_vectors_shape)
        if self.projection is not None:
            self.projection.build(token_vectors_shape)
        sinusoidal = self.config.position == "sinusoidal"
        # A sinusoidal table is kept as a frozen weight: one kind of position table for checkpoints and converters.
        self.position = self.add_weight(
            name="position",
            shape=(self.config.max_sequence_length, self.config.table_dim),
            initializer=_sinusoid if sinusoidal else self._position_initializer,
            trainable=not sinusoidal,
        )

    def call(self, token_vectors, segment_ids, position_ids=None, training=None):
        packed = position_ids is not None
        positions = ops.take(self.position, position_ids, axis=0) if packed else self._positions(token_vectors)
        x = token_vectors + self.segment(segment_ids) + positions
        x = self.dropout(self.norm(x), training=training)
        return x if self.projection is None else self.projection(x)

    def _positions(self, token_vectors):
        """The first T rows of the position table, `[T, E]`."""
        length, rows = token_vectors.shape[1], self.config.max_sequence_length
        if length is None:
            # GATHER over a RANGE: the one form of a run-time length that TFLite's XNNPACK delegate takes whole.
            return ops.take(self.position, ops.arange(ops.shape(token_vectors)[1]), axis=0)
        if length > rows:
            raise ValueError(
                f"sequence_length={length} exceeds max_sequence_length={rows}; shorten the text or use windows."
            )
        return self.position[:length]

    def compute_output_shape(self, token_vectors_shape, segment_ids_shape=None, position_ids_shape=None):
        return (*token_vectors_shape[:-1], self.config.hidden_dim)

    def get_config(self):
        return {**super().get_config(), "config": self.config.to_dict(), "seed": self.seed}


# === What all layers of the encoder are made of ===


def as_config(config) -> BertConfig:
    """A `BertConfig` from one, or from the dictionary that a saved layer holds."""
    return config if isinstance(config, BertConfig) else BertConfig.from_dict(config)


def spread_seed(seed, count):
    """`count` seeds from one: equal seeds would give layers of one shape equal weights. `None` gives `None`s."""
    if seed is None:
        return [None] * count
    return [int(child.generate_state(1)[0] >> 1) for child in np.random.SeedSequence(seed).spawn(count)]


def initializer(stddev, seed=None):
    """BERT's initial weights: normal, cut at two standard deviations."""
    return keras.initializers.TruncatedNormal(stddev=stddev, seed=seed)


def dense(layer, units, name, *, activation=None, seed=None):
    """A `Dense` with BERT's initial weights and the data type policy of the layer that owns it."""
    init = initializer(layer.config.initializer_range, seed)
    return keras.layers.Dense(
        units, activation=activation, kernel_initializer=init, dtype=layer.dtype_policy, name=name
    )


def layer_norm(layer, name):
    """A layer normalization with the config's epsilon."""
    epsilon = layer.config.layer_norm_epsilon
    return keras.layers.LayerNormalization(epsilon=epsilon, dtype=layer.dtype_policy, name=name)


def _sinusoid(shape, dtype=None):
    """Sine in the even columns, cosine in the odd ones (Vaswani et al. 2017, section 3.5)."""
    rows, width = shape
    angles = np.arange(rows)[:, None] / 10000.0 ** (2 * (np.arange(width)[None, :] // 2) / width)
    table = np.where(np.arange(width)[None, :] % 2 == 0, np.sin(angles), np.cos(angles))
    return ops.convert_to_tensor(table, dtype=dtype)
