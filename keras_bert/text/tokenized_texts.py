"""Tokenizes a whole data set once and keeps the ids in memory.

Takes a tokenizer and texts, pairs of texts or lists of words, and gives `TokenizedTexts`: flat int32 arrays that can be
trimmed, cut into windows, selected and arranged as model inputs, all rows at a time. `text/packing.py` does the same
in a TensorFlow graph for one batch; a test checks that both give the same rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np


class FlatTokenizer(Protocol):
    """The methods that this module needs of a tokenizer.

    `BertTokenizer` has them, and so has the tokenizer that runs on a device without TensorFlow. `splits` are where
    each text begins and ends among the ids of all texts; offsets count characters.
    """

    @property
    def cls_id(self) -> int:
        """The id of `[CLS]`."""

    @property
    def sep_id(self) -> int:
        """The id of `[SEP]`."""

    @property
    def pad_id(self) -> int:
        """The id of `[PAD]`."""

    @property
    def unk_id(self) -> int:
        """The id of the unknown token."""

    @property
    def pair_separators(self) -> int:
        """How many `[SEP]` stand between the two texts of a pair: 1 in BERT, 2 in XLM-R."""

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens."""

    def token_to_id(self, token: str) -> int:
        """Return the id of a token; raise an error if there is none."""

    def id_to_token(self, index: int) -> str:
        """Return the token of an id."""

    def tokenize_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of all texts, and the splits."""

    def tokenize_flat_with_offsets(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the ids of all texts, the splits, and where each token begins and ends in its text."""


