"""Build a prefix language model, and measure how likely it finds targets.

A prefix language model is an encoder with an MLM head whose target sees only the source and its own past.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.model.compilation import compiled
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import INPUT_NAMES, bert_encoder, encoder_config
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


def target_measure(model: keras.Model) -> Callable[[dict[str, Any]], dict[str, np.ndarray]]:
    """Return a function of inputs that gives each token's loss of the next one, and whether that is the most likely.

    Both are `[B, T]`, and 0 outside of targets. Only the tokens before those of a target are scored: scores of all
    tokens over the vocabulary would not fit into memory.
    """
    states_of = keras.Model(model.input, model.get_layer("mlm_transform").input)
    spec = {name: keras.KerasTensor((None, None), "int32", name=name) for name in INPUT_NAMES}

    def measure(inputs: dict[str, Any], places: Any) -> dict[str, Any]:
        states = states_of(inputs, training=False)
        states = ops.take(ops.reshape(states, (-1, states.shape[-1])), places, axis=0)
        scores = ops.cast(score_tokens(model, states), "float32")  # [M, V]
        wanted = ops.take(ops.reshape(inputs["token_ids"], (-1,)), places + 1, axis=0)
        losses = ops.sparse_categorical_crossentropy(wanted, scores, from_logits=True)
        return {LOSSES: losses, HITS: ops.cast(ops.equal(ops.argmax(scores, axis=-1), wanted), "float32")}

    graph = compiled(measure, model.variables, signature=[spec, keras.KerasTensor((None,), "int32", name="places")])

    def forward(inputs: dict[str, Any]) -> dict[str, np.ndarray]:
        is_target = np.asarray(inputs["segment_ids"]) * np.asarray(inputs["padding_mask"])
        before = np.pad(is_target[:, 1:], [(0, 0), (0, 1)]) > 0
        places = np.flatnonzero(before)
        few = np.pad(places, (0, _few_sizes(len(places)) - len(places))).astype(np.int32)
        values = {name: np.zeros(before.shape, np.float32) for name in (LOSSES, HITS)}
        for name, found in graph(inputs, few).items():
            values[name][before] = np.asarray(found)[: len(places)]
        return values

    return forward


def _few_sizes(count: int) -> int:
    """Round up to one of a few numbers, because JAX compiles for each: a quarter of a power of two more, and so on."""
    step = max(16, (1 << count.bit_length()) // 8)
    return max(step, -(-count // step) * step)
