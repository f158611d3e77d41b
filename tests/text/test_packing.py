"""Packing gives what the original BERT gives, in the graph, and trims pairs from the longer side."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.text.packing import pack, pack_ids
from keras_bert.text.tokenizer import BertTokenizer

TOKENIZER = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"])
SPECIAL = {"cls_id": 2, "sep_id": 3, "pad_id": 0}


def rows(batch):
    return {name: value.numpy().tolist() for name, value in batch.items()}


def test_single_texts_padded_to_the_longest():
    assert rows(pack(TOKENIZER, ["a b c", "b", ""])) == {
        "token_ids": [[2, 5, 6, 7, 3], [2, 6, 3, 0, 0], [2, 3, 0, 0, 0]],
        "segment_ids": [[0, 0, 0, 0, 0]] * 3,
        "padding_mask": [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]],
    }


def test_pairs_in_a_fixed_length():
    assert rows(pack(TOKENIZER, ["a b", "c"], ["c", "a"], sequence_length=8)) == {
        "token_ids": [[2, 5, 6, 3, 7, 3, 0, 0], [2, 7, 3, 5, 3, 0, 0, 0]],
        "segment_ids": [[0, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 1, 0, 0, 0]],
        "padding_mask": [[1, 1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0, 0, 0]],
    }


def test_long_text_keeps_its_separator():
    assert rows(pack(TOKENIZER, ["a b c a b c"], sequence_length=5))["token_ids"] == [[2, 5, 6, 7, 3]]


def truncate_pair(first, second, room):
    """The loop of the original BERT: the longer side loses its last token; of two equal ones, the second."""
    first, second = list(first), list(second)
    while len(first) + len(second) > room:
        (first if len(first) > len(second) else second).pop()
    return first, second


def test_pairs_are_trimmed_as_the_original_does():
    lengths = range(8)
    cases = [(list(range(10, 10 + m)), list(range(30, 30 + n))) for m, n in itertools.product(lengths, lengths)]
    for sequence_length in (4, 5, 8, 9, 12):
        batch = pack_ids(
            tf.ragged.constant([first for first, _ in cases], dtype=tf.int32),
            tf.ragged.constant([second for _, second in cases], dtype=tf.int32),
            sequence_length=sequence_length,
            **SPECIAL,
        )
        for row, segments, case in zip(batch["token_ids"].numpy(), batch["segment_ids"].numpy(), cases, strict=True):
            first, second = truncate_pair(*case, sequence_length - 3)
            expected = [2, *first, 3, *second, 3]
            assert row[: len(expected)].tolist() == expected
            assert not row[len(expected) :].any()
            assert segments.sum() == len(second) + 1


def test_same_in_a_dataset_and_shapes_are_static():
    texts, pairs = ["a b", "c", ""], ["b", "c a", "b"]
    data = tf.data.Dataset.from_tensor_slices((texts, pairs)).batch(3)
    data = data.map(lambda first, second: pack(TOKENIZER, first, second, sequence_length=6))
    assert data.element_spec["token_ids"].shape.as_list() == [None, 6]
    expected = pack(TOKENIZER, texts, pairs, sequence_length=6)
    for name, value in next(iter(data)).items():
        np.testing.assert_array_equal(value, expected[name])


def test_bad_input_says_what_to_do():
    with pytest.raises(TypeError, match=r"Got one string as texts; expected a list of strings: wrap it as \[texts\]"):
        pack(TOKENIZER, "a b")
    with pytest.raises(ValueError, match="sequence_length=3 has no room for text beside 3 special tokens; use 4"):
        pack(TOKENIZER, ["a"], ["b"], sequence_length=3)
