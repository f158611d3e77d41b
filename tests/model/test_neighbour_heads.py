"""Heads that begin by looking at neighbours do so for all sizes, learn on, and are saved like others. Both backends."""

import keras
import numpy as np
import pytest

from keras_bert.checkpoint import load_encoder, save_pretrained
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.neighbour_heads import NeighbourHeads, look_at_neighbours

OFFSETS = NeighbourHeads().offsets
SMALL = BertConfig(
    vocabulary_size=200, num_layers=2, num_heads=2, hidden_dim=32, intermediate_dim=64, max_sequence_length=64
)


def inputs(config, length, rows=4):
    ids = np.random.default_rng(0).integers(5, config.vocabulary_size, (rows, length)).astype("int32")
    segments = np.broadcast_to(np.arange(length) > length // 2, ids.shape).astype("int32")
    return {"token_ids": ids, "segment_ids": segments, "padding_mask": np.ones_like(ids)}


def on_neighbour(config, heads="neighbours", length=64, offsets=OFFSETS):
    """The mean attention of each head to the token that it is to look at, `[blocks, heads]`."""
    encoder = bert_encoder(config, initial=heads, return_attentions=True, seed=1)
    middle, found = np.arange(8, length - 8), []
    for probabilities in encoder(inputs(config, length))["attentions"]:
        probabilities = keras.ops.convert_to_numpy(keras.ops.cast(probabilities, "float32"))
        looked = [offsets[head % len(offsets)] for head in range(config.num_heads)]
        found.append([probabilities[:, head, middle, middle + offset].mean() for head, offset in enumerate(looked)])
    return np.array(found)


@pytest.mark.parametrize("length", [64, 128])
@pytest.mark.parametrize("size", ["tiny", "mini"])
def test_heads_of_all_blocks_look_at_neighbours(size, length):
    config = BertConfig.preset(size, vocabulary_size=500)
    assert on_neighbour(config, length=length).min() > 0.8
    found = on_neighbour(config, NeighbourHeads(blocks=(0,)), length=length)
    assert found[0].min() > 0.8
    assert found[1:].max() < 0.1  # the others see all alike


def test_blocks_free_heads_share_and_offsets():
    config = BertConfig.preset("mini", vocabulary_size=500)
    found = on_neighbour(config, NeighbourHeads(blocks=(1,), free=0.25))
    assert found[0].max() < 0.1 and found[1, :3].min() > 0.8 and found[1, 3] < 0.1
    loose, close = (on_neighbour(config, NeighbourHeads(share=share), 128)[0].max() for share in (0.5, 0.99))
    assert loose < 0.75 and close > 0.97
    assert on_neighbour(config, NeighbourHeads(offsets=(5,)), offsets=(5,))[0].min() > 0.8


@pytest.mark.parametrize(
    ("changes", "least"),
    [
        ({"hidden_dim": 33, "num_heads": 3}, 0.7),  # heads of 11
        ({"hidden_dim": 31, "num_heads": 1}, 0.7),
        ({"hidden_dim": 30, "num_heads": 6}, 0.25),  # heads of 5: two frequencies
        ({"hidden_dim": 14, "num_heads": 7}, 0.03),  # heads of 2: one
        ({"embedding_dim": 16}, 0.25),
        ({"embedding_dim": 64}, 0.75),
        ({"attention_dim": 16}, 0.7),
        ({"attention_dim": 64}, 0.7),
        ({"position": "sinusoidal"}, 0.7),
        ({"position": "sinusoidal", "hidden_dim": 33, "num_heads": 3}, 0.65),
        ({"position": "sinusoidal", "embedding_dim": 24}, 0.5),
    ],
    ids=str,
)
def test_odd_sizes_come_as_close_as_they_can(changes, least):
    config = SMALL.replace(**changes)
    found, random = on_neighbour(config)[0], on_neighbour(config, "random")[0]
    assert found.min() > least
    assert found.min() > 1.5 * random.max()


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "bfloat16"])
def test_half_precision(policy):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        assert on_neighbour(BertConfig.preset("tiny", vocabulary_size=500))[0].min() > 0.8
    finally:
        keras.config.set_dtype_policy(before)


def test_the_seed_decides():
    first, second, other = (bert_encoder(SMALL, initial="neighbours", seed=seed).get_weights() for seed in (5, 5, 6))
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)
    assert any(not np.array_equal(one, three) for one, three in zip(first, other, strict=True))
    random = bert_encoder(SMALL, seed=5)
    touched = [
        weight.path
        for weight, value in zip(random.weights, first, strict=True)
        if not np.array_equal(keras.ops.convert_to_numpy(weight), value)
    ]
    assert sorted(touched) == [
        "block_0/attention/key/kernel",
        "block_0/attention/query/kernel",
        "block_1/attention/key/kernel",
        "block_1/attention/query/kernel",
        "embeddings/position",
        "embeddings/segment/embeddings",
        "token_embedding/embeddings",
    ]


@pytest.mark.slow
def test_all_weights_are_trained():
    encoder = bert_encoder(SMALL, initial="neighbours", seed=1)
    assert len(encoder.trainable_weights) == len(bert_encoder(SMALL).trainable_weights)
    before = [np.array(weight) for weight in encoder.get_weights()]
    model = keras.Model(encoder.input, encoder.output["pooled_output"])
    model.compile(keras.optimizers.Adam(1e-3), "mse")
    x = inputs(SMALL, 16, rows=8)
    model.fit(x, np.random.default_rng(1).normal(size=(8, 32)), epochs=2, verbose=0)
    # The key's bias has no influence on attention; without dropout its gradient is 0 up to rounding.
    for weight, old in zip(encoder.weights, before, strict=True):
        assert "key/bias" in weight.path or not np.array_equal(keras.ops.convert_to_numpy(weight), old), weight.path


def test_saved_and_loaded_as_any_other(tmp_path):
    encoder = bert_encoder(SMALL, initial="neighbours", seed=1)
    save_pretrained(encoder, tmp_path / "bert")
    assert "neighbour" not in (tmp_path / "bert" / "config.json").read_text()
    loaded = load_encoder(tmp_path / "bert")
    loaded = loaded[0] if isinstance(loaded, tuple) else loaded
    x = inputs(SMALL, 20)
    expected, found = (keras.ops.convert_to_numpy(model(x)["sequence_output"]) for model in (encoder, loaded))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    encoder.save(tmp_path / "bert.keras")
    found = keras.ops.convert_to_numpy(keras.models.load_model(tmp_path / "bert.keras")(x)["sequence_output"])
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bert_encoder(SMALL, initial="neighbors"), "initial='neighbors' is unknown; choose one of 'random', "),
        (lambda: bert_encoder(SMALL, initial=NeighbourHeads(blocks=(2,))), "there is no block 2; they are 0 to 1"),
        (lambda: bert_encoder(SMALL.replace(num_heads=32), initial="neighbours"), "head_dim=1, .*take fewer heads"),
        (lambda: NeighbourHeads(free=2), "free=2 is not a share of the heads"),
        (lambda: NeighbourHeads(share=1.0), "share=1.0 is not a share of attention"),
        (lambda: NeighbourHeads(offsets=()), "expected at least one whole number"),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_encoder_that_is_there_can_be_given_heads():
    encoder = bert_encoder(SMALL, seed=1)
    look_at_neighbours(encoder, SMALL)
    expected = bert_encoder(SMALL, initial="neighbours", seed=1).get_weights()
    for one, two in zip(encoder.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(one, two)
