"""Masking keeps BERT's rates on a million tokens, never touches special tokens, and repeats by seed."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.pretraining.masking import Masking, falling_rate, mask_batches
from keras_bert.text.tokenizer import BertTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOKENIZER = BertTokenizer([*SPECIAL, *(f"w{i}" for i in range(600)), *(f"##c{i}" for i in range(395))])
SIZE, MASK = 1000, 4


def make_batch(rows, length=128, seed=0, least=60):
    """Rows of words with one to four pieces, packed as pairs, padded at the end."""
    rng = np.random.default_rng(seed)
    ids = np.where(
        rng.random((rows, length)) < 0.6, rng.integers(5, 605, (rows, length)), rng.integers(605, SIZE, (rows, length))
    )
    lengths = rng.integers(least, length + 1, rows)
    ids[:, 0], ids[:, 1] = 2, 10
    ids[np.arange(rows), lengths // 2] = 3
    ids[np.arange(rows), lengths // 2 + 1] = 11
    ids[np.arange(rows), lengths - 1] = 3
    mask = np.arange(length)[None] < lengths[:, None]
    batch = {"token_ids": np.where(mask, ids, 0), "segment_ids": np.zeros_like(ids), "padding_mask": mask}
    return {name: tf.constant(value, tf.int32) for name, value in batch.items()}


@functools.cache
def million(unit):
    """Original, masked and chosen tokens of 10⁶ ordinary tokens and more."""
    masking = Masking.for_tokenizer(TOKENIZER, unit=unit, max_predictions=40)
    batches = [(make_batch(1000, seed=step), (9, step)) for step in range(12)]
    results = [(batch, masking(batch, seed)) for batch, seed in batches]
    original = np.concatenate([batch["token_ids"] for batch, _ in results])
    masked = {name: np.concatenate([result[name] for _, result in results]) for name in results[0][1]}
    chosen = np.zeros(original.shape, bool)
    rows, columns = np.nonzero(masked["masked_weights"])
    chosen[rows, masked["masked_positions"][rows, columns]] = True
    return original, masked, chosen


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_rates_on_a_million_tokens(unit):
    original, masked, chosen = million(unit)
    ordinary = original >= len(SPECIAL)
    assert ordinary.sum() > 1_000_000
    assert not chosen[~ordinary].any()
    assert abs(chosen[ordinary].mean() - 0.15) < 0.003
    new = masked["token_ids"]
    assert np.array_equal(new[~chosen], original[~chosen])
    is_mask, same = new[chosen] == MASK, new[chosen] == original[chosen]
    assert abs(is_mask.mean() - 0.8) < 0.003
    assert abs(same.mean() - 0.1 - 0.1 / 995) < 0.003
    drawn = new[chosen][~is_mask & ~same]
    assert drawn.min() >= len(SPECIAL)
    assert len(np.unique(drawn)) == SIZE - len(SPECIAL)


def test_labels_are_what_stood_there():
    original, masked, chosen = million("token")
    rows, columns = np.nonzero(masked["masked_weights"])
    positions = masked["masked_positions"][rows, columns]
    assert np.array_equal(masked["masked_ids"][rows, columns], original[rows, positions])
    assert chosen.sum() == masked["masked_weights"].sum()
    hidden = masked["masked_weights"] == 0
    assert not masked["masked_ids"][hidden].any()
    assert not masked["masked_positions"][hidden].any()


def test_cap_and_at_least_one():
    batch = make_batch(200)
    weights = Masking.for_tokenizer(TOKENIZER, max_predictions=3)(batch, (1, 1))["masked_weights"].numpy()
    assert weights.shape == (200, 3)
    assert set(weights.sum(1)) == {3.0}
    few = {name: value[:, :4] for name, value in make_batch(50, least=100).items()}
    weights = Masking.for_tokenizer(TOKENIZER, max_predictions=20)(few, (1, 1))["masked_weights"].numpy()
    assert weights.shape == (50, 20)
    assert set(weights.sum(1)) == {1.0}


def test_whole_words_are_hidden_whole():
    original, _, chosen = million("word")
    continues = original >= 605
    assert np.array_equal(chosen[:, 1:][continues[:, 1:]], chosen[:, :-1][continues[:, 1:]])


def test_spans_are_longer_than_words():
    def mean_run(unit):
        _, _, chosen = million(unit)
        return chosen.sum() / (chosen & ~np.pad(chosen, ((0, 0), (1, 0)))[:, :-1]).sum()

    token, word, span = (mean_run(unit) for unit in ("token", "word", "span"))
    assert token < word < span


def test_masks_repeat_by_seed_and_change_by_pass():
    masking = Masking.for_tokenizer(TOKENIZER)
    data = tf.data.Dataset.from_tensors(make_batch(8)).repeat(2)
    first, second = (np.stack([b["token_ids"] for b in mask_batches(data, masking, seed=3)]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first[0], first[1])
    other = np.stack([b["token_ids"] for b in mask_batches(data, masking, seed=4)])
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_a_falling_rate_is_a_function_of_the_step(unit):
    masking = Masking.for_tokenizer(TOKENIZER, unit=unit, max_predictions=39)
    data = tf.data.Dataset.from_tensors(make_batch(400)).repeat(11)
    rate = falling_rate(0.3, 0.15, steps=10)
    whole = list(mask_batches(data, masking, seed=3, rate=rate).as_numpy_iterator())
    ordinary = (make_batch(400)["token_ids"].numpy() >= len(SPECIAL)).sum()
    shares = [batch["masked_weights"].sum() / ordinary for batch in whole]
    np.testing.assert_allclose(shares, 0.3 - 0.015 * np.arange(11), atol=0.006)
    assert {batch["masked_ids"].shape for batch in whole} == {(400, 39)}  # the shapes of a step do not change
    later = list(mask_batches(data.skip(7), masking, seed=3, start=7, rate=rate).as_numpy_iterator())
    for ours, theirs in zip(later, whole[7:], strict=True):
        np.testing.assert_array_equal(ours["token_ids"], theirs["token_ids"])
    constant = list(mask_batches(data.take(1), masking, seed=3, rate=falling_rate(0.15, 0.15, 10)).as_numpy_iterator())
    plain = list(mask_batches(data.take(1), masking, seed=3).as_numpy_iterator())
    np.testing.assert_array_equal(constant[0]["token_ids"], plain[0]["token_ids"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unit": "sentence"}, "unit='sentence' is unknown; choose one of token, word, span"),
        ({"rate": 1.5}, "rate=1.5 is not a share"),
        ({"mask_share": 0.9, "random_share": 0.2}, "nor over 1 together"),
        ({"max_predictions": 0}, "must be at least 1"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Masking.for_tokenizer(TOKENIZER, **settings)
