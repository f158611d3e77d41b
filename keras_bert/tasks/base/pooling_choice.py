"""Choose the pooling of a pretrained encoder for text classification.

A sentence encoder such as all-MiniLM-L6-v2 was trained on the mean of its tokens: its first token and its pooler carry
little information. With a frozen encoder the mean is then much better; after fine-tuning the whole model there is
little difference (see `benchmarks/pooling.py`).
"""

import os

import keras
import numpy as np

from keras_bert.checkpoint.files import CheckpointError
from keras_bert.checkpoint.hub import find_directory
from keras_bert.checkpoint.sentence_transformers import read_sentence_modules
from keras_bert.model.encoder import bert_encoder, encoder_config
from keras_bert.model.weights import copy_weights


def suited_pooling(directory_or_name: str | os.PathLike[str]) -> str | None:
    """Return `"mean"` if the sentence-transformers files of a directory say so; otherwise `None`.

    Example:
        ```python
        suited_pooling("all-MiniLM-L6-v2")  # 'mean'
        ```
    """
    try:
        said = read_sentence_modules(find_directory(directory_or_name)).pooling
    except CheckpointError:  # unknown sentence-transformers modules; the encoder itself can be used
        return None
    return said if said == "mean" else None


def with_pooling(encoder: keras.Model, pooling: str) -> keras.Model:
    """Return the encoder with another pooling; unchanged if it has that pooling.

    For the mean, the pooler starts with an identity kernel, so that it passes the mean through.

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
