"""Tokens become a text with spaces where they belong, at once or piece by piece."""

import numpy as np
import pytest

from keras_bert.decoding.written_text import TextStream, write_text


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("ein ##e frau , die lacht .", "eine frau, die lacht."),
        ("证 明 怎 么 开 ？", "证明怎么开？"),
        ("用 python 写 的", "用python写的"),
        ('he said " go away " .', 'he said "go away".'),
        ("it ' s t - shirt weather , isn ' t it ?", "it's t-shirt weather, isn't it?"),
        ("the dogs ' bones", "the dogs ' bones"),
        ("3 . 5 % of 1 , 000 at 10 : 30 . 2", "3.5% of 1,000 at 10:30.2"),
        ("a ( small ) dog / cat for $ 5", "a (small) dog/cat for $5"),
        ("- a dash - and - more", "- a dash-and-more"),
        ("##ing ## end", "##ing ## end"),
        ("", ""),
    ],
)
def test_spaces(tokens, text):
    assert write_text(tokens.split()) == text


def test_pieces_are_the_text():
    random = np.random.default_rng(0)
    vocabulary = ["a", "dog", "##s", "'", "s", "t", "-", ".", ",", "(", ")", '"', "3", "中", "##x", "。", "/"]
    for _ in range(300):
        tokens = [str(token) for token in random.choice(vocabulary, random.integers(1, 12))]
        stream = TextStream()
        pieces = [*(stream.add(token) for token in tokens), stream.finish()]
        assert "".join(pieces) == write_text(tokens)
        # What is out stays out: a shorter text begins like the longer one, up to the two words that wait.
        assert write_text(tokens).startswith("".join(pieces[:-1]))


def test_no_piece_is_given_before_it_is_certain():
    stream = TextStream()
    assert [stream.add(token) for token in ("isn", "'", "t", "it")] == ["", "", "isn", "'"]
    assert stream.finish() == "t it"
