"""Makes sentence pairs from tokenized documents, as the BERT paper describes (section A.2).

Takes documents as token counts of their sentences, gives examples as ranges of tokens. All sentences are in one array
of ids, one after another, so a segment is a range `[start, end)` of it; filling, splitting and trimming segments is
arithmetic on positions. Needs no TensorFlow.
"""

import dataclasses
import random
from bisect import bisect_left
from collections.abc import Callable, Iterator

import numpy as np

KINDS = ("next_sentence", "sentence_order", "single")
SPECIAL_TOKENS = {"next_sentence": 3, "sentence_order": 3, "single": 2}
_Pair = tuple[int, int, int, int, int]  # start and end of both segments, label


@dataclasses.dataclass(frozen=True)
class Documents:
    """Tokenized documents: the first `own` become examples, the others only provide random segments."""

    sentences: list[int]  # where each sentence begins in the array of ids, and where the last one ends
    documents: list[int]  # the first sentence of each document, and the number of sentences
    own: int

    def bounds(self, document: int) -> tuple[int, int]:
        """The indices of a document's first sentence and of the one after its last."""
        return self.documents[document], self.documents[document + 1]

    @property
    def count(self) -> int:
        """The number of documents, with those that only provide random segments."""
        return len(self.documents) - 1


def cut_long_sentences(lengths: np.ndarray, kind: str, sequence_length: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut sentences that are longer than an example into equal pieces, two of which fit into a pair.

    The original code trims such a sentence and loses the rest, which in text without sentence boundaries is nearly
    everything.

    Returns:
        The token counts of the pieces, and the number of pieces of each sentence.

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
    """Make examples in one pass over the documents.

    Args:
        documents: The documents to make examples from.
        kind: `"next_sentence"`: half of the second segments come from another document, and so do all where no sentence
            is left. `"sentence_order"`: half of the pairs are swapped. `"single"`: one segment.
        sequence_length: The longest example, with special tokens.
        short_sequence_rate: The share of examples with a random shorter target length.
        rng: The source of all random choices.

    Returns:
        int64 `[examples, 5]`: start and end of the first segment, of the second, and the label: 1 for a random or
        swapped second segment, else 0, as in BERT's original checkpoints.

    Example:
        >>> two = Documents(sentences=[0, 5, 10, 12], documents=[0, 2, 3], own=2)
        >>> make_pairs(two, "single", sequence_length=32, short_sequence_rate=0.0, rng=random.Random(0)).tolist()
        [[0, 10, 10, 10, 0], [10, 12, 12, 12, 0]]
    """
    make = {"next_sentence": _next_sentence, "sentence_order": _sentence_order, "single": _single}[kind]
    room = sequence_length - SPECIAL_TOKENS[kind]
    least = 1 if kind == "single" else 2

    def sample_target() -> int:
        return least + int(rng.random() * (room - least + 1)) if rng.random() < short_sequence_rate else room

    rows: list[_Pair] = []
    for document in range(documents.own):
        rows += make(documents, document, room, sample_target, rng)
    return np.array(rows, np.int64).reshape(-1, 5)


def _next_sentence(
    documents: Documents, document: int, room: int, sample_target: Callable[[], int], rng: random.Random
) -> Iterator[_Pair]:
    sentences = documents.sentences
    first, last = documents.bounds(document)
    while first < last:
        target = sample_target()
        end = bisect_left(sentences, sentences[first] + target, first + 1, last)  # enough sentences, or all
        middle = first + 1 + int(rng.random() * (end - first - 1))
        start, stop = sentences[first], sentences[middle]
        is_random = end - first == 1 or rng.random() < 0.5
        if is_random:
            second, second_end = _random_segment(documents, document, target - (stop - start), rng)
            end = middle  # the sentences that would have followed go into the next pair
        else:
            second, second_end = stop, sentences[end]
        yield (*_trim(start, stop, second, second_end, room, rng), int(is_random))
        first = end


def _random_segment(documents: Documents, document: int, target: int, rng: random.Random) -> tuple[int, int]:
    """The range of sentences of another document, from a random one up to the target length."""
    other = int(rng.random() * (documents.count - 1))
    other += other >= document
    first, last = documents.bounds(other)
    first += int(rng.random() * (last - first))
    start = documents.sentences[first]
    end = bisect_left(documents.sentences, start + max(1, target), first + 1, last)
    return start, documents.sentences[end]


def _sentence_order(
    documents: Documents, document: int, room: int, sample_target: Callable[[], int], rng: random.Random
) -> Iterator[_Pair]:
    sentences = documents.sentences
    first, last = documents.bounds(document)
    while first < last:
        end = bisect_left(sentences, sentences[first] + sample_target(), first + 1, last)
        start, stop = sentences[first], sentences[end]
        # A single sentence is split in the middle.
        middle = (
            (start + stop) // 2 if end - first == 1 else sentences[first + 1 + int(rng.random() * (end - first - 1))]
        )
        first = end
        if start == middle:
            continue  # a single token has no order
        start, middle, second, stop = _trim(start, middle, middle, stop, room, rng)
        yield (second, stop, start, middle, 1) if rng.random() < 0.5 else (start, middle, second, stop, 0)


def _single(
    documents: Documents, document: int, room: int, sample_target: Callable[[], int], rng: random.Random
) -> Iterator[_Pair]:
    """Take whole sentences as long as they fit, so that nothing has to be trimmed."""
    sentences = documents.sentences
    first, last = documents.bounds(document)
    while first < last:
        target = sample_target()
        end = bisect_left(sentences, sentences[first] + target + 1, first + 1, last + 1) - 1  # the last that fits
        end = max(end, first + 1)
        yield (sentences[first], sentences[end], sentences[end], sentences[end], 0)
        first = end


def _trim(
    start: int, stop: int, second: int, second_end: int, room: int, rng: random.Random
) -> tuple[int, int, int, int]:
    """Remove tokens of the longer segment, at random from its front or its back, until both fit."""
    length, second_length = stop - start, second_end - second
    if length + second_length <= room:
        return start, stop, second, second_end
    keep = min(length, max(room - second_length, room - room // 2))
    front = _toss(length - keep, rng)
    second_keep = min(second_length, room - keep)
    second_front = _toss(second_length - second_keep, rng)
    return start + front, start + front + keep, second + second_front, second + second_front + second_keep


def _toss(times: int, rng: random.Random) -> int:
    """The number of heads in so many coin tosses."""
    return rng.getrandbits(times).bit_count() if times else 0
