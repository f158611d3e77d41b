"""What holds for every input, asked of inputs that nobody thought of: text, tags, rows and reports."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_unigram import LETTERS as UNIGRAM_LETTERS
from tiny_unigram import TINY_UNIGRAM

from keras_bert.batching.shared_rows import packed_batches, packed_shape
from keras_bert.data.labelled_texts import read_rows
from keras_bert.decoding.spans import find_answers
from keras_bert.decoding.tags import span_tags, tag_spans
from keras_bert.evaluation.reports import classification_report, multilabel_report, regression_report
from keras_bert.pretraining.masking import Masking
from keras_bert.pretraining.rows.layout import as_batch, make_rows, row_dtype
from keras_bert.pretraining.rows.masking import mask_rows, with_keys
from keras_bert.tasks.question_answering.questions import GoldAnswer, Question
from keras_bert.tasks.question_answering.rows import prepare_questions
from keras_bert.tasks.tagging.metrics import entity_report
from keras_bert.tasks.tagging.schemes import SCHEMES, breaks_scheme, convert_tags
from keras_bert.text.packing import pack
from keras_bert.text.tokenized_texts import tokenize_texts
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.unigram import UnigramTokenizer

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
UNIGRAM = UnigramTokenizer(TINY_UNIGRAM)
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
@given(st.one_of(TEXTS, st.text(LETTERS + " ")))
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


@often
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_offsets_of_a_unigram_tokenizer_cut_the_user_s_own_text(texts):
    ids, starts, ends = UNIGRAM.tokenize_with_offsets(texts)
    for text, tokens, begins, stops in zip(texts, ids.to_list(), starts.to_list(), ends.to_list(), strict=True):
        assert len(tokens) == len(begins) == len(stops)
        assert all(0 <= begin <= stop <= len(text) for begin, stop in zip(begins, stops, strict=True))
        assert begins == sorted(begins) and stops == sorted(stops)
        for begin, stop, token in zip(begins, stops, tokens, strict=True):
            if token != UNIGRAM.unk_id:
                assert text[begin:stop].strip() == UNIGRAM.id_to_token(token).removeprefix("▁"), (text, begin, stop)
    assert ids.to_list() == [UNIGRAM(text).numpy().tolist() for text in texts]


@often
@given(st.one_of(TEXTS, st.text([*UNIGRAM_LETTERS, " "])))
def test_what_a_unigram_tokenizer_decodes_is_encoded_to_the_same_ids(text):
    ids = UNIGRAM(text).numpy()
    if UNIGRAM.unk_id not in ids:
        again = UNIGRAM(UNIGRAM.detokenize(ids).numpy().decode()).numpy()
        np.testing.assert_array_equal(again, ids)


# === Rows ===


@often
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4), st.one_of(st.none(), st.integers(5, 40)))
def test_packing_keeps_every_token_that_has_room(pairs, length):
    firsts, seconds = map(list, zip(*pairs, strict=True))
    rows = {name: value.numpy() for name, value in pack(TOKENIZER, firsts, seconds, sequence_length=length).items()}
    for row, (first, second) in enumerate(zip(TOKENIZER(firsts).to_list(), TOKENIZER(seconds).to_list(), strict=True)):
        size = int(rows["padding_mask"][row].sum())
        ids, segments = rows["token_ids"][row, :size].tolist(), rows["segment_ids"][row, :size].tolist()
        whole = len(first) + len(second) + 3
        assert size == (whole if length is None else min(whole, length))
        second_size = sum(segments) - 1
        kept = size - 3 - second_size
        expected = [TOKENIZER.cls_id, *first[:kept], TOKENIZER.sep_id, *second[:second_size], TOKENIZER.sep_id]
        assert ids == expected and segments == [0] * (kept + 2) + [1] * (second_size + 1)
        assert not rows["token_ids"][row, size:].any()
        # The longer text is the one that is cut.
        assert whole == size or abs(kept - second_size) <= 1 or min(kept - len(first), second_size - len(second)) < 0


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


@often
@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12)), min_size=1, max_size=60), st.booleans())
def test_stored_rows_lose_no_token(sizes, packed):
    ends = np.cumsum([size for pair in sizes for size in pair])
    ids = np.arange(10, 10 + ends[-1])
    begins = np.concatenate([[0], ends[:-1]]).reshape(-1, 2)
    labels = np.arange(len(sizes)) % 2
    pairs = np.column_stack([begins[:, 0], ends[::2], begins[:, 1], ends[1::2], labels])
    dtype = row_dtype("packed" if packed else "padded", sequence_length=30, vocabulary_size=1000)
    batch = as_batch(make_rows(ids, pairs, dtype, special=(1, 2, 0)))
    found = set()
    for row, numbers in enumerate(batch["padding_mask"]):
        for number in range(1, numbers.max() + 1):
            here = numbers == number
            label = batch["next_sentence_label"][row]
            label = int(label[number - 1] if packed else label)
            found.add((*batch["token_ids"][row][here].tolist(), *batch["segment_ids"][row][here].tolist(), label))
            assert not packed or batch["example_starts"][row][number - 1] == np.argmax(here)
        weights = batch["next_sentence_weight"][row]
        assert np.array_equal(weights, np.arange(weights.size) < numbers.max() if packed else 1)
    expected = set()
    for begin, middle, other, end, label in pairs.tolist():
        tokens = [1, *ids[begin:middle], 2, *ids[other:end], *([2] if end > other else [])]
        segments = [0] * (middle - begin + 2) + [1] * (end - other + 1 if end > other else 0)
        expected.add((*map(int, tokens), *segments, label))
    assert found == expected and (batch["token_ids"][batch["padding_mask"] == 0] == 0).all()


@seldom
@given(st.integers(20, 60), st.floats(0.05, 0.5), st.sampled_from(["token", "word", "span"]), st.integers(0, 2**31 - 1))
def test_masks_of_stored_rows_keep_their_rate(length, rate, unit, seed):
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, TOKENIZER.vocabulary_size, (64, length)).astype("int32")
    ids[:, 0], ids[:, -1] = TOKENIZER.cls_id, TOKENIZER.sep_id
    batch = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": np.ones_like(ids)}
    masking = Masking.for_tokenizer(TOKENIZER, max_predictions=length, rate=rate, unit=unit)
    masked = mask_rows(with_keys(batch, seed=seed, step=seed % 1000, rate=rate), masking)
    chosen, places = masked["masked_weights"] > 0, masked["masked_positions"]
    assert chosen.sum() / (64 * (length - 2)) == pytest.approx(rate, abs=0.06)
    assert not np.isin(places[chosen], (0, length - 1)).any()
    np.testing.assert_array_equal(masked["masked_ids"][chosen], np.take_along_axis(ids, places, 1)[chosen])
    untouched = np.ones_like(ids, bool)
    np.put_along_axis(untouched, np.where(chosen, places, 0), False, 1)
    untouched[:, 0] = True  # which stood for places that are none
    np.testing.assert_array_equal(masked["token_ids"][untouched], ids[untouched])
    hidden = np.take_along_axis(masked["token_ids"], places, 1)[chosen] == TOKENIZER.mask_id
    assert hidden.mean() == pytest.approx(masking.mask_share, abs=0.2)


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
    untouched[:, 0] = True  # which stood for places that are none
    np.testing.assert_array_equal(masked["token_ids"].numpy()[untouched], ids[untouched])
    hidden = np.take_along_axis(masked["token_ids"].numpy(), places, 1)[chosen] == TOKENIZER.mask_id
    assert hidden.mean() == pytest.approx(masking.mask_share, abs=0.2)


# === Answers ===


@often
@given(st.text("ab c.é", min_size=1, max_size=60), st.data())
def test_the_target_of_an_answer_is_decoded_to_that_answer(context, data):
    _, starts, ends = TOKENIZER.tokenize_with_offsets([context])
    starts, ends = starts.to_list()[0], ends.to_list()[0]
    if not starts:
        return
    first = data.draw(st.integers(0, len(starts) - 1))
    last = data.draw(st.integers(first, min(first + 5, len(starts) - 1)))
    text = context[starts[first] : ends[last]]
    question = Question("a b", context, (GoldAnswer(text, starts[first]),))
    sizes = {"sequence_length": data.draw(st.integers(16, 40)), "stride": data.draw(st.integers(1, 6))}
    rows = prepare_questions(TOKENIZER, [question], max_question_length=4, max_answer_length=30, **sizes)
    targets = rows.labels
    if not targets[:, 0].any():  # fits into no window
        assert last - first + 1 > sizes["sequence_length"] - 5 - sizes["stride"]
        return
    logits = np.zeros((len(targets), sizes["sequence_length"], 2))
    for window, target in enumerate(targets):
        logits[window, target[0], 0] = logits[window, target[1], 1] = 9.0 if target[0] else 0.0
    (found,) = find_answers(logits, rows.passages[0], n_best=1).spans
    # Accents behind the last letter belong to it, which offsets leave out.
    assert (found.start, context[found.start : found.end].rstrip("\u0301")) == (starts[first], text.rstrip("\u0301"))


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


@often
@given(st.lists(st.tuples(st.sets(st.sampled_from("abc")), st.sets(st.sampled_from("abc"))), min_size=1, max_size=30))
def test_counts_of_several_labels_add_up(rows):
    labels, predictions = ([sorted(part) for part in side] for side in zip(*rows, strict=True))
    report = multilabel_report(labels, predictions, names=list("abc"))
    assert report.count == len(rows)
    assert [scores.support for scores in report.classes] == [sum(name in part for part in labels) for name in "abc"]
    assert report.subset_accuracy == pytest.approx(np.mean([a == b for a, b in rows]))


@often
@given(st.lists(st.tuples(spans_of_words(), spans_of_words()), min_size=1, max_size=5), st.sampled_from(SCHEMES))
def test_counts_of_entities_add_up(sentences, scheme):
    true, found = [], []
    for (spans, words), (others, more) in sentences:
        size = max(words, more)
        true.append(span_tags(spans, size, scheme))
        found.append(span_tags(others, size, scheme))
    report = entity_report(true, found)
    assert report.count == len(sentences)
    assert report.entities == sum(scores.support for scores in report.classes) == sum(len(tag_spans(t)) for t in true)
    assert report.predicted == sum(len(tag_spans(tags)) for tags in found)
    right = sum(len({*tag_spans(a)} & {*tag_spans(b)}) for a, b in zip(true, found, strict=True))
    if report.entities and report.predicted:
        assert report.micro.recall == pytest.approx(right / report.entities)
        assert report.micro.precision == pytest.approx(right / report.predicted)


@often
@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=1, max_size=20))
def test_a_report_of_numbers_is_that_of_its_rows(rows):
    labels, predictions = map(np.array, zip(*rows, strict=True))
    report = regression_report(labels, predictions)
    assert report.count == len(rows)
    assert report.mse == pytest.approx(np.square(labels - predictions).mean())


CELLS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=8)


@often
@given(st.lists(st.one_of(st.tuples(CELLS, CELLS), st.tuples(CELLS), st.tuples(CELLS, CELLS, CELLS)), max_size=12))
def test_every_row_that_is_read_is_kept_or_named(tmp_path_factory, rows):
    place = tmp_path_factory.mktemp("rows")
    with (place / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    lines = [json.dumps(dict(zip(("text", "label"), row, strict=False))) for row in rows]
    (place / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for name in ("rows.csv", "rows.jsonl"):
        try:
            found = read_rows(place / name)
        except ValueError:  # no row can be used
            assert not any(len(row) == 2 and row[0].strip() and row[1].strip() for row in rows)
            continue
        report = found.report
        assert report.read == report.kept + len(report.dropped) and report.kept == len(found)
        assert sum(report.reasons.values()) == len(report.dropped)
        assert len({(drop.path, drop.line) for drop in report.dropped}) == len(report.dropped)
        if name == "rows.jsonl":
            assert report.read == len(rows)
