"""Bucketed batches hold every row once, as `pack` packs it, in few shapes, and train as plainly padded ones do."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_models import TINY

from keras_bert.batching.length_buckets import bucketed_batches, length_sorted_batches, restore_order, tokenize_texts
from keras_bert.batching.widths import bucket_boundaries, few_widths
from keras_bert.model.heads import bert_model
from keras_bert.text.packing import pack
from keras_bert.text.tokenizer import BertTokenizer

WORDS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
TOKENIZER = BertTokenizer(["[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]", *WORDS])
SEED = 3


def make_texts(count, longest=20, seed=SEED):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(0, longest + 1))) for _ in range(count)]


TEXTS, PAIRS = make_texts(101), make_texts(101, seed=4)


def assert_same_batch(ours, expected):
    for name, value in expected.items():
        assert ours[name].dtype == tf.int32
        np.testing.assert_array_equal(ours[name], value, err_msg=name)


# === TokenizedTexts ===


@pytest.mark.parametrize("pairs", [None, PAIRS])
@pytest.mark.parametrize("sequence_length", [5, 8, 13, 60])
def test_trimmed_rows_are_those_of_pack(pairs, sequence_length):
    tokenized, number_cut = tokenize_texts(TOKENIZER, TEXTS, pairs, batch=10).trimmed(sequence_length)
    expected = pack(TOKENIZER, TEXTS, pairs, sequence_length=sequence_length)
    whole = pack(TOKENIZER, TEXTS, pairs)["padding_mask"].numpy().sum(1)
    assert number_cut == np.sum(whole > sequence_length)
    (batch,) = bucketed_batches(tokenized, batch_size=len(TEXTS), boundaries=(sequence_length,))
    assert_same_batch(batch, expected)


def test_take_gives_the_rows_asked_for():
    taken = tokenize_texts(TOKENIZER, TEXTS, PAIRS).take([7, 3, 7])
    (batch,) = bucketed_batches(taken, batch_size=3, boundaries=(64,))
    rows = [7, 3, 7]
    texts, pairs = [TEXTS[row] for row in rows], [PAIRS[row] for row in rows]
    assert_same_batch(batch, pack(TOKENIZER, texts, pairs, sequence_length=64))


def doc_spans(length, room, stride):
    """The windows of the original BERT's run_squad.py."""
    spans, start = [], 0
    while start < length:
        size = min(length - start, room)
        spans.append((start, start + size))
        if start + size == length:
            break
        start += min(size, stride)
    return spans


@pytest.mark.parametrize("stride", [1, 3, 99])
def test_windows_are_those_of_the_original(stride):
    texts = [text for text in TEXTS if text]
    windows, owners = tokenize_texts(TOKENIZER, texts).windows(8, stride)
    expected = [
        (owner, text.split()[start:end])
        for owner, text in enumerate(texts)
        for start, end in doc_spans(len(text.split()), 6, stride)
    ]
    got = [TOKENIZER.vocabulary[index] for index in windows.first_ids]
    rows = [got[start:end] for start, end in itertools.pairwise(windows.first_splits)]
    assert list(zip(owners.tolist(), rows, strict=True)) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("a b", "c d e f g h", [("a b", "c d e f"), ("a b", "e f g h")]),
        ("a b c d e f g h", "z", [("a b c d e", "z"), ("c d e f g", "z"), ("e f g h", "z")]),
        ("a b c d", "w x y z", [("a b c", "w x y"), ("a b c", "y z"), ("c d", "w x y"), ("c d", "y z")]),
        ("a b c d", "", [("a b c d", "")]),
    ],
)
def test_windows_of_pairs_lose_no_token(first, second, expected):
    windows, owners = tokenize_texts(TOKENIZER, ["q", first], ["r", second]).windows(9, stride=2)
    whole = tokenize_texts(TOKENIZER, ["q", *(a for a, _ in expected)], ["r", *(b for _, b in expected)])
    assert owners.tolist() == [0] + [1] * len(expected)
    for name in ("first_ids", "first_splits", "second_ids", "second_splits"):
        np.testing.assert_array_equal(getattr(windows, name), getattr(whole, name), err_msg=name)


