"""The config refuses what would only fail later, and survives a round trip through JSON."""

import dataclasses
import json

import pytest

from keras_bert.model.config import PRESETS, BertConfig


def test_presets_are_the_published_sizes():
    assert list(PRESETS) == ["tiny", "mini", "small", "medium", "base", "large"]
    assert BertConfig.preset("base") == BertConfig()
    large = BertConfig.preset("large")
    assert (large.num_layers, large.num_heads, large.hidden_dim, large.intermediate_dim) == (
        24,
        16,
        1024,
        4096,
    )
    assert all(BertConfig.preset(name).head_dim == 64 for name in PRESETS)


def test_config_is_frozen_and_a_variant_is_checked():
    config = BertConfig.preset("tiny")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.num_layers = 3
    assert config.replace(num_layers=3).num_layers == 3
    with pytest.raises(ValueError, match="num_heads=3"):
        config.replace(num_heads=3)


def test_json_round_trip(tmp_path):
    config = BertConfig.preset("mini", embedding_dim=64, position="sinusoidal", activation="relu")
    config.to_json(tmp_path / "config.json")
    assert BertConfig.from_json(tmp_path / "config.json") == config
    assert json.loads((tmp_path / "config.json").read_text()) == config.to_dict()


def test_unknown_keys_raise_and_name_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=r"Unknown config keys: hidden_size\. The keys are: vocabulary_size"):
        BertConfig.from_dict({"hidden_size": 128})
    (tmp_path / "config.json").write_text("not json")
    with pytest.raises(ValueError, match="is not JSON"):
        BertConfig.from_json(tmp_path / "config.json")
    with pytest.raises(TypeError, match="a dictionary of names"):
        BertConfig.from_dict([1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 0}, "num_layers=0 is not a size"),
        ({"hidden_dim": 12.0}, "hidden_dim=12.0 is not a size"),
        ({"num_heads": True}, "num_heads=True is not a size"),
        ({"num_heads": 7}, "hidden_dim=768 is not a multiple of num_heads=7"),
        ({"embedding_dim": -1}, "embedding_dim=-1"),
        ({"attention_dim": 0}, "attention_dim=0"),
        ({"attention_dim": 100, "num_heads": 3}, "attention_dim=100 is not a multiple of num_heads=3"),
        ({"activation": "swish"}, "activation='swish' is unknown; choose one of 'gelu'"),
        ({"position": "rotary"}, "position='rotary' is unknown"),
        ({"dropout": 1.0}, "dropout=1.0 is not a rate"),
        ({"attention_dropout": "0.1"}, "attention_dropout='0.1' is not a rate"),
        ({"layer_norm_epsilon": 0}, "layer_norm_epsilon=0 is out of range"),
        ({"initializer_range": float("nan")}, "initializer_range=nan is out of range"),
    ],
)
def test_bad_values_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        BertConfig(**changes)


def test_unknown_preset_lists_the_presets():
    with pytest.raises(ValueError, match="'huge'; choose one of tiny, mini"):
        BertConfig.preset("huge")
