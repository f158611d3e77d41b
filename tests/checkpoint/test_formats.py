"""Checkpoints as others write them: Google's with its optimizer, keras-hub's own, Hugging Face's with old names."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from places import ROOT
from safetensors.numpy import load_file, save_file
from tiny_models import TINY, VOCABULARY, assert_same_weights, batch, tiny_model

from keras_bert.checkpoint import CheckpointError, load_encoder, load_model, save_pretrained
from keras_bert.checkpoint.tokenizer_files import infers_lowercase
from keras_bert.model.encoder import encoder_config
from keras_bert.text.tokenizer import BertTokenizer

PRETRAINING = ("masked_lm", "next_sentence")

# === Google ===


def write_google(directory, model, prefix="bert_model.ckpt", extra=(), vocabulary=VOCABULARY):
    """A checkpoint as Google's training code leaves it: moments beside each weight, a step counter, no settings."""
    save_pretrained(model, directory, format="google")
    reader = tf.train.load_checkpoint(str(directory / "bert_model.ckpt"))
    arrays = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    for name in list(arrays):
        arrays[f"{name}/adam_m"] = arrays[f"{name}/adam_v"] = np.zeros_like(arrays[name])
    arrays.update({"global_step": np.int64(7), **dict(extra)})
    for path in directory.glob("bert_model.ckpt*"):
        path.unlink()
    tf.raw_ops.SaveV2(
        prefix=str(directory / prefix),
        tensor_names=list(arrays),
        shape_and_slices=[""] * len(arrays),
        tensors=list(map(tf.constant, arrays.values())),
    )
    (directory / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary), encoding="utf-8")


def test_google_checkpoint_with_its_optimizer(tmp_path):
    model = tiny_model(PRETRAINING)
    write_google(tmp_path, model)
    copy, tokenizer = load_model(tmp_path)
    assert sorted(copy.output) == ["mlm_logits", "nsp_logits"]
    assert_same_weights(model, copy)
    assert tokenizer.vocabulary == VOCABULARY
    encoder, _ = load_encoder(tmp_path)
    assert encoder_config(encoder) == TINY


def test_google_config_is_the_published_one(tmp_path):
    save_pretrained(tiny_model(embedding_dim=8), tmp_path / "model", format="google")
    assert json.loads((tmp_path / "model/bert_config.json").read_text()) == {
        "attention_probs_dropout_prob": 0.1,
        "embedding_size": 8,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": 16,
        "initializer_range": 0.02,
        "intermediate_size": 24,
        "max_position_embeddings": 12,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "type_vocab_size": 2,
        "vocab_size": 40,
    }


@pytest.mark.parametrize(("token", "lowercase"), [("Paris", False), ("paris", True), ("[UNUSED]", True)])
def test_google_says_nothing_of_case_so_the_vocabulary_does(tmp_path, token, lowercase):
    write_google(tmp_path, tiny_model(), vocabulary=[*VOCABULARY, token])
    assert load_encoder(tmp_path)[1].lowercase is lowercase
    assert infers_lowercase([*VOCABULARY, token]) is lowercase


def test_google_checkpoint_of_another_name(tmp_path):
    model = tiny_model()
    write_google(tmp_path, model, prefix="model.ckpt-1000")
    assert_same_weights(model, load_encoder(tmp_path)[0])


def test_google_float64_and_foreign_variables(tmp_path):
    write_google(tmp_path, tiny_model(), extra={"cls/mine/kernel": np.zeros((2, 2))}.items())
    with pytest.raises(CheckpointError, match=r"weights that do not belong to a BERT .*: cls/mine/kernel"):
        load_encoder(tmp_path)
    load_encoder(tmp_path, ignore_extra=True)


# === keras-hub ===


def test_keras_hub_opens_what_we_save_and_we_what_it_saves(tmp_path):
    models = pytest.importorskip("keras_hub").models
    encoder = tiny_model(activation="gelu_tanh")
    save_pretrained(encoder, tmp_path / "ours", tokenizer=BertTokenizer(VOCABULARY), format="keras_hub")
    backbone = models.BertBackbone.from_preset(str(tmp_path / "ours"))
    real = batch()["padding_mask"] == 1
    wanted, found = encoder(batch()), backbone(batch())
    sequences = [np.asarray(output["sequence_output"])[real] for output in (wanted, found)]
    np.testing.assert_allclose(*sequences, rtol=0, atol=1e-5)
    np.testing.assert_allclose(wanted["pooled_output"], found["pooled_output"], rtol=0, atol=1e-5)
    tokenizer = models.BertTokenizer.from_preset(str(tmp_path / "ours"))
    assert np.asarray(tokenizer("A b bc")).tolist() == [5, 6, 6, 7]

    backbone.save_to_preset(str(tmp_path / "theirs"))
    tokenizer.save_to_preset(str(tmp_path / "theirs"))
    copy, copied_tokenizer = load_encoder(tmp_path / "theirs")
    assert_same_weights(encoder, copy)
    # keras-hub's own presets name no activation: its code has the GELU with tanh.
    assert encoder_config(copy).activation == "gelu_tanh"
    assert copied_tokenizer.vocabulary == VOCABULARY
    (tmp_path / "theirs/task.json").write_text("{}")
    with pytest.raises(CheckpointError, match="keras-hub task, whose head this library does not read"):
        load_model(tmp_path / "theirs")


