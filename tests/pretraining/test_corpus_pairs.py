"""Sentences, pairs and records, each against what is known to be right."""

import random

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.pretraining.corpus.pairs import Documents, cut_long_sentences, make_pairs
from keras_bert.pretraining.corpus.sentences import split_sentences
from keras_bert.pretraining.corpus.shards import encode_examples

# === Sentences ===

ENGLISH = [
    ["He left.", "She stayed!", "Why?", "Nobody knows…", "“Really?”", "Yes."],
    ["Mr. Smith met Dr. J. R. Lee in the U.S. Army, cf. Fig. 3, on Jan. 5 at 3.15 p.m. sharp.", "Then he left."],
    ["It cost $3.50 (approx. 3 euros).", "See No. 5 and vol. 2.", "No.", "Yes!"],
    ["The answer is 42.", "2020 was odd.", "(Very odd.)", "[Indeed.]"],
    ["Visit example.com or e.g. mail us, i.e. me."],
]
CHINESE = [
    ["他说：“好！”", "然后走了。", "真的吗？", "真的……", "“不。”", "3.5公里。"],
    ["你好吗?", "我很好!", "好的。"],
]


@pytest.mark.parametrize("sentences", ENGLISH)
def test_english(sentences):
    assert split_sentences(" ".join(sentences)) == sentences


@pytest.mark.parametrize("sentences", CHINESE)
def test_chinese(sentences):
    assert split_sentences("".join(sentences)) == sentences


def test_a_line_end_is_a_boundary_and_nothing_is_lost():
    assert split_sentences("one\ntwo \r\n\n three") == ["one", "two", "three"]
    assert split_sentences(" \n ") == [] == split_sentences("")
    rng = random.Random(0)
    for _ in range(500):
        text = "".join(rng.choices("aA. !?…。“”\"'()\n1é中", k=40))
        assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


# === Pairs ===


def make_documents(count=400, lenders=0, longest=40, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 30, count + lenders)
    lengths = rng.integers(1, longest + 1, sizes.sum())
    sentences, documents = np.cumsum(lengths).tolist(), np.cumsum(sizes).tolist()
    return Documents([0, *sentences], [0, *documents], count)


def find_homes(documents, tokens):
    sentences = np.searchsorted(documents.sentences, tokens, side="right") - 1
    return np.searchsorted(documents.documents, sentences, side="right") - 1


@pytest.mark.parametrize("kind", ["next_sentence", "sentence_order", "single"])
@pytest.mark.parametrize("length", [16, 128])
def test_every_pair_fits_and_says_the_truth(kind, length):
    room = length - (2 if kind == "single" else 3)
    documents = make_documents(lenders=30, longest=min(40, room))
    rows = make_pairs(documents, kind, sequence_length=length, short_sequence_rate=0.1, rng=random.Random(1))
    start, stop, other, other_end, label = rows.T
    assert (stop > start).all() and (stop - start + other_end - other <= room).all()
    assert (find_homes(documents, start) < documents.own).all()
    if kind == "single":
        assert (other == other_end).all() and not label.any()
        assert (
            np.bincount(start, minlength=1).max() == 1
            and (stop - start).sum() == documents.sentences[own_end(documents)]
        )
        return
    assert (other_end > other).all()
    same = find_homes(documents, start) == find_homes(documents, other)
    if kind == "next_sentence":
        assert (same == (label == 0)).all() and (other >= stop)[label == 0].all()
        assert (find_homes(documents, other) >= documents.own).any()  # lenders lend
    else:
        assert same.all() and np.where(label, other_end <= start, stop <= other).all()


def own_end(documents):
    return documents.documents[documents.own]


def test_rates():
    documents = make_documents(4000)
    options = {"sequence_length": 128, "rng": random.Random(0)}
    rows = make_pairs(documents, "sentence_order", short_sequence_rate=0.0, **options)
    assert abs(rows[:, 4].mean() - 0.5) < 0.02
    full = make_pairs(documents, "next_sentence", short_sequence_rate=0.0, **options)
    short = make_pairs(documents, "next_sentence", short_sequence_rate=1.0, **options)
    some = make_pairs(documents, "next_sentence", short_sequence_rate=0.1, **options)
    mean = [np.mean(rows[:, 1] - rows[:, 0] + rows[:, 3] - rows[:, 2]) for rows in (full, some, short)]
    assert mean[0] > mean[1] > mean[2]
    assert abs((mean[0] - mean[1]) / (mean[0] - mean[2]) - 0.1) < 0.04
    # Of pairs that had a choice half are random; a lone sentence at a document's end has none.
    assert 0.5 < full[:, 4].mean() < 0.62


def test_tokens_that_were_not_used_come_again():
    """As in the original: without trimming, the first segments and the true second ones are the whole corpus."""
    documents = make_documents(50)
    rows = make_pairs(documents, "next_sentence", sequence_length=4096, short_sequence_rate=0.5, rng=random.Random(0))
    used = np.zeros(documents.sentences[-1], int)
    for start, stop, second, second_end, label in rows:
        used[start:stop] += 1
        if not label:
            used[second:second_end] += 1
    assert (used == 1).all()


def test_trimming_equals_the_original_in_lengths_and_is_fair():
    """The reference is the loop of the original: the longer side loses a token, front or back by chance."""
    from keras_bert.pretraining.corpus.pairs import _trim

    rng, fronts, losses = random.Random(0), 0, 0
    for _ in range(2000):
        length, other, room = rng.randint(1, 60), rng.randint(1, 60), rng.randint(2, 50)
        keep, other_keep = length, other
        while keep + other_keep > room:
            if keep > other_keep:
                keep -= 1
            else:
                other_keep -= 1
        start, stop, second, second_end = _trim(100, 100 + length, 500, 500 + other, room, rng)
        assert (stop - start, second_end - second) == (keep, other_keep)
        assert start >= 100 and stop <= 100 + length and second >= 500 and second_end <= 500 + other
        fronts += start - 100 + second - 500
        losses += length - keep + other - other_keep
    assert abs(fronts / losses - 0.5) < 0.02


def test_long_sentences_are_cut_evenly():
    lengths = np.array([0, 1, 125, 126, 1000])
    pieces, counts = cut_long_sentences(lengths, "next_sentence", 128)
    assert counts.tolist() == [1, 1, 1, 3, 17] and pieces.sum() == lengths.sum() and pieces[5:].max() <= 62
    assert np.ptp(pieces[6:]) <= 1
    assert cut_long_sentences(lengths, "single", 128)[1].tolist() == [1, 1, 1, 1, 8]


# === Records ===


def test_records_are_tensorflow_examples():
    ids = np.array([0, 1, 127, 128, 16383, 16384, (1 << 21) - 1, 1 << 21, (1 << 28) - 1], np.int32)
    rows = np.array([[0, 4, 4, 9, 1], [2, 3, 3, 3, 0], [0, 9, 0, 9, 0]])
    for row, record in zip(rows, encode_examples(ids, rows, cls_id=101, sep_id=30_000), strict=True):
        first = [101, *ids[row[0] : row[1]].tolist(), 30_000]
        second = [*ids[row[2] : row[3]].tolist(), 30_000] if row[3] > row[2] else []
        feature = {"token_ids": first + second, "first_length": [len(first)], "next_sentence_label": [int(row[4])]}
        parsed = tf.train.Example.FromString(record).features.feature
        assert {name: list(value.int64_list.value) for name, value in parsed.items()} == feature
