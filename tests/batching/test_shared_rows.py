"""Full rows: every text once, nothing mixed up, and the same numbers as one text a row."""

from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_models import TINY

from keras_bert.batching.length_buckets import bucketed_batches
from keras_bert.batching.shared_rows import PackedShape, packed_batches, packed_shape
from keras_bert.model.encoder import bert_encoder, with_example_starts
from keras_bert.model.heads import bert_model
from keras_bert.model.weights import copy_weights
from keras_bert.text.tokenized_texts import TokenizedTexts


def random_texts(count, *, pairs=False, mean=4, longest=14, seed=0):
    random = np.random.default_rng(seed)

    def side():
        lengths = np.minimum(random.geometric(1 / mean, count), longest)
        splits = np.concatenate([[0], np.cumsum(lengths)])
        return random.integers(5, TINY.vocabulary_size, splits[-1]).astype(np.int32), splits

    return TokenizedTexts(*side(), *(side() if pairs else ()))


def batches_of(tokenized, labels=None, *, batch_size=8, epoch=0, epochs=1, **options):
    labels = np.arange(len(tokenized)) if labels is None else labels
    shape = packed_shape(tokenized.lengths, batch_size=batch_size)
    return list(
        packed_batches(
            tokenized, labels, batch_size=batch_size, shape=shape, seed=3, epoch=epoch, epochs=epochs, **options
        )
    )


def texts_of(inputs, weights):
    """The ids and segments of each text, read back out of the rows."""
    ids, segments, numbers = (np.ravel(inputs[key]) for key in ("token_ids", "segment_ids", "padding_mask"))
    for index in np.flatnonzero(weights):
        places = np.flatnonzero(numbers == index + 1)
        assert places[0] == inputs["example_starts"][index]
        assert np.array_equal(places, np.arange(places[0], places[-1] + 1))  # side by side, in one row
        assert places[0] // inputs["token_ids"].shape[1] == places[-1] // inputs["token_ids"].shape[1]
        yield index, ids[places], segments[places]


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("count", [3, 64, 101])
def test_every_text_is_in_a_row_once_and_whole(count, pairs):
    tokenized = random_texts(count, pairs=pairs)
    ids, splits, second = tokenized.packed()
    seen = []
    for inputs, labels, weights in batches_of(tokenized):
        for index, tokens, segments in texts_of(inputs, weights.numpy()):
            owner = int(labels[index])
            np.testing.assert_array_equal(tokens, ids[splits[owner] : splits[owner + 1]])
            np.testing.assert_array_equal(segments, np.arange(len(tokens)) >= second[owner])
            seen.append(owner)
        assert np.count_nonzero(inputs["padding_mask"]) == sum(tokenized.lengths[seen[-int(sum(weights)) :]])
    assert sorted(seen) == list(range(count))


def test_an_epoch_is_a_function_of_its_number_and_batches_differ_between_epochs():
    tokenized = random_texts(64)
    both, second = batches_of(tokenized, epochs=2), batches_of(tokenized, epoch=1)
    assert len(both) == 16
    for (inputs, labels, _), (again, same, _) in zip(both[8:], second, strict=True):
        np.testing.assert_array_equal(inputs["token_ids"], again["token_ids"])
        np.testing.assert_array_equal(labels, same)
    first_epoch = {frozenset(labels.numpy().tolist()) for _, labels, _ in both[:8]}
    assert not first_epoch & {frozenset(labels.numpy().tolist()) for _, labels, _ in both[8:]}


def test_batches_are_equally_large_and_nearly_full():
    tokenized = random_texts(4_000, mean=12, longest=60)
    data = batches_of(tokenized, batch_size=32)
    shapes = {tuple(inputs["token_ids"].shape) for inputs, *_ in data}
    assert len(shapes) == 1
    places = len(data) * np.prod(next(iter(shapes)))
    assert tokenized.lengths.sum() / places > 0.95


def test_texts_that_do_not_divide_evenly_are_shared_out():
    sizes = [int(np.count_nonzero(weights)) for *_, weights in batches_of(random_texts(33), batch_size=32)]
    assert sorted(sizes) == [16, 17]


def test_weights_go_with_their_texts():
    tokenized = random_texts(20)
    for _, labels, weights in batches_of(tokenized, sample_weights=np.arange(20) + 1.0):
        real = weights.numpy() > 0
        np.testing.assert_array_equal(weights.numpy()[real], labels.numpy()[real] + 1)


def test_a_batch_that_does_not_fit_gets_more_rows():
    tokenized = random_texts(16)
    (batch,) = packed_batches(
        tokenized, np.arange(16), batch_size=16, shape=PackedShape(1, int(tokenized.lengths.max())), seed=0
    )
    assert batch[0]["token_ids"].shape[0] > 1
    assert len(list(texts_of(batch[0], batch[2].numpy()))) == 16