@dataclass(frozen=True, eq=False)
class TokenizedTexts:
    """Texts, or pairs of texts, as ids without special tokens; `tokenize_texts` creates them.

    Args:
        first_ids, first_splits: The ids of all texts in one vector, and where each begins and ends: text `i` is
            `first_ids[first_splits[i]:first_splits[i + 1]]`.
        second_ids, second_splits: The same for the second texts, or `None`.
        cls_id, sep_id, pad_id: The special tokens around the texts, and the padding.
        separators: How many `[SEP]` stand between the two texts of a pair.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])
        >>> tokenized = tokenize_texts(tokenizer, ["a b a", "b"])
        >>> tokenized.lengths.tolist()
        [5, 3]
    """

    first_ids: np.ndarray
    first_splits: np.ndarray
    second_ids: np.ndarray | None = None
    second_splits: np.ndarray | None = None
    cls_id: int = 2
    sep_id: int = 3
    pad_id: int = 0
    separators: int = 1

    def __len__(self) -> int:
        return len(self.first_splits) - 1

    @property
    def has_pairs(self) -> bool:
        """Whether rows have a second text."""
        return self.second_ids is not None

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each row, special tokens included."""
        return self._first_lengths() + self._second_lengths() + self._special_tokens()

    def take(self, rows: Sequence[int] | np.ndarray) -> "TokenizedTexts":
        """Return some of the rows, in the order given.

        Example:
            >>> tokenized.take([1, 0]).lengths.tolist()
            [3, 5]
        """
        rows = np.asarray(rows, np.int64)
        return self._cut(rows, 0, self._first_lengths()[rows], 0, self._second_lengths()[rows])

    def trimmed(self, sequence_length: int) -> tuple["TokenizedTexts", int]:
        """Return the rows cut to `sequence_length` tokens by the rule of `pack`, and how many rows were cut.

        Example:
            >>> shorter, number_cut = tokenized.trimmed(4)
            >>> shorter.lengths.tolist(), number_cut
            ([4, 3], 1)
        """
        room = self._room(sequence_length, least=1)
        first, second = self._first_lengths(), self._second_lengths()
        number_cut = int(np.sum(first + second > room))
        if not number_cut:
            return self, 0
        larger_half = room - room // 2 if self.has_pairs else room
        first = np.minimum(first, np.maximum(room - second, larger_half))
        return self._cut(np.arange(len(self)), 0, first, 0, np.minimum(second, room - first)), number_cut

    def trimmed_first(self, sequence_length: int) -> tuple["TokenizedTexts", int]:
        """Return the same as `trimmed`, but cut only the first text of a pair; the second must fit.

        Example:
            >>> pairs = tokenize_texts(tokenizer, ["a b a"], ["b a"])
            >>> pairs.trimmed_first(6)[0].packed()[0].tolist()
            [2, 4, 3, 5, 4, 3]
        """
        room = self._room(sequence_length, least=1)
        first, second = self._first_lengths(), self._second_lengths()
        if len(self) and second.max() > room:
            raise ValueError(
                f"Row {int(second.argmax())} has a second text of {second.max()} tokens, which is never cut, but "
                f"sequence_length={sequence_length} has room for {room}; use a larger sequence_length."
            )
        kept = np.minimum(first, room - second)
        return self._cut(np.arange(len(self)), 0, kept, 0, second), int(np.sum(kept < first))

    def windows(self, sequence_length: int, stride: int) -> tuple["TokenizedTexts", np.ndarray]:
        """Cut long rows into overlapping windows, so that no token is lost; also return the row of each window.

        In a pair the longer text is cut into windows and the shorter one stays whole. If both need more than half of
        the tokens, every window of one text is paired with every window of the other.

        Args:
            sequence_length: The tokens of a window, special ones included.
            stride: How many tokens after one window the next one begins, as in the original BERT. It is at most the
                length of a window's text.

        Example:
            >>> windows, owners = tokenized.windows(4, stride=1)
            >>> windows.lengths.tolist(), owners.tolist()
            ([4, 4, 3], [0, 0, 1])
        """
        room = self._room(sequence_length, least=2 if self.has_pairs else 1)
        if stride < 1:
            raise ValueError(f"stride={stride}: expected the number of tokens from one window to the next, at least 1.")
        spans: list[tuple[int, int, int, int, int]] = []  # owner; begin and length in the first text, in the second
        sides = zip(self._first_lengths().tolist(), self._second_lengths().tolist(), strict=True)
        for owner, (first, second) in enumerate(sides):
            second_room = min(second, max(room // 2, room - first))
            lefts, rights = _spans(first, room - second_room, stride), _spans(second, second_room, stride)
            spans += [(owner, *left, *right) for left in lefts for right in rights]
        owners, *cuts = np.array(spans, np.int64).reshape(-1, 5).T
        return self._cut(owners, *cuts), owners

    def used_ids(self) -> np.ndarray:
        """Return the ids of the texts and of the special tokens, each once and in ascending order.

        Example:
            >>> tokenized.used_ids().tolist()
            [0, 2, 3, 4, 5]
        """
        sides = [self.first_ids] + ([self.second_ids] if self.has_pairs else [])
        return np.unique(np.concatenate([*sides, [self.cls_id, self.sep_id, self.pad_id]])).astype(np.int32)

    def renumbered(self, ids: np.ndarray) -> "TokenizedTexts":
        """Return the same texts with each id replaced by its index in `ids`, which is ascending and has all used ids.

        Example:
            >>> tokenized.renumbered(np.array([0, 2, 3, 4, 5])).cls_id
            1
        """
        changed: dict[str, Any] = {
            name: int(np.searchsorted(ids, getattr(self, name))) for name in ("cls_id", "sep_id", "pad_id")
        }
        changed["first_ids"] = np.searchsorted(ids, self.first_ids).astype(np.int32)
        if self.second_ids is not None:
            changed["second_ids"] = np.searchsorted(ids, self.second_ids).astype(np.int32)
        return replace(self, **changed)

    def packed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Arrange all rows as `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, with two `[SEP]` in the middle for XLM-R.

        Returns:
            The ids of all rows in one vector, the splits, and where the second part of each row begins (the end of the
            row if there are no pairs).

        Example:
            >>> ids, splits, second_begins = tokenized.packed()
            >>> ids.tolist(), splits.tolist(), second_begins.tolist()
            ([2, 4, 5, 4, 3, 2, 5, 3], [0, 5, 8], [5, 3])
        """
        splits = _splits(self.lengths)
        starts, first = splits[:-1], self._first_lengths()
        ids = np.full(splits[-1], self.sep_id, np.int32)  # whatever is not overwritten below is a separator
        ids[starts] = self.cls_id
        ids[_places(starts + 1, first)] = self.first_ids
        second = first + self._special_tokens()
        if self.has_pairs:
            second -= 1  # the separator at the end
            ids[_places(starts + second, self._second_lengths())] = self.second_ids
        return ids, splits, second

    def _special_tokens(self) -> int:
        return 2 + self.separators if self.has_pairs else 2

    def _room(self, sequence_length: int, least: int) -> int:
        special = self._special_tokens()
        if sequence_length < special + least:
            raise ValueError(
                f"sequence_length={sequence_length} has no room for text beside {special} special tokens; "
                f"use {special + least} or more."
            )
        return sequence_length - special

    def _first_lengths(self) -> np.ndarray:
        return np.diff(self.first_splits)

    def _second_lengths(self) -> np.ndarray:
        return np.zeros(len(self), np.int64) if self.second_splits is None else np.diff(self.second_splits)

    def _cut(
        self,
        rows: np.ndarray,
        begins: np.ndarray | int,
        lengths: np.ndarray,
        second_begins: np.ndarray | int,
        second_lengths: np.ndarray,
    ) -> "TokenizedTexts":
        """Make new rows: for each its row here, and where its two texts begin and how long they are."""
        cut: dict[str, Any] = {"first_ids": self.first_ids[_places(self.first_splits[rows] + begins, lengths)]}
        cut["first_splits"] = _splits(lengths)
        if self.second_ids is not None and self.second_splits is not None:
            cut["second_ids"] = self.second_ids[_places(self.second_splits[rows] + second_begins, second_lengths)]
            cut["second_splits"] = _splits(second_lengths)
        return replace(self, **cut)


