"""Packed rows give the numbers of unpacked ones, hold every example once, and repeat by seed. Both backends."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_encoders import CONFIG, batch, numpy, randomize

from keras_bert.checkpoint import load_encoder, save_pretrained
from keras_bert.model.encoder import PackedBias, bert_encoder
from keras_bert.pretraining.masking import Masking, mask_batches
from keras_bert.pretraining.model import (
    features_and_labels,
    losses_and_metrics,
    pretrained_encoder,
    pretraining_model,
)
from keras_bert.pretraining.shared_rows import first_fit, pack_rows
from keras_bert.text.tokenizer import BertTokenizer

TOKENIZER = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(45))])
SMALL = CONFIG.replace(dropout=0.0, attention_dropout=0.0, max_sequence_length=24)
LENGTH, EXAMPLES, MASKED = 24, 5, 8


def make_windows(count=60, window=20, seed=0, longest=LENGTH):
    """Ragged batches of pairs, each with a first word that numbers it."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, longest + 1, count)
    ids = [[2, 5 + i % 45, *rng.integers(5, 50, n - 4), 3, 3] for i, n in enumerate(sizes)]
    segments = [[0] * (n // 2) + [1] * (n - n // 2) for n in sizes]
    data = {
        "token_ids": tf.ragged.constant(ids, tf.int32),
        "segment_ids": tf.ragged.constant(segments, tf.int32),
        "next_sentence_label": tf.constant(rng.integers(0, 2, count), tf.int32),
    }
    return data, tf.data.Dataset.from_tensor_slices(data).ragged_batch(window)


def packed_batches(rows=4, *, windows=None, seed=3, **options):
    settings = {"sequence_length": LENGTH, "max_examples": EXAMPLES, **options}
    return pack_rows(make_windows()[1] if windows is None else windows, batch_size=rows, seed=seed, **settings)


def masked_batch(rows=4):
    masking = Masking.for_tokenizer(TOKENIZER, max_predictions=MASKED, rate=0.3)
    return next(iter(mask_batches(packed_batches(rows), masking, seed=1)))


def as_arrays(tree):
    return keras.tree.map_structure(np.asarray, tree)


def unpack(packed):
    """The examples of a packed batch, one a row: what the packed model is compared with."""
    packed = as_arrays(packed)
    rows, slots = np.nonzero(packed["next_sentence_weight"])
    names = ("token_ids", "segment_ids", "padding_mask", "masked_positions", "masked_ids", "masked_weights")
    widths = (LENGTH, LENGTH, LENGTH, MASKED, MASKED, MASKED)
    single = {name: np.zeros((len(rows), width), "int32") for name, width in zip(names, widths, strict=True)}
    for at, (row, slot) in enumerate(zip(rows, slots, strict=True)):
        places = np.flatnonzero(packed["padding_mask"][row] == slot + 1)
        assert places[0] == packed["example_starts"][row, slot]
        for name in ("token_ids", "segment_ids"):
            single[name][at, : len(places)] = packed[name][row, places]
        single["padding_mask"][at, : len(places)] = 1
        hidden = np.isin(packed["masked_positions"][row], places) & (packed["masked_weights"][row] > 0)
        single["masked_positions"][at, : hidden.sum()] = packed["masked_positions"][row, hidden] - places[0]
        single["masked_ids"][at, : hidden.sum()] = packed["masked_ids"][row, hidden]
        single["masked_weights"][at, : hidden.sum()] = 1
    single["masked_weights"] = single["masked_weights"].astype("float32")
    single["next_sentence_label"] = packed["next_sentence_label"][rows, slots]
    return single


# === The model ===


def test_positions_and_bias():
    bias, positions = PackedBias()(np.array([[1, 1, 1, 2, 2, 0, 0], [1, 2, 3, 3, 3, 3, 0]], "int32"))
    assert numpy(positions).tolist() == [[0, 1, 2, 0, 1, 0, 0], [0, 0, 0, 1, 2, 3, 0]]
    seen = numpy(bias)[:, 0] == 0
    assert seen[0, 3].tolist() == [False] * 3 + [True] * 2 + [False] * 2
    assert (numpy(bias)[~seen[:, None]] == -120).all()


def test_encoder_equals_unpacked():
    packed, plain = bert_encoder(SMALL, packed=True), bert_encoder(SMALL)
    randomize(packed)
    plain.set_weights(packed.get_weights())
    rows = masked_batch()
    single = unpack(rows)
    ours = numpy(packed({name: np.asarray(rows[name]) for name in packed.input})["sequence_output"])
    expected = numpy(plain({name: single[name] for name in plain.input})["sequence_output"])
    at = np.asarray(rows["padding_mask"])
    examples = [ours[row][at[row] == number] for row in range(len(at)) for number in range(1, at[row].max() + 1)]
    assert len(examples) == len(expected) > len(at)
    for example, alone in zip(examples, expected, strict=True):
        np.testing.assert_allclose(example, alone[: len(example)], atol=1e-5)


def test_a_plain_row_is_the_special_case():
    packed, plain = bert_encoder(CONFIG, packed=True), bert_encoder(CONFIG)
    randomize(packed)
    plain.set_weights(packed.get_weights())
    inputs = batch()
    visible = inputs["padding_mask"][..., None]
    ours, expected = (numpy(encoder(inputs)["sequence_output"]) * visible for encoder in (packed, plain))
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_losses_logits_and_gradients_equal_unpacked():
    """One step of SGD with rate 1: the change of a weight is its gradient."""
    rows = masked_batch()
    single = unpack(rows)
    models, results = {}, {}
    for name, data in (("packed", as_arrays(rows)), ("single", single)):
        model = pretraining_model(SMALL, max_predictions=MASKED, packed=name == "packed", max_examples=EXAMPLES, seed=0)
        randomize(model)
        model.compile(keras.optimizers.SGD(1.0), **losses_and_metrics(model))
        inputs, labels, weights = as_arrays(features_and_labels(data))
        logits = keras.tree.map_structure(numpy, model(inputs))
        before = model.get_weights()
        logs = model.train_on_batch(inputs, labels, sample_weight=weights, return_dict=True)
        models[name] = [old - new for old, new in zip(before, model.get_weights(), strict=True)]
        results[name] = logits, logs, [variable.path for variable in model.trainable_variables]
    (logits, logs, paths), (alone, alone_logs, alone_paths) = results["packed"], results["single"]
    there = np.asarray(rows["next_sentence_weight"]) > 0
    np.testing.assert_allclose(logits["nsp_logits"][there], alone["nsp_logits"], atol=1e-5)
    assert paths == alone_paths
    for name in ("loss", "mlm_logits_perplexity", "nsp_logits_accuracy"):
        np.testing.assert_allclose(logs[name], alone_logs[name], rtol=1e-5, err_msg=name)
    for ours, expected in zip(models["packed"], models["single"], strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_a_packed_model_is_saved_as_an_ordinary_one(tmp_path):
    model = pretraining_model(SMALL, max_predictions=MASKED, packed=True, max_examples=EXAMPLES, seed=0)
    randomize(model)
    save_pretrained(model, tmp_path / "bert", tokenizer=TOKENIZER)
    encoder, _ = load_encoder(tmp_path / "bert")
    expected = pretrained_encoder(model)(batch())["pooled_output"]
    np.testing.assert_array_equal(numpy(encoder(batch())["pooled_output"]), numpy(expected))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    inputs = as_arrays(features_and_labels(masked_batch())[0])
    for name in ("mlm_logits", "nsp_logits"):
        np.testing.assert_array_equal(numpy(loaded(inputs)[name]), numpy(model(inputs)[name]))


def test_an_encoder_of_the_other_kind_is_refused():
    with pytest.raises(ValueError, match="was not made with packed=True"):
        pretraining_model(None, encoder=bert_encoder(CONFIG), packed=True)


# === The rows ===


def contents(batches):
    """The examples of packed batches as tuples of tokens, segments and label."""
    found = []
    for rows in map(as_arrays, batches):
        for row, numbers in enumerate(rows["padding_mask"]):
            assert rows["next_sentence_weight"][row].sum() == numbers.max()
            assert (rows["token_ids"][row][numbers == 0] == TOKENIZER.pad_id).all()
            for number in range(1, numbers.max() + 1):
                at = numbers == number
                label = rows["next_sentence_label"][row, number - 1]
                found.append((*rows["token_ids"][row][at], *rows["segment_ids"][row][at], label))
    return sorted(found)


@pytest.mark.parametrize("rows", [1, 4, 7])
def test_every_example_once(rows):
    data, windows = make_windows()
    parts = (data["token_ids"].to_list(), data["segment_ids"].to_list(), data["next_sentence_label"].numpy())
    expected = sorted((*ids, *segments, label) for ids, segments, label in zip(*parts, strict=True))
    assert contents(packed_batches(rows, windows=windows)) == expected


def test_first_fit_by_definition():
    sizes, length, most = np.random.default_rng(2).integers(1, 30, 200), 32, 3
    row, slot, start = (part.numpy() for part in first_fit(tf.constant(sizes), length=length, max_examples=most))
    rows = []
    for at in np.argsort(-sizes, kind="stable"):
        target = next((r for r in rows if sum(r) + sizes[at] <= length and len(r) < most), None)
        if target is None:
            target = []
            rows.append(target)
        number = next(n for n, r in enumerate(rows) if r is target)
        assert (row[at], slot[at], start[at]) == (number, len(target), sum(target))
        target.append(sizes[at])


def test_rows_repeat_by_seed_from_any_step():
    def batches(seed, skip):
        windows = make_windows()[1].repeat(3)
        return [as_arrays(rows) for rows in packed_batches(windows=windows, seed=seed, drop_remainder=True).skip(skip)]

    whole, later = batches(3, 0), batches(3, 9)  # over the end of a pass
    assert len(whole) > 15
    keras.tree.map_structure(np.testing.assert_array_equal, whole[9:], later)
    assert not np.array_equal(whole[0]["token_ids"], batches(4, 0)[0]["token_ids"])


def test_short_examples_fill_the_rows():
    _, windows = make_windows(count=500, window=250, longest=16)
    masks = np.concatenate([rows["padding_mask"] for rows in packed_batches(windows=windows)])
    assert (masks > 0).mean() > 0.97
    assert masks.max() <= EXAMPLES


def test_masks_on_packed_rows():
    rows, masked = next(iter(packed_batches())), masked_batch()
    hidden = np.asarray(masked["masked_weights"]) > 0
    before = np.take_along_axis(np.asarray(rows["token_ids"]), np.asarray(masked["masked_positions"]), 1)
    assert (before[hidden] >= 5).all()
    np.testing.assert_array_equal(before[hidden], np.asarray(masked["masked_ids"])[hidden])
    assert hidden.any(1).all()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="max_examples=0 must be at least 1"):
        packed_batches(max_examples=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="longer than sequence_length=16; write the examples"):
        next(iter(packed_batches(sequence_length=16)))