def test_outputs_equal_those_of_one_text_a_row():
    tokenized = random_texts(24, pairs=True, longest=4)
    plain = bert_model(TINY, "classification", num_classes=3, seed=1)
    encoder = with_example_starts(bert_encoder(TINY, packed=True))
    packed = bert_model(None, "classification", num_classes=3, encoder=encoder)
    copy_weights(plain, packed)
    expected = np.zeros((24, 3), "float32")
    widths = (int(tokenized.lengths.max()),)
    for inputs, labels in bucketed_batches(tokenized, np.arange(24), batch_size=8, boundaries=widths):
        expected[labels] = plain(inputs)["class_logits"]
    for inputs, labels, _ in batches_of(tokenized):
        np.testing.assert_allclose(packed(inputs)["class_logits"], expected[labels.numpy()], atol=1e-5)


def test_a_step_learns_the_same_as_with_one_text_a_row():
    """Loss and gradients, weights of the texts included; without dropout, whose masks depend on the place."""
    tokenized, weights = random_texts(7, longest=8), np.arange(7) / 7
    config = TINY.replace(dropout=0.0, attention_dropout=0.0)
    plain = bert_model(config, "classification", num_classes=3, seed=1)
    encoder = with_example_starts(bert_encoder(config, packed=True))
    packed = bert_model(None, "classification", num_classes=3, encoder=encoder)
    copy_weights(plain, packed)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
    labels, found = np.arange(7) % 3, []
    (side_by_side,) = batches_of(tokenized, labels, sample_weights=weights)
    one_a_row = next(iter(bucketed_batches(tokenized, labels, batch_size=7, boundaries=(12,), sample_weights=weights)))
    for model, (inputs, targets, counted) in ((plain, one_a_row), (packed, side_by_side)):
        with tf.GradientTape() as tape:
            value = loss(targets, model(inputs, training=True)["class_logits"], counted)
        gradients = tape.gradient(value, [weight.value for weight in model.trainable_variables])
        paths = [weight.path for weight in model.trainable_variables]
        found.append((value, dict(zip(paths, map(tf.convert_to_tensor, gradients), strict=True))))
    (expected, ours), (value, theirs) = found
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert ours.keys() == theirs.keys()
    for path in ours:
        np.testing.assert_allclose(theirs[path], ours[path], atol=1e-5, err_msg=path)


def test_renumbered_ids_with_their_rows_of_the_table_give_the_same_outputs():
    tokenized = random_texts(6)
    ids = tokenized.used_ids()
    assert len(ids) < TINY.vocabulary_size
    whole = bert_model(TINY, "classification", num_classes=2, seed=1)
    small = bert_model(TINY.replace(vocabulary_size=len(ids)), "classification", num_classes=2)
    copy_weights(whole, small, table_rows=ids)
    options = {"batch_size": 6, "boundaries": (int(tokenized.lengths.max()),)}
    (inputs,), (fewer,) = bucketed_batches(tokenized, **options), bucketed_batches(tokenized.renumbered(ids), **options)
    np.testing.assert_array_equal(ids[fewer["token_ids"]], inputs["token_ids"])
    np.testing.assert_allclose(small(fewer)["class_logits"], whole(inputs)["class_logits"], atol=1e-6)
    small.get_layer("token_embedding").embeddings.assign_add(np.ones((len(ids), TINY.table_dim)))
    before = whole.get_layer("token_embedding").embeddings.numpy()
    copy_weights(small, whole, table_rows=ids)
    moved = whole.get_layer("token_embedding").embeddings.numpy() - before
    np.testing.assert_allclose(moved[ids], 1.0, atol=1e-6)
    assert not np.delete(moved, ids, axis=0).any()


def test_a_few_long_texts_do_not_make_all_batches_wide():
    """Of 125 batches ten have a text of 120 tokens; the others must not be as large as those."""
    lengths = np.r_[np.full(1_990, 20), np.full(10, 120)]
    splits = np.concatenate([[0], np.cumsum(lengths - 2)])
    tokenized = TokenizedTexts(np.full(splits[-1], 7, np.int32), splits)
    np.testing.assert_array_equal(tokenized.lengths, lengths)
    data = batches_of(tokenized, batch_size=16)
    shapes = Counter(tuple(inputs["token_ids"].shape) for inputs, *_ in data)
    places = sum(number * rows * width for (rows, width), number in shapes.items())
    assert len(shapes) == 2 and lengths.sum() / places > 0.88  # one shape for all is at most 0.78 full
    assert sum(float(np.sum(weights)) for *_, weights in data) == 2_000


def test_bad_input_is_refused():
    tokenized = random_texts(4)
    with pytest.raises(ValueError, match="packed_shape"):
        packed_batches(tokenized, np.arange(4), batch_size=2, shape=PackedShape(1, 3), seed=0)
    with pytest.raises(ValueError, match="batch_size=0"):
        packed_shape(tokenized.lengths, batch_size=0)
    with pytest.raises(ValueError, match="labels have shape"):
        batches_of(tokenized, np.arange(3))
    with pytest.raises(ValueError, match="packed=True"):
        with_example_starts(bert_encoder(TINY))


