"""What is written comes back: weights bit by bit, configs, heads, labels, tokenizers, in all three formats."""

import json

import keras
import numpy as np
import pytest
from tiny_models import TINY, VOCABULARY, assert_same_weights, batch, tiny_model

from keras_bert.checkpoint import CheckpointError, load_encoder, load_labels, load_model, save_pretrained
from keras_bert.checkpoint.names import FORMATS
from keras_bert.model.encoder import bert_encoder, encoder_config
from keras_bert.model.heads import HEADS, bert_model
from keras_bert.text.tokenizer import BertTokenizer

ODD = {
    "layer_norm_epsilon": 1e-6,
    "dropout": 0.2,
    "attention_dropout": 0.3,
    "initializer_range": 0.01,
    "num_segments": 4,
    "position": "sinusoidal",
}
# === Weights ===


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.filterwarnings("ignore:keras-hub's BertBackbone computes GELU")
def test_encoder_round_trip(tmp_path, format):
    encoder = tiny_model()
    save_pretrained(encoder, tmp_path / "model", format=format)
    copy, tokenizer = load_encoder(tmp_path / "model")
    assert tokenizer is None
    assert encoder_config(copy) == encoder_config(encoder)
    assert_same_weights(encoder, copy)
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_array_equal(encoder(batch())[name], copy(batch())[name])


@pytest.mark.filterwarnings("ignore:keras-hub's BertBackbone computes GELU")
def test_metadata_of_keras_hub_count_the_parameters(tmp_path):
    encoder = tiny_model()
    save_pretrained(encoder, tmp_path / "model", format="keras_hub")
    metadata = json.loads((tmp_path / "model" / "metadata.json").read_text())
    assert metadata["parameter_count"] == encoder.count_params()
    assert metadata["keras_version"] == keras.__version__


@pytest.mark.parametrize("format", ["huggingface", "google"])
@pytest.mark.parametrize("heads", [*[(head,) for head in HEADS], ("masked_lm", "next_sentence")])
def test_heads_round_trip(tmp_path, format, heads):
    model = tiny_model(heads)
    if format == "google" and heads in (("token_classification",), ("relation",), ("replaced_tokens",)):
        message = "google format has no place for the layers (token_class|relation_|replaced_)"
        with pytest.raises(CheckpointError, match=message):
            save_pretrained(model, tmp_path / "model", format=format)
        return
    save_pretrained(model, tmp_path / "model", format=format)
    copy, _ = load_model(tmp_path / "model")
    assert sorted(copy.output) == sorted(model.output)
    assert_same_weights(model, copy)
    for name, value in model(batch()).items():
        np.testing.assert_array_equal(value, copy(batch())[name])


def test_two_classifiers_of_different_size_round_trip(tmp_path):
    encoder = bert_encoder(TINY)
    intents = bert_model(TINY, "classification", num_classes=4, encoder=encoder)
    slots = bert_model(TINY, "token_classification", num_classes=7, encoder=encoder)
    model = keras.Model(encoder.input, {**intents.output, **slots.output})
    save_pretrained(model, tmp_path / "joint")
    copy, _ = load_model(tmp_path / "joint")
    assert {name: output.shape[-1] for name, output in copy.output.items()} == {
        "class_logits": 4,
        "token_logits": 7,
    }
    assert_same_weights(model, copy)
    load_encoder(tmp_path / "joint")  # knows both classifiers, and leaves them out


@pytest.mark.parametrize("format", ["huggingface", "google"])
def test_narrow_embeddings_round_trip(tmp_path, format):
    model = tiny_model(("masked_lm",), embedding_dim=8)
    save_pretrained(model, tmp_path / "model", format=format)
    copy, _ = load_model(tmp_path / "model")
    assert encoder_config(copy).embedding_dim == 8
    assert_same_weights(model, copy)


