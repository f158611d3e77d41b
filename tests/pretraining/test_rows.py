"""Rows of one width: the examples of the other layout, an order by seed and step, the same masks on host and device."""

import json
import shutil
import time
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from pretraining_run import CONFIG, PLAN, TOKENIZER, write_tiny_examples
from strategy_processes import finish, start

from keras_bert.model.hashing import scramble
from keras_bert.pretraining.batches import token_counts, training_batches, unmasked_rows, validation_batches
from keras_bert.pretraining.corpus.manifest import load_manifest
from keras_bert.pretraining.corpus.writing import CorpusError, layout_there, read_examples, write_examples
from keras_bert.pretraining.masking import Masking
from keras_bert.pretraining.records import read_history
from keras_bert.pretraining.rows.layout import fill_rows, row_dtype
from keras_bert.pretraining.rows.masking import mask_rows, row_keys, with_keys
from keras_bert.pretraining.rows.reading import StoredRows
from keras_bert.pretraining.run import pretrain

LAYOUTS = ("padded", "packed")


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """The same text in all layouts, in several shards."""
    folder = tmp_path_factory.mktemp("rows")
    write_tiny_examples(folder / "examples")
    options = {"sequence_length": 32, "workers": 1, "progress": False, "shard_bytes": 10_000}
    for layout in ("examples", *LAYOUTS):
        write_examples(folder / "examples.txt", folder / f"{layout}-many", TOKENIZER, layout=layout, **options)
    return {layout: folder / f"{layout}-many" for layout in ("examples", *LAYOUTS)}


def examples_of(batches):
    """All examples as (tokens, segments, label), from rows that may be shared."""
    found = []
    for batch in batches:
        labels = batch["next_sentence_label"].reshape(len(batch["token_ids"]), -1)
        for row, texts in enumerate(batch["padding_mask"]):
            for number in range(1, texts.max() + 1):
                here = texts == number
                ids, segments = batch["token_ids"][row][here], batch["segment_ids"][row][here]
                found.append((ids.tolist(), segments.tolist(), int(labels[row, number - 1])))
    return sorted(found)


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in {**one, **other})


# === What is stored ===


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_hold_the_examples(directories, layout):
    expected = sorted(
        (row["token_ids"].numpy().tolist(), row["segment_ids"].numpy().tolist(), int(row["next_sentence_label"]))
        for row in read_examples(directories["examples"])
    )
    rows = StoredRows(directories[layout], tokenizer=TOKENIZER)
    batches = list(rows.in_order(50))
    assert examples_of(batches) == expected and len(rows.counts) >= 3
    assert load_manifest(str(directories[layout])).examples == len(expected)
    assert sum(len(batch["token_ids"]) for batch in batches) == len(rows)
    for batch in batches:
        np.testing.assert_array_equal(batch["token_ids"][batch["padding_mask"] == 0], TOKENIZER.pad_id)
    if layout == "padded":
        assert len(rows) == len(expected)
    else:
        assert len(rows) < 0.95 * len(expected)
        for row, starts in enumerate(batches[0]["example_starts"]):
            there = batches[0]["next_sentence_weight"][row] > 0
            assert there.sum() == batches[0]["padding_mask"][row].max()
            assert (batches[0]["token_ids"][row][starts[there]] == TOKENIZER.cls_id).all()


