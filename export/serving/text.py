"""Join written tokens to texts inside a TensorFlow graph, for all texts of a batch at once.

The rules are those of `write_text` in `decoding/written_text.py`, and a test compares the two. Only ops of stock
servers are used.
"""

import functools
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from keras_bert.decoding import written_text as rules


def join_tokens(ids: tf.Tensor, lengths: tf.Tensor, vocabulary: Sequence[str]) -> tf.Tensor:
    """Join rows of tokens to texts.

    Args:
        ids: int32 `[B, L]`.
        lengths: How many of them are text, int32 `[B]`.
        vocabulary: The tokens by their ids.

    Returns:
        Strings `[B]`.

    Example:
        >>> join_tokens(tf.constant([[0, 1, 2]]), tf.constant([3]), ["un", "##able", "!"]).numpy()
        array([b'unable!'], dtype=object)
    """
    words = _words(ids, lengths, vocabulary)  # [B, L], empty after the last
    parts = tf.where(_is_joined(words) | (words == ""), words, tf.strings.join([" ", words]))
    return tf.strings.reduce_join(parts, axis=-1)


def _words(ids: tf.Tensor, lengths: tf.Tensor, vocabulary: Sequence[str]) -> tf.Tensor:
    """Join tokens to words; each word stands at the position of its number."""
    rows, width = tf.shape(ids)[0], ids.shape[1]
    is_text = tf.range(width)[None] < lengths[:, None]
    tokens = tf.where(is_text, tf.gather(tf.constant(vocabulary), tf.where(is_text, ids, 0)), "")
    is_piece = tf.strings.regex_full_match(tokens, "(?s)##.+") & (tf.range(width)[None] > 0)
    parts = tf.where(is_piece, tf.strings.regex_replace(tokens, "^##", ""), tokens)
    number = tf.cumsum(tf.cast(is_text & ~is_piece, tf.int32), axis=1) - 1
    places = tf.range(rows)[:, None] * width + tf.maximum(number, 0)
    words = tf.strings.unsorted_segment_join(tf.reshape(parts, [-1]), tf.reshape(places, [-1]), rows * width)
    return tf.reshape(words, [rows, width])


def _is_joined(words: tf.Tensor) -> tf.Tensor:
    """Whether each word follows the one before it without a space; see `TextStream._is_joined`."""

    def matches(pattern: str) -> tf.Tensor:
        return tf.strings.regex_full_match(words, f"(?s){pattern}")

    def is_one_of(values: Iterable[str]) -> tf.Tensor:
        return matches("|".join(re.escape(value) for value in sorted(values)))

    wide, digit = _class(rules.WIDE), _class(_ranges(str.isdigit))
    is_quote = words == '"'
    joined = _before(matches(f".*{wide}")) | matches(f"{wide}.*")
    joined |= is_one_of(rules.CLOSING) | _before(is_one_of(rules.OPENING))
    endings = "|".join("".join(f"[{letter}{letter.upper()}]" for letter in word) for word in rules.ENGLISH_ENDINGS)
    # Each kind of link: the word itself, the end of the word before it, the beginning of the word after it.
    links = tf.zeros_like(is_quote)
    for middle, end, start in (
        (is_one_of(rules.LINKS), matches(r".*[\pL\pN]"), matches(r"[\pL\pN].*")),
        (is_one_of(rules.APOSTROPHES), matches(r".*\pL"), matches(endings)),
        (is_one_of(".,:"), matches(f".*{digit}"), matches(f"{digit}.*")),
    ):
        links |= middle & _before(end) & _after(start)
    is_inside = tf.math.floormod(tf.cumsum(tf.cast(is_quote, tf.int32), axis=1, exclusive=True), 2) == 1
    joined |= tf.where(is_quote | _before(is_quote), is_inside, links | _before(links))
    return joined | (tf.range(words.shape[1])[None] == 0)


def _before(values: tf.Tensor) -> tf.Tensor:
    """The value of the word before each word."""
    return tf.concat([tf.zeros_like(values[:, :1]), values[:, :-1]], axis=1)


def _after(values: tf.Tensor) -> tf.Tensor:
    """The value of the word after each word."""
    return tf.concat([values[:, 1:], tf.zeros_like(values[:, :1])], axis=1)


def _class(ranges: Iterable[tuple[int, int]]) -> str:
    """A character class of a regular expression, from the first and the last character of each range."""
    return f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in ranges)}]"


@functools.cache
def _ranges(belongs: Callable[[str], bool]) -> tuple[tuple[int, int], ...]:
    """The ranges of all characters for which a function is true."""
    codes = [code for code in range(sys.maxunicode + 1) if belongs(chr(code))]
    gaps = [0, *(place for place in range(1, len(codes)) if codes[place] > codes[place - 1] + 1), len(codes)]
    return tuple((codes[begin], codes[end - 1]) for begin, end in itertools.pairwise(gaps))