# === Hugging Face ===


def rewrite(directory, change):
    """Change the names and arrays of a model.safetensors."""
    arrays = change(load_file(directory / "model.safetensors"))
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, directory / "model.safetensors")


def old_names(arrays):
    names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for new, old in names.items():
        arrays = {name.replace(new, old): array for name, array in arrays.items()}
    return arrays


def test_old_names_buffers_and_copies_of_tied_weights(tmp_path):
    model = tiny_model(PRETRAINING)
    save_pretrained(model, tmp_path)

    def age(arrays):
        arrays = old_names(arrays)
        arrays["bert.embeddings.position_ids"] = np.arange(12)[None]
        arrays["cls.predictions.decoder.weight"] = arrays["bert.embeddings.word_embeddings.weight"]
        arrays["cls.predictions.decoder.bias"] = arrays["cls.predictions.bias"]
        return arrays

    rewrite(tmp_path, age)
    assert_same_weights(model, load_model(tmp_path)[0])


def test_only_the_copies_of_tied_weights(tmp_path):
    model = tiny_model(PRETRAINING)
    save_pretrained(model, tmp_path)
    names = {
        "bert.embeddings.word_embeddings.weight": "cls.predictions.decoder.weight",
        "cls.predictions.bias": "cls.predictions.decoder.bias",
    }
    rewrite(tmp_path, lambda arrays: {names.get(name, name): array for name, array in arrays.items()})
    assert_same_weights(model, load_model(tmp_path)[0])


def test_an_untied_decoder_is_refused_and_its_encoder_is_not(tmp_path):
    save_pretrained(tiny_model(PRETRAINING), tmp_path)
    rewrite(tmp_path, lambda arrays: {**arrays, "cls.predictions.decoder.weight": np.ones((40, 16), "float32")})
    with pytest.raises(CheckpointError, match=r"cls.predictions.decoder.weight .* differs from bert.embeddings"):
        load_model(tmp_path)
    load_encoder(tmp_path)


@pytest.mark.parametrize("to_prefixed", [True, False])
def test_with_and_without_prefix(tmp_path, to_prefixed):
    model = tiny_model(() if to_prefixed else ("next_sentence",))
    save_pretrained(model, tmp_path)

    def rename(arrays):
        if to_prefixed:
            return {f"bert.{name}": array for name, array in arrays.items()}
        return {name.removeprefix("bert."): array for name, array in arrays.items()}

    rewrite(tmp_path, rename)
    assert_same_weights(model, load_model(tmp_path)[0])


def test_heads_come_from_the_weights_where_the_architecture_says_less(tmp_path):
    # google-bert/bert-base-uncased says BertForMaskedLM and has the next sentence head and the pooler too.
    model = tiny_model(PRETRAINING)
    save_pretrained(model, tmp_path)
    edit_config(tmp_path, architectures=["BertForMaskedLM"])
    assert_same_weights(model, load_model(tmp_path)[0])


def test_a_classifier_needs_an_architecture(tmp_path):
    save_pretrained(tiny_model(("classification",)), tmp_path)
    edit_config(tmp_path, architectures=["BertForMyTask"])
    with pytest.raises(CheckpointError, match="has a classifier, but architectures .* says 'BertForMyTask'"):
        load_model(tmp_path)
    load_encoder(tmp_path)


def edit_config(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_file_whose_numbers_are_not_aligned(tmp_path):
    encoder = tiny_model()
    save_pretrained(encoder, tmp_path)
    path = tmp_path / "model.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    path.write_bytes((length + 3).to_bytes(8, "little") + data[8 : 8 + length] + b"   " + data[8 + length :])
    assert_same_weights(encoder, load_encoder(tmp_path)[0])


def test_our_files_open_with_the_safetensors_library(tmp_path):
    encoder = tiny_model()
    save_pretrained(encoder, tmp_path)
    arrays = load_file(tmp_path / "model.safetensors")
    assert len(arrays) == len(encoder.weights)
    np.testing.assert_array_equal(arrays["pooler.dense.weight"], np.asarray(encoder.get_layer("pooler").dense.kernel).T)


# === Another backend ===

JAX_SCRIPT = """
import sys, numpy as np
from keras_bert.checkpoint import load_encoder, save_pretrained
encoder, _ = load_encoder(sys.argv[1])
save_pretrained(encoder, sys.argv[2])
import keras; assert keras.backend.backend() == "jax"
"""


@pytest.mark.slow
def test_the_jax_backend_reads_and_writes_the_same(tmp_path):
    pytest.importorskip("jax")
    save_pretrained(tiny_model(), tmp_path / "tensorflow")
    command = [sys.executable, "-c", JAX_SCRIPT, str(tmp_path / "tensorflow"), str(tmp_path / "jax")]
    result = subprocess.run(command, env=jax_environment(), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("tensorflow", "jax"))
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


def jax_environment():
    return {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
