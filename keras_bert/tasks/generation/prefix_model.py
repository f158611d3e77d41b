"""Build a prefix language model, and measure how likely it finds targets.

A prefix language model is an encoder with an MLM head whose target sees only the source and its own past.
"""

from typing import Any

import keras
import tensorflow as tf

from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder, encoder_config
from keras_bert.model.heads import bert_model
from keras_bert.model.weights import copy_weights
from keras_bert.tasks.generation.cached_decoder import score_tokens
from keras_bert.text.subword_tokenizer import SubwordTokenizer

LOGITS = "mlm_logits"
LOSSES, HITS = "target_losses", "target_hits"


def prefix_model(config: BertConfig, *, seed: int | None = None) -> keras.Model:
    """Make a prefix language model with random weights.

    Example:
        >>> sorted(prefix_model(BertConfig.preset("tiny")).output)
        ['mlm_logits']
    """
    return bert_model(None, "masked_lm", encoder=bert_encoder(config, prefix_lm=True, seed=seed), seed=seed)


def as_prefix_model(loaded: keras.Model, *, seed: int | None = None) -> keras.Model:
    """Turn a loaded encoder into a prefix language model with its weights; a missing MLM head is initialized.

    Example:
        >>> as_prefix_model(bert_encoder(BertConfig.preset("tiny"))).get_layer("prefix_bias").name
        'prefix_bias'
    """
    model = prefix_model(encoder_config(loaded), seed=seed)
    copy_weights(loaded, model, allow_missing=LOGITS not in loaded.output)
    return model


def check_writer(model: keras.Model, tokenizer: SubwordTokenizer) -> None:
    """Raise an error if a model cannot generate text, or its vocabulary lacks a special token."""
    missing = [token for token in ("[SEP]", "[CLS]", "[PAD]") if token not in set(tokenizer.vocabulary)]
    if missing:
        raise ValueError(
            f"The vocabulary has no {', '.join(missing)}; a source is between [CLS] and [SEP], and [SEP] ends a "
            "generated text. Use the vocab.txt of a BERT, or learn_vocabulary()."
        )
    names = [layer.name for layer in model.layers]
    if LOGITS not in model.output or "prefix_bias" not in names:
        raise ValueError(
            f"The model gives {', '.join(model.output)}; expected mlm_logits on bert_encoder(…, prefix_lm=True): use "
            "Seq2Seq.from_pretrained or prefix_model(config)."
        )


def measure_targets(model: keras.Model, states: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """For each token the loss of the next one, `[B, T]`, and whether it is the most likely; 0 outside of targets."""
    ids, is_target = inputs["token_ids"], inputs["segment_ids"] * inputs["padding_mask"]
    places = tf.where(is_target[:, 1:] > 0)  # the tokens before those of the target
    scores = tf.cast(score_tokens(model, tf.gather_nd(states, places)), tf.float32)  # [M, V]
    wanted = tf.gather_nd(ids[:, 1:], places)
    values = {
        LOSSES: tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, scores),
        HITS: tf.cast(tf.argmax(scores, axis=-1, output_type=tf.int32) == wanted, tf.float32),
    }
    shape = tf.shape(ids, tf.int64)
    return {name: tf.scatter_nd(places, value, shape) for name, value in values.items()}