def test_half_precision_halves_the_file(tmp_path):
    model = tiny_model(("masked_lm", "next_sentence"))
    save_pretrained(model, tmp_path / "whole")
    save_pretrained(model, tmp_path / "half", dtype="float16")
    whole, half = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "half"))
    assert half < 0.6 * whole
    copy, _ = load_model(tmp_path / "half")
    for ours, theirs in zip(copy.weights, model.weights, strict=True):
        assert ours.dtype == "float32"
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs).astype("float16").astype("float32"))
    variable = model.get_layer("pooler").weights[0]
    variable.assign(np.asarray(variable) + 70_000)
    with pytest.raises(CheckpointError, match=r"more than float16 can hold; save with\s+dtype='float32'"):
        save_pretrained(model, tmp_path / "half", dtype="float16")
    assert_same_weights(copy, load_model(tmp_path / "half")[0])
    with pytest.raises(ValueError, match="dtype='float16' and format='google'"):
        save_pretrained(model, tmp_path / "google", format="google", dtype="float16")


def test_encoder_is_found_under_heads(tmp_path):
    model = tiny_model(("masked_lm", "next_sentence"))
    save_pretrained(model, tmp_path / "model")
    encoder, _ = load_encoder(tmp_path / "model", return_attentions=True, sequence_length=9)
    assert len(encoder.output["attentions"]) == TINY.num_layers
    theirs = {weight.path: np.asarray(weight) for weight in model.weights}
    for weight in encoder.weights:
        np.testing.assert_array_equal(np.asarray(weight), theirs[weight.path])


def test_missing_pooler_is_said(tmp_path):
    model = tiny_model(("masked_lm",))
    save_pretrained(model, tmp_path / "model")
    with pytest.warns(UserWarning, match="has no pooler.*pooled_output comes from new random weights"):
        encoder, _ = load_encoder(tmp_path / "model", seed=3)
    assert_same_weights_of(encoder.get_layer("block_1"), model.get_layer("block_1"))


def assert_same_weights_of(first, second):
    for ours, theirs in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


# === Settings ===


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.filterwarnings("ignore:.*BERT has a layer_norm_epsilon")
@pytest.mark.parametrize("changes", [ODD, {"activation": "relu"}])
def test_configs_survive(tmp_path, format, changes):
    config = TINY.replace(**{"activation": "gelu_tanh", **changes})
    if format == "keras_hub" and config.activation == "relu":
        with pytest.raises(CheckpointError, match="BertBackbone of keras-hub has no .*activation='relu'"):
            save_pretrained(bert_encoder(config), tmp_path / "model", format=format)
        return
    save_pretrained(bert_encoder(config), tmp_path / "model", format=format)
    assert encoder_config(load_encoder(tmp_path / "model")[0]) == config


@pytest.mark.parametrize("format", ["huggingface", "google"])
def test_classifier_dropout_survives(tmp_path, format):
    model = bert_model(TINY, "classification", num_classes=2, classifier_dropout=0.35)
    save_pretrained(model, tmp_path / "model", format=format)
    assert load_model(tmp_path / "model")[0].get_layer("classifier_dropout").rate == 0.35


def test_approximations_are_said(tmp_path):
    with pytest.warns(UserWarning, match="keras-hub's BertBackbone computes GELU in its tanh form"):
        save_pretrained(bert_encoder(TINY), tmp_path / "hub", format="keras_hub")
    odd = bert_encoder(TINY.replace(layer_norm_epsilon=1e-5))
    with pytest.warns(UserWarning, match="Google's BERT has a layer_norm_epsilon of 1e-12"):
        save_pretrained(odd, tmp_path / "google", format="google")
    with pytest.raises(CheckpointError, match="layers embeddings"):
        save_pretrained(tiny_model(embedding_dim=8), tmp_path / "narrow", format="keras_hub")
    with pytest.raises(CheckpointError, match="keras_hub format has no place for the layers classifier"):
        save_pretrained(tiny_model(("classification",)), tmp_path / "head", format="keras_hub")


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("options", [{"lowercase": False}, {"strip_accents": False}])
def test_tokenizers_survive(tmp_path, format, options):
    tokenizer = BertTokenizer(VOCABULARY, **options)
    save_pretrained(tiny_model(activation="gelu_tanh"), tmp_path / "model", tokenizer=tokenizer, format=format)
    _, copy = load_encoder(tmp_path / "model")
    assert copy.vocabulary == VOCABULARY
    texts = ["a A É é bc 中a"]
    assert copy(texts).to_list() == tokenizer(texts).to_list()