def test_rows_fill_first_fit_in_windows():
    sizes = np.random.default_rng(0).integers(3, 32, 1500)
    row, slot, start = fill_rows(sizes, length=32, max_examples=3)
    for number in range(row.max() + 1):
        mine = np.flatnonzero(row == number)
        mine = mine[np.argsort(slot[mine])]
        assert 1 <= len(mine) <= 3 and sizes[mine].sum() <= 32 and (mine // 512 == mine[0] // 512).all()
        assert start[mine].tolist() == [0, *np.cumsum(sizes[mine])[:-1].tolist()]
    assert sizes.sum() / (32 * (row.max() + 1)) > 0.9


def test_large_vocabularies_have_wider_records():
    small, large = (row_dtype("padded", sequence_length=128, vocabulary_size=size) for size in (1 << 16, 1 << 17))
    assert (large.itemsize - small.itemsize) == 2 * 128 and small["tokens"].base == np.uint16


def test_the_layout_is_part_of_a_directory(directories, tmp_path):
    with pytest.raises(CorpusError, match=r"layout='packed', rows for pretrain alone, expected 'examples'"):
        read_examples(directories["packed"])
    with pytest.raises(ValueError, match=r"layout='square'; pass one of 'examples', 'padded', 'packed'"):
        write_examples(tmp_path / "x.txt", tmp_path / "out", TOKENIZER, layout="square")
    with pytest.raises(ValueError, match=r"layout='packed'; it needs a plan with packed=True"):
        training_batches(directories["packed"], CONFIG, TOKENIZER, PLAN)
    with pytest.raises(ValueError, match=r"a tf.data service reads layout='examples' alone"):
        training_batches(directories["padded"], CONFIG, TOKENIZER, replace(PLAN, service="grpc://here:1"))
    text = directories["padded"].parent / "examples.txt"
    for layout, there in (("padded", "examples"), ("examples", "packed")):
        with pytest.raises(CorpusError, match=f"layout: '{there}' there, '{layout}' asked for"):
            write_examples(text, directories[there], TOKENIZER, sequence_length=32, shard_bytes=10_000, layout=layout)
    assert [layout_there(directories[name]) for name in ("examples", "packed")] == ["examples", "packed"]
    assert layout_there(tmp_path) is None
    # A directory of an earlier version names no layout, and none is written where it is the old one.
    assert "layout" not in json.loads((directories["examples"] / "manifest.json").read_text())["settings"]


# === Order ===


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_pass_has_all_rows_in_another_order(directories, layout, monkeypatch):
    monkeypatch.setattr("keras_bert.pretraining.rows.reading._CHUNK", 5)
    monkeypatch.setattr("keras_bert.pretraining.rows.reading._WINDOW", 4)
    rows = StoredRows(directories[layout])
    everything = examples_of(rows.in_order(1000))
    stream = rows.batches(len(rows), seed=3)
    first, second = next(stream), next(stream)
    assert examples_of([first]) == examples_of([second]) == everything
    assert not same(first, second) and not same(first, next(rows.batches(len(rows), seed=4)))
    assert same(first, next(rows.batches(len(rows), seed=3)))
    moved = np.abs(np.argsort(first["token_ids"][:, 1], kind="stable") - np.arange(len(rows)))
    assert moved.mean() > len(rows) / 8


@pytest.mark.parametrize("size", [7, 64, 1000])
def test_a_later_step_is_found_without_those_before(directories, size, monkeypatch):
    monkeypatch.setattr("keras_bert.pretraining.rows.reading._CHUNK", 5)
    monkeypatch.setattr("keras_bert.pretraining.rows.reading._WINDOW", 4)
    rows = StoredRows(directories["padded"])
    stream = rows.batches(size, seed=1)
    every = [next(stream) for _ in range(3 * len(rows) // size + 3)]
    for step in {0, 1, len(rows) // size, len(rows) // size + 1, len(every) - 1}:
        assert same(next(rows.batches(size, seed=1, start=step)), every[step])


# === Masks ===


def keyed_rows(layout, directories, rows=200, rate=0.3):
    return with_keys(next(StoredRows(directories[layout]).batches(rows, seed=1)), seed=5, step=9, rate=rate)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_host_and_device_mask_the_same_bits(directories, layout, unit):
    batch, masking = keyed_rows(layout, directories), Masking.for_tokenizer(TOKENIZER, max_predictions=9, unit=unit)
    host = mask_rows(batch, masking)
    for compiled in (True, False):
        device = tf.function(lambda rows: mask_rows(rows, masking), jit_compile=compiled)
        found = {name: value.numpy() for name, value in device(dict(batch)).items()}
        assert {name: value.dtype for name, value in found.items()} == {name: v.dtype for name, v in host.items()}
        assert same(found, host)


def test_a_row_has_its_masks_wherever_it_is(directories):
    batch, masking = keyed_rows("padded", directories), Masking.for_tokenizer(TOKENIZER, max_predictions=9)
    whole = mask_rows(batch, masking)
    part = mask_rows({name: values[40:60] for name, values in batch.items()}, masking)
    assert same(part, {name: values[40:60] for name, values in whole.items()})


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_rates_and_labels(directories, unit):
    tokenizer_masking = Masking.for_tokenizer(TOKENIZER, max_predictions=16, unit=unit)
    before = next(StoredRows(directories["padded"]).batches(2000, seed=1))
    masked = mask_rows(with_keys(before, seed=5, step=9, rate=0.25), tokenizer_masking)
    there = masked["masked_weights"] > 0
    rows = np.nonzero(there)[0]
    places, ids = masked["masked_positions"][there], masked["masked_ids"][there]
    np.testing.assert_array_equal(before["token_ids"][rows, places], ids)
    candidates = (before["padding_mask"] > 0) & ~np.isin(before["token_ids"], tokenizer_masking.special_ids)
    assert candidates[rows, places].all() and there.any(axis=1).all()
    assert there.sum() / candidates.sum() == pytest.approx(0.25, abs=0.01)
    now = masked["token_ids"][rows, places]
    assert np.mean(now == TOKENIZER.mask_id) == pytest.approx(0.8, abs=0.02)
    assert np.mean(now == ids) == pytest.approx(0.1 + 0.1 / 41, abs=0.02)
    chance = now[(now != ids) & (now != TOKENIZER.mask_id)]
    ordinary = sorted(set(range(TOKENIZER.vocabulary_size)) - set(tokenizer_masking.special_ids))
    assert sorted(set(chance.tolist())) == ordinary
    assert np.bincount(chance).max() < 3 * len(chance) / len(ordinary)
    untouched = np.ones_like(candidates)
    untouched[rows, places] = False
    np.testing.assert_array_equal(masked["token_ids"][untouched], before["token_ids"][untouched])
    assert (
        np.sort(masked["masked_positions"] + 100 * ~there, axis=1) == masked["masked_positions"] + 100 * ~there
    ).all()


def test_keys_differ_by_seed_step_and_row():
    keys = np.concatenate([row_keys(seed, step, 500) for seed in (0, 1, 2) for step in (0, 1, 7, 1 << 30)])
    assert keys.min() >= 0 and len(np.unique(keys, axis=0)) == len(keys)
    # Each bit is as often 1 as 0, and neighbours share half of their bits.
    bits = keys[:, :, None] >> np.arange(31) & 1
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.03
    assert np.abs((bits[1:] ^ bits[:-1]).mean(axis=0) - 0.5).max() < 0.03


def test_the_hash_is_the_same_on_the_backend():
    numbers = np.random.default_rng(0).integers(0, 1 << 32, 1000).astype("uint32")
    found = keras.ops.convert_to_numpy(scramble(keras.ops.convert_to_tensor(numbers)))
    np.testing.assert_array_equal(found, numbers_of(numbers))
    assert scramble(np.array([1, 2], "uint32")).tolist() == [1753845952, 3507691905]


def numbers_of(numbers):
    """The hash in Python's integers."""
    found = []
    for x in numbers.tolist():
        x = (x ^ x >> 16) * 0x7FEB352D & 0xFFFFFFFF
        x = (x ^ x >> 15) * 0x846CA68B & 0xFFFFFFFF
        found.append(x ^ x >> 16)
    return found


# === Runs ===


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_from_a_later_step_are_those_of_the_whole(directories, layout):
    plan = replace(PLAN, packed=layout == "packed")
    whole = list(training_batches(directories[layout], CONFIG, TOKENIZER, plan).take(40))
    later = next(iter(training_batches(directories[layout], CONFIG, TOKENIZER, plan, start=31)))
    tf.nest.map_structure(np.testing.assert_array_equal, whole[31], later)
    share = [float(batch[2]["mlm_logits"].numpy().sum()) for batch in whole]
    assert np.mean(share[:5]) > 1.3 * np.mean(share[-5:])  # the rate falls


@pytest.mark.parametrize("layout", LAYOUTS)
def test_validation_counts_and_unmasked_rows(directories, layout):
    plan = replace(PLAN, packed=layout == "packed", validation_steps=None)
    batches = list(validation_batches(directories[layout], CONFIG, TOKENIZER, plan))
    stored = StoredRows(directories[layout])
    assert sum(len(inputs["token_ids"]) for inputs, *_ in batches) == len(stored)
    np.testing.assert_array_equal(
        token_counts(directories[layout], TOKENIZER), token_counts(directories["examples"], TOKENIZER)
    )
    for shuffle in (True, False):
        rows = unmasked_rows(directories[layout], CONFIG, TOKENIZER, plan, 24, shuffle=shuffle)
        assert all(batch["token_ids"].shape == (24, 32) for batch in rows.take(2 + len(stored) // 24))


@pytest.fixture
def without_xla(monkeypatch):
    """For runs of a few steps, most of whose time XLA would compile."""
    from keras_bert.training.devices import Devices

    options = Devices.compile_options
    monkeypatch.setattr(Devices, "compile_options", lambda *a, **k: {**options(*a, **k), "jit_compile": False})


def test_a_step_that_masks_is_that_of_masked_batches(directories, tmp_path, without_xla, monkeypatch):
    plan = replace(PLAN, steps=4, save_every=2, packed=True)
    examples, settings = directories["packed"], (CONFIG, TOKENIZER, plan)
    inside = pretrain(examples, tmp_path / "inside", *settings, validation=examples, verbose=0)
    assert np.isfinite(inside["val_loss"]).all() and inside["tokens"][0] > 16 * 20
    # Stopped after two steps, and gone on with masks from outside.
    shutil.rmtree(tmp_path / "inside" / "state" / "step-000000004")
    monkeypatch.setattr("keras_bert.pretraining.run.masks_on_devices", lambda examples: False)
    outside = pretrain(examples, tmp_path / "inside", *settings, validation=examples, verbose=0)
    assert outside["loss"][-1] == inside["loss"][-1] and outside["val_loss"][-1] == inside["val_loss"][-1]


@pytest.mark.slow
def test_killed_it_goes_on_with_the_masks_that_it_would_have_had(directories, tmp_path):
    words = [directories["packed"], tmp_path / "killed", directories["packed"]]
    killed = start("pretraining_run.py", *words)
    while not list(tmp_path.glob("killed/state/step-*")) and killed.poll() is None:
        time.sleep(0.01)
    killed.kill()
    killed.communicate()
    assert not (tmp_path / "killed" / "model").exists()
    finish(start("pretraining_run.py", *words), timeout=900)
    finish(start("pretraining_run.py", words[0], tmp_path / "whole", words[2]), timeout=900)
    ours, expected = (read_history(tmp_path / name / "history.jsonl") for name in ("killed", "whole"))
    for name in set(expected) - {"seconds", "tokens_per_second"}:
        assert ours[name] == expected[name], name


def test_a_nan_leaves_masked_batches(directories, tmp_path, without_xla, monkeypatch):
    monkeypatch.setattr("keras_bert.pretraining.model.bert_optimizer", lambda *a, **k: keras.optimizers.SGD(1e38))
    with pytest.raises(FloatingPointError, match="nan-batches"):
        pretrain(directories["padded"], tmp_path, CONFIG, TOKENIZER, replace(PLAN, steps=4, save_every=2), verbose=0)
    arrays = np.load(tmp_path / "nan-batches.npz")
    assert arrays["mlm_logits"].shape[-1] == arrays["masked_positions"].shape[-1]
    assert (arrays["token_ids"] == TOKENIZER.mask_id).any()
