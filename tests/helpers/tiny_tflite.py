"""Tiny `.tflite` files for the tests of what is put into them: converted here, with nothing of `export`."""

import functools
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from tiny_tasks import DEEP_CONFIG

from keras_bert.model.encoder import INPUT_NAMES, bert_encoder
from keras_bert.model.heads import bert_model

# Weights that are large enough for different texts to give different answers.
_CONFIG = DEEP_CONFIG.replace(initializer_range=0.3)


@functools.cache
def to_tflite(model: keras.Model, *, lengths=(16,), optimize: bool = False) -> bytes:
    """A signature `length_T` for each length; None is a dynamic one. Kept from test to test."""
    return to_large_tflite(model, lengths=lengths, optimize=optimize)


def to_large_tflite(model: keras.Model, *, lengths, optimize: bool = False) -> bytes:
    """The same, not kept."""
    archive, keys = keras.export.ExportArchive(), []
    archive.track(model)
    for length in lengths:
        spec = {name: tf.TensorSpec((1, length), tf.int32, name=name) for name in INPUT_NAMES}
        keys.append(f"length_{length}")
        archive.add_endpoint(keys[-1], lambda inputs: model(inputs, training=False), input_signature=[spec])
    with tempfile.TemporaryDirectory() as directory:
        archive.write_out(directory, verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(directory, signature_keys=keys)
        converter.optimizations = [tf.lite.Optimize.DEFAULT] if optimize else []
        return converter.convert()


def with_softmax(model: keras.Model) -> keras.Model:
    """Probabilities where there were logits."""
    return keras.Model(model.inputs, {"probabilities": ops.softmax(model.output["class_logits"])})


def with_mean(encoder: keras.Model) -> keras.Model:
    """The mean of the tokens that are no padding."""
    mask = next(tensor for tensor in encoder.inputs if tensor.name == "padding_mask")
    weights = ops.cast(mask, "float32")[..., None]
    pooled = ops.sum(encoder.output["sequence_output"] * weights, axis=1) / ops.sum(weights, axis=1)
    return keras.Model(encoder.inputs, {"embedding": pooled})


@functools.cache
def classifier() -> keras.Model:
    """Probabilities of three classes."""
    return with_softmax(bert_model(_CONFIG, "classification", num_classes=3, seed=0))


@functools.cache
def embedder() -> keras.Model:
    """A vector of a text."""
    return with_mean(bert_encoder(_CONFIG, seed=0))


@functools.cache
def answerer(length: int = 384) -> keras.Model:
    """Where an answer begins and ends: in the second text, as a trained model would say."""
    config = _CONFIG.replace(max_sequence_length=length, num_layers=1)
    model = bert_model(config, "question_answering", seed=0)
    segments = next(tensor for tensor in model.inputs if tensor.name == "segment_ids")
    logits = model.output["span_logits"] - 100.0 * (1.0 - ops.cast(segments, "float32")[..., None])
    return keras.Model(model.inputs, {"start_logits": logits[..., 0], "end_logits": logits[..., 1]})


def outputs(model: keras.Model, batch) -> dict[str, np.ndarray]:
    """What the Keras model says: the oracle."""
    return {name: np.asarray(value) for name, value in model(batch, training=False).items()}