# === Groups ===


@pytest.mark.parametrize(("group", "count"), [(2, 31), (3, 8), (4, 17)])
def test_groups_stay_together_and_in_order(group, count):
    tokenized = random_texts(count * group, pairs=True)
    ids, splits, _ = tokenized.packed()
    shape = packed_shape(tokenized.lengths, batch_size=5, group=group)
    weights = np.arange(count) + 1.0
    data = list(
        packed_batches(
            tokenized, np.arange(count), batch_size=5, shape=shape, seed=3, group=group, sample_weights=weights
        )
    )
    assert len(data) == -(-count // 5)
    seen = []
    for inputs, labels, counted in data:
        assert inputs["example_starts"].shape == (5 * group,) and labels.shape == counted.shape == (5,)
        real = np.repeat(counted.numpy() > 0, group)
        for index, tokens, _ in texts_of(inputs, real):
            owner = int(labels[index // group]) * group + index % group
            np.testing.assert_array_equal(tokens, ids[splits[owner] : splits[owner + 1]])
            seen.append(owner)
        np.testing.assert_array_equal(counted.numpy()[counted > 0], labels.numpy()[counted > 0] + 1)
        # Of a group that is not there, nothing is in the rows.
        absent = 1 + np.flatnonzero(~real)
        assert not np.isin(inputs["padding_mask"], absent).any()
    assert sorted(seen) == list(range(count * group))


def test_groups_balance_by_their_length_and_fill_the_rows():
    tokenized = random_texts(4_000, mean=12, longest=60)
    shape = packed_shape(tokenized.lengths, batch_size=16, group=4)
    data = list(packed_batches(tokenized, np.arange(1_000), batch_size=16, shape=shape, seed=0, group=4))
    places = sum(int(np.prod(inputs["token_ids"].shape)) for inputs, *_ in data)
    assert tokenized.lengths.sum() / places > 0.9


def test_bad_groups_are_refused():
    tokenized = random_texts(5)
    with pytest.raises(ValueError, match="5 texts and group=2: expected whole groups"):
        packed_shape(tokenized.lengths, batch_size=2, group=2)
    with pytest.raises(ValueError, match="labels have shape"):
        packed_batches(random_texts(4), np.arange(4), batch_size=2, shape=PackedShape(2, 20), seed=0, group=2)


def test_a_row_may_have_more_padding_than_the_model_has_positions():
    encoder = bert_encoder(TINY, packed=True)
    inputs = {"token_ids": np.array([[7, 8] + [0] * 20]), "segment_ids": np.zeros((1, 22), "int32")}
    inputs["padding_mask"] = np.array([[1, 1] + [0] * 20])
    assert TINY.max_sequence_length < 20
    assert np.isfinite(encoder(inputs)["sequence_output"]).all()


@pytest.mark.parametrize(("parts", "group", "count"), [(2, 1, 101), (4, 1, 64), (2, 3, 60)])
def test_each_device_has_the_rows_of_its_own_texts(parts, group, count):
    tokenized, examples = random_texts(count), count // group
    shape = packed_shape(tokenized.lengths, batch_size=8, group=group, parts=parts)
    assert shape.rows % parts == 0
    options = {"batch_size": 8, "shape": shape, "seed": 3, "group": group, "parts": parts}
    seen, shares = [], []
    for inputs, labels, weights in packed_batches(tokenized, np.arange(examples), **options):
        rows, width = inputs["token_ids"].shape
        assert rows % parts == 0
        of_text = inputs["example_starts"].numpy() // width // (rows // parts)  # the part that its row is in
        is_real = np.repeat(weights.numpy() > 0, group)
        expected = np.repeat(np.arange(parts), 8 * group // parts)
        np.testing.assert_array_equal(of_text[is_real], expected[is_real])
        seen += labels.numpy()[weights.numpy() > 0].tolist()
        shares.append([(part > 0).sum() for part in np.split(inputs["padding_mask"].numpy(), parts)])
    assert sorted(seen) == list(range(examples))  # every example once
    assert np.std(np.array(shares[:-1]) / np.sum(shares[:-1], axis=1, keepdims=True)) < 0.15  # about the same work
    with pytest.raises(
        ValueError, match="batch_size=9 does not divide among 2 devices; use a multiple of 2, such as 8"
    ):
        packed_shape(tokenized.lengths, batch_size=9, parts=2)


def test_batches_of_one_device_do_not_change_with_parts():
    tokenized = random_texts(40)
    one, two = (
        list(packed_batches(tokenized, np.arange(40), batch_size=8, seed=3, parts=parts, shape=PackedShape(8, 32)))
        for parts in (1, 2)
    )
    for (_, first, _), (_, second, _) in zip(one, two, strict=True):
        assert sorted(first.numpy()) == sorted(second.numpy())
