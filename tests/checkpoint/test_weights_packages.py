"""The weights under `weights/`: each is a package of its own, whose hash the library and its model card know."""

import dataclasses
import hashlib
import re

import numpy as np
import pytest
from places import ROOT

from keras_bert.checkpoint import CheckpointError, load_encoder
from keras_bert.checkpoint.hub import INSTALLED, find_installed
from keras_bert.model.encoder import encoder_config
from keras_bert.model.weights import to_numpy
from keras_bert.text.packing import pack

SOURCES = {name: weights for name, weights in INSTALLED.items() if weights.source is not None}
LARGEST = {"small-en": 18_000_000, "tiny-zh": 6_000_000}


def model_of(name):
    return ROOT / SOURCES[name].source / SOURCES[name].module / SOURCES[name].folder


def test_every_directory_is_known():
    assert {path.parent.name for path in ROOT.glob("weights/*/pyproject.toml")} == {*SOURCES} == {*LARGEST}


@pytest.mark.parametrize("name", SOURCES)
def test_hash_and_words_agree(name):
    file = model_of(name) / "model.safetensors"
    assert hashlib.sha256(file.read_bytes()).hexdigest() == SOURCES[name].sha256
    assert file.stat().st_size < LARGEST[name]
    card = (model_of(name) / "README.md").read_text(encoding="utf-8")
    assert SOURCES[name].sha256 in card and card.startswith(f"# {name}\n")
    project = (ROOT / SOURCES[name].source / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'^name = "(.*)"$', project, re.MULTILINE)[1] == SOURCES[name].distribution


@pytest.mark.parametrize("name", SOURCES)
def test_the_name_opens_the_package(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / SOURCES[name].source))
    assert find_installed(name) == model_of(name)
    encoder, tokenizer = load_encoder(name)
    assert encoder_config(encoder).vocabulary_size == tokenizer.vocabulary_size
    monkeypatch.setitem(INSTALLED, name, dataclasses.replace(SOURCES[name], sha256="0" * 64))
    with pytest.raises(CheckpointError, match="expected 000"):
        find_installed(name)


@pytest.mark.parametrize("name", SOURCES)
def test_missing_package_says_how_to_install_it(name, monkeypatch):
    monkeypatch.setitem(INSTALLED, name, dataclasses.replace(SOURCES[name], module="no_such_module"))
    with pytest.raises(FileNotFoundError, match=f"pip install --no-deps ./weights/{name} "):
        find_installed(name)


def test_the_vectors_of_small_en_are_close_to_those_of_its_teacher(monkeypatch, minilm_dir):
    monkeypatch.syspath_prepend(str(ROOT / SOURCES["small-en"].source))
    texts = [
        "A man plays the guitar on the street.",
        "The court rejected the appeal.",
        "How do I reset my password?",
        "A delightful film with a tedious ending.",
        "Rain is expected in the north tomorrow.",
    ]
    ours, theirs = (sentence_vectors(name, texts) for name in ("small-en", minilm_dir))
    cosines = ours @ theirs.T
    assert np.diag(cosines).min() > 0.7
    assert cosines.argmax(axis=1).tolist() == cosines.argmax(axis=0).tolist() == [0, 1, 2, 3, 4]


def sentence_vectors(name, texts):
    encoder, tokenizer = load_encoder(name)
    batch = pack(tokenizer, texts, sequence_length=16)
    mask = np.asarray(batch["padding_mask"])[..., None]
    vectors = (to_numpy(encoder(batch)["sequence_output"]) * mask).sum(axis=1)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