def tokenize_texts(
    tokenizer: FlatTokenizer, texts: Sequence[str], pairs: Sequence[str] | None = None, *, batch: int = 8192
) -> TokenizedTexts:
    """Tokenize texts, or pairs of texts, and keep their ids in memory.

    Args:
        tokenizer: A `BertTokenizer`, or another tokenizer with its flat methods.
        texts: A list of strings or a string tensor `[n]`.
        pairs: The second texts, as many as `texts`, or `None`.
        batch: How many texts are tokenized at a time.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])
        >>> len(tokenize_texts(tokenizer, ["a b", "b"], ["a", "a"]))
        2
    """
    first_ids, first_splits = _tokenize(tokenizer, texts, "texts", batch)
    second_ids = second_splits = None
    if pairs is not None:
        second_ids, second_splits = _tokenize(tokenizer, pairs, "pairs", batch)
    if second_splits is not None and len(second_splits) != len(first_splits):
        raise ValueError(
            f"Got {len(first_splits) - 1} texts and {len(second_splits) - 1} pairs; expected as many of both."
        )
    special: dict[str, Any] = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id, "pad_id": tokenizer.pad_id}
    special["separators"] = tokenizer.pair_separators
    return TokenizedTexts(first_ids, first_splits, second_ids, second_splits, **special)


def tokenize_words(
    tokenizer: FlatTokenizer, sentences: Sequence[Sequence[str]], *, batch: int = 8192
) -> tuple[TokenizedTexts, np.ndarray]:
    """Tokenize texts that are already split into words, word by word, so that the pieces of each word are known.

    Args:
        tokenizer: A `BertTokenizer`, or another tokenizer with its flat methods.
        sentences: The words of each text.
        batch: How many words are tokenized at a time.

    Returns:
        The texts, and for each word of all texts the index of its first piece in `first_ids`; −1 for a word that gives
        no tokens, such as a control character.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "c"])
        >>> tokenized, first_pieces = tokenize_words(tokenizer, [["ab", "\x00", "c"], ["a"]])
        >>> tokenized.first_ids.tolist(), first_pieces.tolist()
        ([4, 5, 6, 4], [0, -1, 2, 3])
    """
    numbers: dict[str, int] = {}  # each distinct word is tokenized once
    chosen = np.array([numbers.setdefault(word, len(numbers)) for words in sentences for word in words], np.int64)
    ids, splits = _tokenize(tokenizer, list(numbers), "words", batch)
    begins, sizes = splits[:-1][chosen], np.diff(splits)[chosen]
    word_splits = _splits([len(words) for words in sentences])
    pieces = _splits(sizes)
    special: dict[str, Any] = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id, "pad_id": tokenizer.pad_id}
    tokenized = TokenizedTexts(ids[_places(begins, sizes)], pieces[word_splits], **special)
    return tokenized, np.where(sizes > 0, pieces[:-1], -1)


def _tokenize(tokenizer: FlatTokenizer, texts: Sequence[str], name: str, batch: int) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(texts, str):
        raise TypeError(f"Got one string as {name}; expected a list of strings: wrap it as [{name}].")
    parts = [tokenizer.tokenize_flat(texts[start : start + batch]) for start in range(0, len(texts), batch)]
    ids = [np.zeros(0, np.int32), *(part for part, _ in parts)]
    lengths = [np.zeros(0, np.int64), *(np.diff(splits) for _, splits in parts)]
    return np.concatenate(ids).astype(np.int32), _splits(np.concatenate(lengths))


# === Flat arrays ===


def _splits(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _places(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the indices `starts[i], starts[i] + 1, …`, `lengths[i]` of them, for all i in one vector."""
    splits = _splits(lengths)
    return np.arange(splits[-1]) + np.repeat(starts - splits[:-1], lengths)


def _spans(length: int, room: int, stride: int) -> list[tuple[int, int]]:
    """Return the begin and the length of each window over one text."""
    begins = [0]
    while begins[-1] + room < length:
        begins.append(begins[-1] + min(stride, room))
    return [(begin, min(room, length - begin)) for begin in begins]
