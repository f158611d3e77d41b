"""A pretrained encoder → the same with the pooling that its training suits: what a classifier of texts begins with.

Takes an encoder and the directory that it came from. A room of its own because a sentence encoder (all-MiniLM-L6-v2 and
its kind) was trained by the mean of its tokens: its first token and its pooler say little. On the bundled commands to
an assistant, a classifier on the mean of MiniLM's frozen states has 75.5 % of the test set right, on its first token
60.1 %; fine-tuned as a whole it hardly matters, 79.5 and 78.8 % (`benchmarks/pooling.py`).
"""

import os

import keras
import numpy as np

from keras_bert.checkpoint.files import CheckpointError
from keras_bert.checkpoint.hub import find_directory
from keras_bert.checkpoint.sentence_transformers import read_sentence_modules
from keras_bert.model.encoder import bert_encoder, encoder_config
from keras_bert.model.weights import copy_weights


def suited_pooling(directory_or_name: str | os.PathLike) -> str | None:
    """`"mean"` where a directory says in sentence-transformers' files that it was trained by the mean; else `None`.

    Example:
        ```python
        suited_pooling("all-MiniLM-L6-v2")  # 'mean'
        ```
    """
    try:
        said = read_sentence_modules(find_directory(directory_or_name)).pooling
    except CheckpointError:  # modules that no embedder here computes; the encoder itself is whole
        return None
    return said if said == "mean" else None


def with_pooling(encoder: keras.Model, pooling: str) -> keras.Model:
    """The encoder with another pooling, or as it is where it has that one.

    A pooler that is new to the mean begins by letting it through: its kernel is the identity.

    Args:
        encoder: From `load_encoder`.
        pooling: `"cls"` or `"mean"`.

    Example:
        ```python
        encoder, tokenizer = keras_bert.load_encoder("all-MiniLM-L6-v2")
        encoder = with_pooling(encoder, "mean")
        ```
    """
    config = encoder_config(encoder)
    if pooling == config.pooling:
        return encoder
    chosen = bert_encoder(config.replace(pooling=pooling))
    copy_weights(encoder, chosen)
    if pooling == "mean":
        dense = chosen.get_layer("pooler").dense
        dense.kernel.assign(np.eye(config.hidden_dim))
        dense.bias.assign(np.zeros(config.hidden_dim))
    return chosen
