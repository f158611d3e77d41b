"""Pairs: takes documents as token counts of sentences, gives examples as ranges of tokens, the way BERT makes them.

The sentences of a document lie one after another in one array of ids, so a segment is a range `[start, end)` of it, and
filling, splitting and trimming segments is arithmetic on positions: no token is touched. A room of its own because this
is the paper's recipe (section A.2) and nothing else; it needs no TensorFlow.
"""

import dataclasses
import random
from bisect import bisect_left

import numpy as np

KINDS = ("next_sentence", "sentence_order", "single")
SPECIAL_TOKENS = {"next_sentence": 3, "sentence_order": 3, "single": 2}


@dataclasses.dataclass(frozen=True)
class Documents:
    """Tokenized documents: the first `own` are to be made into examples, the others lend random segments alone."""

    sentences: list[int]  # where each sentence begins in the array of ids, and where the last one ends
    documents: list[int]  # which sentence each document begins with, and how many sentences there are
    own: int

    def bounds(self, document: int) -> tuple[int, int]:
        """The first sentence of a document and the one after its last."""
        return self.documents[document], self.documents[document + 1]

    @property
    def count(self) -> int:
        """How many documents there are, lenders included."""
        return len(self.documents) - 1


def cut_long_sentences(lengths: np.ndarray, kind: str, sequence_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut sentences that fit into no example into equal pieces, two of which fit into a pair.

    The original trims such a sentence to a few dozen tokens and loses the rest, which in text without sentence
    boundaries is nearly all.

    Returns:
        The token counts of the pieces, and how many pieces each sentence became.

    Example:
        >>> cut_long_sentences(np.array([4, 20]), "next_sentence", 13)
        (array([4, 5, 5, 5, 5]), array([1, 4]))
    """
    room = sequence_length - SPECIAL_TOKENS[kind]
    longest = room if kind == "single" else room // 2
    pieces = np.where(lengths > room, -(-lengths // longest), 1)
    nth = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    whole, parts = np.repeat(lengths, pieces), np.repeat(pieces, pieces)
    return whole * (nth + 1) // parts - whole * nth // parts, pieces


def make_pairs(
    documents: Documents, kind: str, *, sequence_length: int, short_sequence_rate: float, rng: random.Random
) -> np.ndarray:
    """Make one pass of examples over documents.

    Args:
        documents: What to make them of.
        kind: `"next_sentence"`: half of the second segments, and all for which there is none, come from another
            document. `"sentence_order"`: half of the pairs are swapped. `"single"`: one segment.
        sequence_length: With special tokens.
        short_sequence_rate: Which part of the examples aims at a random shorter length.
        rng: Where chance comes from.

    Returns:
        int64 `[examples, 5]`: start and end of the first segment, of the second, and the label: 1 for a random or
        swapped second segment, else 0, as in the original BERT's checkpoints.

    Example:
        >>> two = Documents(sentences=[0, 5, 10, 12], documents=[0, 2, 3], own=2)
        >>> make_pairs(two, "single", sequence_length=32, short_sequence_rate=0.0, rng=random.Random(0)).tolist()
        [[0, 10, 10, 10, 0], [10, 12, 12, 12, 0]]
    """
    make = {"next_sentence": _next_sentence, "sentence_order": _sentence_order, "single": _single}[kind]
    room = sequence_length - SPECIAL_TOKENS[kind]
    least = 1 if kind == "single" else 2

    def draw_target():
        return least + int(rng.random() * (room - least + 1)) if rng.random() < short_sequence_rate else room

    rows = []
    for document in range(documents.own):
        rows += make(documents, document, room, draw_target, rng)
    return np.array(rows, np.int64).reshape(-1, 5)


def _next_sentence(documents, document, room, draw_target, rng):
    sentences = documents.sentences
    first, last = documents.bounds(document)
    while first < last:
        target = draw_target()
        end = bisect_left(sentences, sentences[first] + target, first + 1, last)  # enough sentences, or all
        middle = first + 1 + int(rng.random() * (end - first - 1))
        start, stop = sentences[first], sentences[middle]
        is_random = end - first == 1 or rng.random() < 0.5
        if is_random:
            second, second_end = _random_segment(documents, document, target - (stop - start), rng)
            end = middle  # the sentences that were meant to follow are used again
        else:
            second, second_end = stop, sentences[end]
        yield (*_trim(start, stop, second, second_end, room, rng), int(is_random))
        first = end


def _random_segment(documents, document, target, rng):
    """Sentences of another document, from a random one on, up to the target length."""
    other = int(rng.random() * (documents.count - 1))
    other += other >= document
    first, last = documents.bounds(other)
    first += int(rng.random() * (last - first))
    start = documents.sentences[first]
    end = bisect_left(documents.sentences, start + max(1, target), first + 1, last)
    return start, documents.sentences[end]


def _sentence_order(documents, document, room, draw_target, rng):
    sentences = documents.sentences
    first, last = documents.bounds(document)
    while first < last:
        end = bisect_left(sentences, sentences[first] + draw_target(), first + 1, last)
        start, stop = sentences[first], sentences[end]
        # A sentence that stands alone is parted in its middle.
        middle = (
            (start + stop) // 2 if end - first == 1 else sentences[first + 1 + int(rng.random() * (end - first - 1))]
        )
        first = end
        if start == middle:
            continue  # a single token has no order
        start, middle, second, stop = _trim(start, middle, middle, stop, room, rng)
        yield (second, stop, start, middle, 1) if rng.random() < 0.5 else (start, middle, second, stop, 0)


def _single(documents, document, room, draw_target, rng):
    """Whole sentences as long as they fit, so that nothing has to be trimmed."""
    sentences = documents.sentences
    first, last = documents.bounds(document)
    while first < last:
        target = draw_target()
        end = bisect_left(sentences, sentences[first] + target + 1, first + 1, last + 1) - 1  # the last that fits
        end = max(end, first + 1)
        yield (sentences[first], sentences[end], sentences[end], sentences[end], 0)
        first = end


def _trim(start, stop, second, second_end, room, rng):
    """Take tokens from the longer segment, by chance from its front or its back, until both fit."""
    length, second_length = stop - start, second_end - second
    if length + second_length <= room:
        return start, stop, second, second_end
    keep = min(length, max(room - second_length, room - room // 2))
    front = _toss(length - keep, rng)
    second_keep = min(second_length, room - keep)
    second_front = _toss(second_length - second_keep, rng)
    return start + front, start + front + keep, second + second_front, second + second_front + second_keep


def _toss(times, rng):
    """How many of so many coins show heads."""
    return rng.getrandbits(times).bit_count() if times else 0
