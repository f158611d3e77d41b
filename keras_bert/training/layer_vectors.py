"""An encoder → the vectors inside one of its blocks, as symbolic tensors for another model's outputs."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


def attention_vectors(encoder: keras.Model, layer: int, parts: Sequence[str] = ("query", "key", "value")) -> Any:
    """Queries, keys and values of a block side by side, `[B, T, parts * heads_dim]`; blocks are counted from 1.

    Example:
        >>> encoder = bert_encoder(BertConfig.preset("tiny"))
        >>> attention_vectors(encoder, 1).shape
        (None, None, 384)
    """
    states = encoder.output["hidden_states"][layer - 1]
    attention = encoder.get_layer(f"block_{layer - 1}").attention
    return ops.concatenate([getattr(attention, part)(states) for part in parts], axis=-1)
