"""What holds for every input, asked of inputs that nobody thought of: text, tags, rows and reports."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_bert.batching.shared_rows import packed_batches, packed_shape
from keras_bert.decoding.tags import span_tags, tag_spans
from keras_bert.evaluation.reports import classification_report
from keras_bert.pretraining.masking import Masking
from keras_bert.tasks.tagging.schemes import SCHEMES, breaks_scheme, convert_tags
from keras_bert.text.tokenized_texts import tokenize_texts
from keras_bert.text.tokenizer import BertTokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-"
TOKENIZER = BertTokenizer(
    [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *LETTERS,
        *(f"##{letter}" for letter in LETTERS),
        "un",
        "##able",
        "the",
    ]
)
# All of Unicode but surrogates, and often what a tokenizer finds hard.
TEXTS = st.text(st.one_of(st.characters(exclude_categories=("Cs",)), st.sampled_from(LETTERS + " \t\n\u00a0é中ß[]#")))
often = settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
seldom = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


# === Text ===


@often
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_offsets_cut_the_user_s_own_text(texts):
    ids, starts, ends = TOKENIZER.tokenize_with_offsets(texts)
    for text, tokens, begins, stops in zip(texts, ids.to_list(), starts.to_list(), ends.to_list(), strict=True):
        assert len(tokens) == len(begins) == len(stops)
        assert all(0 <= begin <= stop <= len(text) for begin, stop in zip(begins, stops, strict=True))
        assert begins == sorted(begins) and stops == sorted(stops)
        pieces = [text[begin:stop] for begin, stop in zip(begins, stops, strict=True)]
        for piece, token in zip(pieces, tokens, strict=True):
            name = TOKENIZER.id_to_token(token).removeprefix("##")
            if piece.isascii() and token != TOKENIZER.unk_id and piece.isprintable():
                assert piece.lower() == name, (text, piece, name)


@often
@given(TEXTS)
def test_what_is_decoded_is_encoded_to_the_same_ids(text):
    ids = TOKENIZER(text).numpy()
    if TOKENIZER.unk_id not in ids:
        again = TOKENIZER(TOKENIZER.detokenize(ids).numpy().decode()).numpy()
        np.testing.assert_array_equal(again, ids)


@often
@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_a_text_has_the_same_ids_alone_and_in_a_batch(texts):
    batch = TOKENIZER(texts).to_list()
    assert batch == [TOKENIZER(text).numpy().tolist() for text in texts]


# === Rows ===


@seldom
@given(st.lists(st.integers(0, 20), min_size=1, max_size=30), st.integers(1, 8), st.integers(0, 100))
def test_shared_rows_lose_no_token(sizes, batch_size, seed):
    tokenized = tokenize_texts(TOKENIZER, ["the " * size for size in sizes])
    shape = packed_shape(tokenized.lengths, batch_size=batch_size)
    labels = np.arange(len(sizes))
    found, seen = 0, []
    for inputs, numbers, weights in packed_batches(tokenized, labels, batch_size=batch_size, shape=shape, seed=seed):
        mask = inputs["padding_mask"].numpy()
        found += int((mask > 0).sum())
        starts = inputs["example_starts"].numpy()[weights.numpy() > 0]
        kept = numbers.numpy()[weights.numpy() > 0]
        for start, number in zip(starts, kept, strict=True):
            text = mask.ravel()[start]
            assert int((mask == text).sum()) == tokenized.lengths[number]
        seen += kept.tolist()
    assert sorted(seen) == labels.tolist() and found == tokenized.lengths.sum()


@seldom
@given(st.integers(20, 60), st.floats(0.05, 0.5), st.sampled_from(["token", "word", "span"]), st.integers(0, 2**31 - 1))
def test_masking_keeps_its_rate_and_leaves_special_tokens(length, rate, unit, seed):
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, TOKENIZER.vocabulary_size, (64, length)).astype("int32")
    ids[:, 0], ids[:, -1] = TOKENIZER.cls_id, TOKENIZER.sep_id
    batch = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": np.ones_like(ids)}
    masking = Masking.for_tokenizer(TOKENIZER, max_predictions=length, rate=rate, unit=unit)
    masked = masking({name: tf.constant(value) for name, value in batch.items()}, seed=(seed, 1))
    weights, places = masked["masked_weights"].numpy(), masked["masked_positions"].numpy()
    assert weights.sum() / (64 * (length - 2)) == pytest.approx(rate, abs=0.06)
    chosen = weights > 0
    assert not np.isin(places[chosen], (0, length - 1)).any()
    np.testing.assert_array_equal(masked["masked_ids"].numpy()[chosen], np.take_along_axis(ids, places, 1)[chosen])
    untouched = np.ones_like(ids, bool)
    np.put_along_axis(untouched, np.where(chosen, places, 0), False, 1)
    np.testing.assert_array_equal(masked["token_ids"].numpy()[untouched], ids[untouched])


# === Entities and reports ===


@st.composite
def spans_of_words(draw):
    """Entities side by side in a sentence, as `(kind, begin, end)`, and its number of words."""
    place, spans = 0, []
    for _ in range(draw(st.integers(0, 6))):
        begin = place + draw(st.integers(0, 3))
        place = begin + draw(st.integers(1, 4))
        spans.append((draw(st.sampled_from(["PER", "LOC", "a-b", "人", "B"])), begin, place))
    return spans, place + draw(st.integers(0, 3))


@often
@given(spans_of_words(), st.sampled_from(SCHEMES), st.sampled_from(SCHEMES))
def test_tags_and_entities_are_each_other_s_inverse(made, scheme, other):
    spans, words = made
    tags = span_tags(spans, words, scheme)
    assert len(tags) == words and not breaks_scheme(tags, scheme)
    assert tag_spans(convert_tags(tags, other)) == spans
    if scheme != "IOB1":  # whose tags cannot be told from BIO's by one sentence
        assert tag_spans(tags) == spans


@often
@given(st.lists(st.tuples(st.sampled_from("abcß"), st.sampled_from("abcß")), min_size=1, max_size=40))
def test_counts_of_a_report_add_up(rows):
    labels, predictions = map(list, zip(*rows, strict=True))
    report = classification_report(labels, predictions, names=list("abcß"))
    matrix = np.array(report.confusion)
    assert matrix.sum() == report.count == len(rows)
    assert [scores.support for scores in report.classes] == matrix.sum(axis=1).tolist()
    assert report.accuracy == pytest.approx(np.trace(matrix) / len(rows))
