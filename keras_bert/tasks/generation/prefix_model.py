"""A config or a loaded BERT → a prefix language model, and how likely it holds the targets that were wanted.

Takes sizes, or a model with weights; gives the MLM head on an encoder whose target sees its own past alone. A room of
its own because the task, its training and its measure build on the same model, and none of it has to do with texts.
"""

import keras
import tensorflow as tf

from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder, encoder_config
from keras_bert.model.heads import bert_model
from keras_bert.model.weights import copy_weights
from keras_bert.tasks.generation.cached_decoder import score_tokens
from keras_bert.text.tokenizer import BertTokenizer

LOGITS = "mlm_logits"
LOSSES, HITS = "target_losses", "target_hits"


def prefix_model(config: BertConfig, *, seed: int | None = None) -> keras.Model:
    """A prefix language model with random weights: the MLM head on an encoder whose target sees its past alone.

    Example:
        >>> sorted(prefix_model(BertConfig.preset("tiny")).output)
        ['mlm_logits']
    """
    return bert_model(None, "masked_lm", encoder=bert_encoder(config, prefix_lm=True, seed=seed), seed=seed)


def as_prefix_model(loaded: keras.Model, *, seed: int | None = None) -> keras.Model:
    """A loaded encoder, or one with an MLM head, as a prefix language model with its weights; a missing head is fresh.

    Example:
        >>> as_prefix_model(bert_encoder(BertConfig.preset("tiny"))).get_layer("prefix_bias").name
        'prefix_bias'
    """
    model = prefix_model(encoder_config(loaded), seed=seed)
    copy_weights(loaded, model, allow_missing=LOGITS not in loaded.output)
    return model


def check_writer(model: keras.Model, tokenizer: BertTokenizer) -> None:
    """An error where a model cannot write, or its vocabulary has no token to end a text with."""
    missing = [token for token in ("[SEP]", "[CLS]", "[PAD]") if token not in set(tokenizer.vocabulary)]
    if missing:
        raise ValueError(
            f"The vocabulary has no {', '.join(missing)}; a source stands between [CLS] and [SEP], and [SEP] ends what "
            "is written. Use the vocab.txt of a BERT, or learn_vocabulary()."
        )
    names = [layer.name for layer in model.layers]
    if LOGITS not in model.output or "prefix_bias" not in names:
        raise ValueError(
            f"The model gives {', '.join(model.output)}; expected mlm_logits on bert_encoder(…, prefix_lm=True): use "
            "Seq2Seq.from_pretrained or prefix_model(config)."
        )


def measure_targets(model: keras.Model, states, inputs) -> dict:
    """Of each token the loss of the one behind it, `[B, T]`, and whether it is the likeliest; 0 outside of targets."""
    ids, is_target = inputs["token_ids"], inputs["segment_ids"] * inputs["padding_mask"]
    places = tf.where(is_target[:, 1:] > 0)  # of the tokens before those of the target
    scores = tf.cast(score_tokens(model, tf.gather_nd(states, places)), tf.float32)  # [M, V]
    wanted = tf.gather_nd(ids[:, 1:], places)
    values = {
        LOSSES: tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, scores),
        HITS: tf.cast(tf.argmax(scores, axis=-1, output_type=tf.int32) == wanted, tf.float32),
    }
    shape = tf.shape(ids, tf.int64)
    return {name: tf.scatter_nd(places, value, shape) for name, value in values.items()}