# === Widths ===


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_boundaries_are_the_best_of_all_choices(count):
    lengths = np.random.default_rng(SEED).gamma(2.0, 9.0, 300).astype(int) + 2
    candidates = sorted({min(-(-length // 6) * 6, 50) for length in lengths})

    def padded(boundaries):
        if boundaries[-1] < min(lengths.max(), 50):
            return np.inf
        return sum(next(width for width in boundaries if width >= min(length, 50)) for length in lengths)

    best = min(padded(choice) for choice in itertools.combinations(candidates, count))
    boundaries = bucket_boundaries(lengths, sequence_length=50, count=count, multiple_of=6)
    assert len(boundaries) == count
    assert padded(boundaries) == best


def test_a_width_must_be_worth_its_compilation():
    lengths = [8] * 100 + [16] * 10 + [64] * 10  # a second width saves 5600 tokens, a third 480
    chosen = {cost: bucket_boundaries(lengths, sequence_length=64, shape_cost=cost) for cost in (0, 479, 481, 5601)}
    assert chosen == {0: (8, 16, 64), 479: (8, 16, 64), 481: (8, 64), 5601: (64,)}


# === Training ===


def batches_of(**options):
    tokenized = tokenize_texts(TOKENIZER, TEXTS, PAIRS)
    boundaries = bucket_boundaries(tokenized.lengths, sequence_length=64, count=4)
    labels = np.arange(len(TEXTS))  # a row's label is its number
    settings = {"batch_size": 8, "boundaries": boundaries, "shuffle_seed": SEED} | options
    return bucketed_batches(tokenized, labels, **settings), boundaries


@pytest.mark.parametrize("seed", [None, 1])
def test_every_row_comes_once_as_pack_packs_it(seed):
    data, boundaries = batches_of(shuffle_seed=seed)
    seen, shapes = [], set()
    for inputs, labels in data:
        rows = labels.numpy().tolist()
        width = inputs["token_ids"].shape[1]
        texts, pairs = [TEXTS[row] for row in rows], [PAIRS[row] for row in rows]
        assert_same_batch(inputs, pack(TOKENIZER, texts, pairs, sequence_length=width))
        assert inputs["padding_mask"].numpy().sum(1).max() <= width
        seen += rows
        shapes.add(tuple(inputs["token_ids"].shape))
    assert sorted(seen) == list(range(len(TEXTS)))
    assert data.cardinality() == -(-len(TEXTS) // 8)
    # One shape for each bucket, and the short last batch in the widest.
    assert shapes == {(8, width) for width in boundaries} | {(len(TEXTS) % 8, boundaries[-1])}


def order_of(**options):
    return [labels.numpy().tolist() for _, labels, *_ in batches_of(**options)[0]]


def test_order_is_a_function_of_seed_and_epoch():
    assert order_of(epoch=2) == order_of(epoch=2)
    assert order_of(epoch=1) != order_of(epoch=2)
    assert order_of(shuffle_seed=1) != order_of(shuffle_seed=2)
    assert order_of(epoch=1, epochs=2) == order_of(epoch=1) + order_of(epoch=2)


def test_the_order_of_buckets_is_mixed():
    widths = [inputs["token_ids"].shape[1] for inputs, _ in batches_of()[0]][:-1]
    assert widths != sorted(widths)
    assert widths != sorted(widths, reverse=True)


def test_drop_remainder_drops_other_rows_in_each_epoch():
    kept = [itertools.chain(*order_of(epoch=epoch, drop_remainder=True)) for epoch in (0, 1)]
    dropped = [set(range(len(TEXTS))) - set(rows) for rows in kept]
    assert [len(rows) for rows in dropped] == [len(TEXTS) % 8] * 2
    assert dropped[0] != dropped[1]


def test_fillers_weigh_nothing_and_bring_no_new_shape():
    weights = np.linspace(0.5, 2.0, len(TEXTS)).astype("float32")
    data, boundaries = batches_of(fill_last=True, sample_weights=weights)
    assert data.element_spec[1].shape == (8,)
    found = np.zeros(len(TEXTS))
    for inputs, labels, weight in data:
        assert inputs["token_ids"].shape[1] in boundaries
        np.add.at(found, labels.numpy(), weight.numpy())
    np.testing.assert_allclose(found, weights)


def test_labels_may_be_several_columns():
    labels = {"intent": np.arange(101), "scores": np.ones((101, 3))}
    data = bucketed_batches(tokenize_texts(TOKENIZER, TEXTS), labels, batch_size=101, boundaries=(24,))
    ((_, got),) = data
    np.testing.assert_array_equal(got["intent"], labels["intent"])
    assert got["scores"].shape == (101, 3)


@pytest.fixture(scope="module")
def loss_and_gradients():
    config = TINY.replace(max_sequence_length=128, dropout=0.0, attention_dropout=0.0)
    model = bert_model(config, "classification", num_classes=3, seed=1)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
    ids = {name: tf.TensorSpec([None, None], tf.int32) for name in ("token_ids", "segment_ids", "padding_mask")}

    @tf.function(input_signature=[ids, tf.TensorSpec([None], tf.int64), tf.TensorSpec([None])])
    def compute(inputs, labels, weights):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(inputs)["class_logits"], weights)
        gradients = tape.gradient(loss, model.trainable_variables)
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]

    return compute


@pytest.mark.parametrize("fill_last", [False, True])
def test_loss_and_gradients_equal_those_of_rows_padded_to_128(loss_and_gradients, fill_last):
    data, _ = batches_of(fill_last=fill_last, batch_size=24)
    for inputs, rows, *weights in data:
        weights = weights[0] if weights else tf.ones(len(rows))
        real = rows.numpy()[weights.numpy() > 0]
        plain = pack(TOKENIZER, [TEXTS[row] for row in real], [PAIRS[row] for row in real], sequence_length=128)
        expected, expected_gradients = loss_and_gradients(plain, tf.constant(real % 3), tf.ones(len(real)))
        loss, gradients = loss_and_gradients(inputs, rows % 3, weights)
        np.testing.assert_allclose(loss, expected, atol=1e-5, rtol=0)
        for ours, theirs in zip(gradients, expected_gradients, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=0)


def test_fit_traces_one_graph_for_all_shapes():
    traces = []

    def loss(labels, logits):
        traces.append(logits.shape)
        return keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)

    config = TINY.replace(max_sequence_length=64, num_layers=1, dropout=0.0)
    model = bert_model(config, "classification", num_classes=101, seed=1)
    model.compile("sgd", {"class_logits": loss}, jit_compile=False)
    data, _ = batches_of(epochs=2, batch_size=24, boundaries=(32, 48))
    model.fit(data.take(1), shuffle=False, verbose=0)
    traces.clear()
    history = model.fit(data, epochs=2, steps_per_epoch=5, shuffle=False, verbose=0).history["loss"]
    assert traces == []  # XLA would compile this one graph for each shape
    assert history[1] < history[0]


# === Prediction ===


@pytest.mark.parametrize("fill_last", [False, True])
def test_outputs_come_back_in_the_order_of_the_texts(fill_last):
    tokenized = tokenize_texts(TOKENIZER, TEXTS)
    boundaries = bucket_boundaries(tokenized.lengths, sequence_length=64, count=3)
    batches, order = length_sorted_batches(tokenized, batch_size=8, boundaries=boundaries, fill_last=fill_last)
    outputs = np.concatenate([inputs["padding_mask"].numpy().sum(1) for inputs in batches])
    np.testing.assert_array_equal(restore_order(outputs, order), tokenized.lengths)
    shapes = {tuple(inputs["token_ids"].shape) for inputs in batches}
    assert {rows for rows, _ in shapes} == ({8} if fill_last else {8, len(TEXTS) % 8})
    assert {width for _, width in shapes} <= set(boundaries)


# === Bad input ===


TOKENIZED = tokenize_texts(TOKENIZER, ["a b c", "a"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tokenize_texts(TOKENIZER, "a b"), "Got one string as texts"),
        (lambda: tokenize_texts(TOKENIZER, ["a"], ["b", "c"]), "Got 1 texts and 2 pairs"),
        (lambda: tokenize_texts(TOKENIZER, [["a"]]), "texts have 2 dimensions"),
        (lambda: TOKENIZED.trimmed(2), "sequence_length=2 has no room"),
        (lambda: TOKENIZED.windows(8, 0), "stride=0"),
        (lambda: bucket_boundaries([], sequence_length=8), "Got no lengths"),
        (lambda: bucket_boundaries([3], sequence_length=8, count=0), "count=0"),
        (lambda: bucketed_batches(TOKENIZED, batch_size=2, boundaries=(4,)), "Row 0 has 5 tokens"),
        (lambda: bucketed_batches(TOKENIZED, batch_size=2, boundaries=(8, 4)), "expected ascending widths"),
        (lambda: bucketed_batches(TOKENIZED, batch_size=0, boundaries=(8,)), "batch_size=0"),
        (lambda: bucketed_batches(TOKENIZED, [1], batch_size=2, boundaries=(8,)), r"labels have shape \(1,\)"),
        (lambda: bucketed_batches(TOKENIZED, batch_size=2, boundaries=(8,), fill_last=True), "without labels"),
        (lambda: bucketed_batches(TOKENIZED, batch_size=3, boundaries=(8,), drop_remainder=True), "leaves none of 2"),
        (lambda: bucketed_batches(TOKENIZED.take([]), batch_size=3, boundaries=(8,)), "There are no texts"),
        (lambda: restore_order(np.zeros(3), np.zeros(2)), "3 outputs for 2 rows"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_the_same_batches_in_fewer_shapes():
    texts = ["a " * count for count in (1, 2, 3, 5, 8, 9, 12, 13, 20, 21, 27, 28)]
    tokenized = tokenize_texts(TOKENIZER, texts)
    options = {"batch_size": 2, "boundaries": bucket_boundaries(tokenized.lengths, sequence_length=32)}
    labels, few = np.arange(len(texts)), few_widths(tokenized.lengths, sequence_length=32)
    plain, padded = (
        list(bucketed_batches(tokenized, labels, shuffle_seed=1, padded_to=widths, **options)) for widths in (None, few)
    )
    assert len(few) <= 2 < len({inputs["token_ids"].shape[1] for inputs, _ in plain})
    assert {inputs["token_ids"].shape[1] for inputs, _ in padded} == set(few)
    for (ours, first), (theirs, second) in zip(plain, padded, strict=True):
        assert first.numpy().tolist() == second.numpy().tolist()
        width = ours["token_ids"].shape[1]
        np.testing.assert_array_equal(ours["token_ids"], theirs["token_ids"][:, :width])
        assert not np.any(theirs["padding_mask"][:, width:])
