"""Every public layer and model survives `get_config` and a `.keras` file with the same numbers. Both backends."""

import keras
import numpy as np
import pytest
from keras import ops
from tiny_encoders import CONFIG, batch, randomize

from keras_bert.model.dropout import HashDropout
from keras_bert.model.embeddings import BertEmbeddings, LayerNorm
from keras_bert.model.encoder import (
    EncoderBlock,
    PackedBias,
    PaddingBias,
    Pooler,
    PrefixBias,
    SelfAttention,
    bert_encoder,
)
from keras_bert.model.heads import HEADS, MarkedStates, MaskedLMTransform, OutputBias, bert_model
from keras_bert.pretraining.model import GatherPositions
from keras_bert.pretraining.sampled_softmax import DrawNegatives, RowScores, SampledLogits
from keras_bert.tasks.similarity.pooling import SentencePooling
from keras_bert.tasks.tagging.crf import LinearChainCRF

VECTORS = np.random.default_rng(0).normal(size=(2, 6, CONFIG.hidden_dim)).astype("float32")
BIAS = np.zeros((2, 1, 1, 6), "float32")
SEGMENTS = np.array([[0, 0, 0, 1, 1, 1]] * 2, "int32")

LAYERS = [
    (HashDropout(0.1, seed=3), (VECTORS,)),
    (PaddingBias(), (SEGMENTS,)),
    (PackedBias(), (SEGMENTS,)),
    (PrefixBias(), (BIAS, SEGMENTS)),
    (BertEmbeddings(CONFIG, seed=1), (VECTORS, SEGMENTS)),
    (BertEmbeddings(CONFIG, seed=1), (VECTORS, SEGMENTS, SEGMENTS)),
    (
        BertEmbeddings(CONFIG.replace(embedding_dim=4, position="sinusoidal"), seed=1),
        (VECTORS[..., :4], SEGMENTS),
    ),
    (LayerNorm(epsilon=1e-12), (VECTORS,)),
    (SelfAttention(CONFIG, seed=1), (VECTORS, BIAS)),
    (EncoderBlock(CONFIG.replace(activation="gelu_tanh"), seed=1), (VECTORS, BIAS)),
    (Pooler(CONFIG, seed=1), (VECTORS,)),
    (Pooler(CONFIG, seed=1), (VECTORS, SEGMENTS[:, :2])),
    (MaskedLMTransform(CONFIG, seed=1), (VECTORS,)),
    (OutputBias(), (VECTORS,)),
    (MarkedStates((1, 0)), (VECTORS, SEGMENTS)),
    (MarkedStates((1, 0)), (VECTORS, SEGMENTS, SEGMENTS, SEGMENTS[0])),
    (GatherPositions(), (VECTORS, SEGMENTS[:, :2])),
    (DrawNegatives(9, 4, token_counts=range(9), seed=1), (SEGMENTS,)),
    (RowScores(), (VECTORS, VECTORS[0])),
    (LinearChainCRF(scale=10.0, forbidden=np.eye(CONFIG.hidden_dim)), (VECTORS,)),
    (SentencePooling("mean", normalize=False), (VECTORS, SEGMENTS)),
    (SentencePooling(), (VECTORS, SEGMENTS + 1, np.array([0, 3], "int32"))),
    (SentencePooling("cls"), (VECTORS, SEGMENTS)),
    (SentencePooling(dimensions=3), (VECTORS, SEGMENTS)),
    (SampledLogits(), (VECTORS, VECTORS[..., 0], VECTORS, SEGMENTS, SEGMENTS[0], BIAS[0, 0, 0])),
]

MODELS = {
    "encoder": lambda: bert_encoder(CONFIG),
    "packed encoder": lambda: bert_encoder(CONFIG, packed=True),
    "prefix language model": lambda: bert_encoder(CONFIG, prefix_lm=True),
    "encoder with attentions": lambda: bert_encoder(CONFIG, return_attentions=True),
    "narrow, sinusoidal, relu": lambda: bert_encoder(
        CONFIG.replace(embedding_dim=4, position="sinusoidal", activation="relu")
    ),
    "all heads": lambda: bert_model(CONFIG, HEADS, num_classes=3, marker_ids=(1, 2)),
}


def flat(outputs):
    return [ops.convert_to_numpy(tensor) for tensor in keras.tree.flatten(outputs)]


@pytest.mark.parametrize(("layer", "inputs"), LAYERS, ids=lambda value: getattr(value, "name", ""))
def test_layer_from_config(layer, inputs):
    expected = flat(layer(*inputs))
    twin = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(twin) is type(layer)
    assert twin.get_config() == layer.get_config()
    twin(*inputs)
    twin.set_weights(layer.get_weights())
    for ours, theirs in zip(expected, flat(twin(*inputs)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", MODELS)
def test_model_through_a_keras_file(name, tmp_path):
    model = MODELS[name]()
    randomize(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert [v.path for v in loaded.trainable_variables] == [v.path for v in model.trainable_variables]
    for ours, theirs in zip(flat(model(batch())), flat(loaded(batch())), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_all_registered_layers_are_tested_here():
    """Which modules are imported depends on the tests before, so registered layers of all of them may be here."""
    registered = [value for name, value in keras.saving.get_custom_objects().items() if name.startswith("keras_bert>")]
    classes = [value for value in registered if isinstance(value, type) and issubclass(value, keras.layers.Layer)]
    # Those of `export` and of teachers are there in training alone, and never saved.
    classes = [value for value in classes if value.__module__.startswith("keras_bert.")]
    classes = [value for value in classes if not value.__module__.startswith("keras_bert.pretraining.teacher.")]
    layers = {value.__name__ for value in classes if not issubclass(value, keras.Model)}
    assert layers == {type(layer).__name__ for layer, _ in LAYERS}