@pytest.mark.parametrize("format", ["huggingface", "google"])
def test_labels_survive(tmp_path, format):
    model, labels = tiny_model(("classification",)), ["no", "maybe so", "是"]
    save_pretrained(model, tmp_path / "model", labels=labels, format=format)
    assert (tmp_path / "model/labels.txt").read_text(encoding="utf-8").splitlines() == labels
    assert load_labels(tmp_path / "model") == labels
    if format == "huggingface":
        values = json.loads((tmp_path / "model/config.json").read_text(encoding="utf-8"))
        assert values["id2label"] == {"0": "no", "1": "maybe so", "2": "是"}
        (tmp_path / "model/labels.txt").unlink()
        assert load_labels(tmp_path / "model") == labels
    save_pretrained(model, tmp_path / "model", format=format)
    assert not (tmp_path / "model/labels.txt").exists()


# === Writing all or nothing ===


def test_an_existing_directory_keeps_other_files(tmp_path):
    save_pretrained(tiny_model(seed=1), tmp_path / "model", tokenizer=BertTokenizer(VOCABULARY))
    (tmp_path / "model/notes.md").write_text("mine")
    second = tiny_model(seed=2)
    save_pretrained(second, tmp_path / "model")
    assert_same_weights(second, load_encoder(tmp_path / "model")[0])
    assert (tmp_path / "model/notes.md").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_a_failed_save_leaves_everything_as_it_was(tmp_path):
    first = tiny_model(seed=1)
    save_pretrained(first, tmp_path / "model")
    too_large = BertTokenizer([*VOCABULARY, *map(str, range(40))])
    for place in ("model", "new"):
        with pytest.raises(CheckpointError, match="tokenizer has 50 tokens, but the model has 40"):
            save_pretrained(tiny_model(seed=2), tmp_path / place, tokenizer=too_large)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    assert_same_weights(first, load_encoder(tmp_path / "model")[0])


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.weights.h5", "model.safetensors.index.json"])
def test_weights_of_another_form_are_not_mixed_up(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(FileExistsError, match=f"holds a model of another format .{name}"):
        save_pretrained(tiny_model(), tmp_path)


def test_what_cannot_be_saved_is_said(tmp_path):
    encoder = tiny_model()
    with pytest.raises(ValueError, match=r"format='onnx' is unknown; choose one of 'huggingface'"):
        save_pretrained(encoder, tmp_path / "model", format="onnx")
    extra = keras.layers.Dense(2, name="mine")(encoder.output["pooled_output"])
    with pytest.raises(CheckpointError, match="No format has a name for these weights of the model: mine/kernel"):
        save_pretrained(keras.Model(encoder.input, extra), tmp_path / "model")
    cut = keras.Model(encoder.input, encoder.output["hidden_states"][1])
    with pytest.raises(CheckpointError, match="has no layers block_1, but its config says"):
        save_pretrained(cut, tmp_path / "model")
    with pytest.raises(ValueError, match="2 labels for a model with 3 classes"):
        save_pretrained(tiny_model(("classification",)), tmp_path / "model", labels=["a", "b"])
    with pytest.raises(ValueError, match="2 labels for a model with no classifier"):
        save_pretrained(encoder, tmp_path / "model", labels=["a", "b"])
    with pytest.raises(ValueError, match="has no BertEmbeddings layer"):
        save_pretrained(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_half_precision_models_are_written_as_float32(tmp_path):
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy("bfloat16")
    try:
        half = bert_encoder(TINY)
    finally:
        keras.config.set_dtype_policy(previous)
    save_pretrained(half, tmp_path / "model")
    copy, _ = load_encoder(tmp_path / "model")
    for ours, theirs in zip(half.weights, copy.weights, strict=True):
        np.testing.assert_array_equal(keras.ops.cast(ours.value, "float32"), theirs)
