"""Tokenize texts with a marker token before and after each of two entities.

Takes a tokenizer and `MarkedText`s; gives `TokenizedTexts`. If a text is too long, the text around the entities is cut;
both entities and their markers stay.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_bert.tasks.relation.marked_text import MarkedText
from keras_bert.text.tokenized_texts import FlatTokenizer, TokenizedTexts, tokenize_texts

if TYPE_CHECKING:
    from keras_bert.text.subword_tokenizer import SubwordTokenizer

Markers = tuple[str, str, str, str]

_UNUSED: Markers = ("[unused1]", "[unused2]", "[unused3]", "[unused4]")
# Rare characters, the rarest first, for vocabularies without unused tokens.
_SIGNS = tuple("¤§¶†‡~^|@#$*+=<>")
SPECIAL_TOKENS = 6  # [CLS], [SEP] and four markers


def choose_markers(tokenizer: "SubwordTokenizer") -> Markers:
    """Choose four marker tokens: before and after the first entity, before and after the second.

    Unused tokens of the vocabulary if it has four; otherwise rare characters, which then are unknown in texts.

    Example:
        >>> choose_markers(BertTokenizer(["[UNK]", "$", "#", "a", "§", "~"]))
        ('§', '~', '#', '$')
    """
    vocabulary = tokenizer.vocabulary
    known = set(vocabulary)
    if known.issuperset(_UNUSED):
        return _UNUSED
    unused = [token for token in vocabulary if re.fullmatch(r"\[unused\d+\]", token)]
    found = unused if len(unused) >= 4 else [sign for sign in _SIGNS if sign in known]
    if len(found) < 4:
        raise ValueError(
            f"The vocabulary has {len(unused)} unused tokens ([unused1] …) and {len(found)} of the signs "
            f"{' '.join(_SIGNS)}; expected four of one kind to mark entities. Use another model, or add "
            "[unused1] to [unused4] to its vocabulary before it is pretrained."
        )
    first, second, third, fourth = found[:4]
    return first, second, third, fourth


def pack_marked(
    tokenizer: FlatTokenizer, texts: Sequence[MarkedText], markers: Sequence[str], *, sequence_length: int
) -> tuple[TokenizedTexts, tuple[str, ...]]:
    """Tokenize texts into rows of at most `sequence_length` tokens; gives the rows and notes on what was cut.

    Args:
        tokenizer: A `BertTokenizer`. Each part of a text is tokenized by itself, so that no token crosses a marker.
        texts: The texts.
        markers: From `choose_markers`. The same tokens in a text become unknown, so that each marker occurs once.
        sequence_length: Maximum number of tokens of a row, including special ones.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "§", "~", "#", "$"])
        >>> text = MarkedText("a b a b", (0, 1), (4, 5))
        >>> rows, notes = pack_marked(tokenizer, [text], ("§", "~", "#", "$"), sequence_length=16)
        >>> tokenizer.detokenize(rows.first_ids).numpy().decode()
        '§ a ~ b # a $ b'
    """
    room = sequence_length - SPECIAL_TOKENS
    if room < 2:
        raise ValueError(
            f"sequence_length={sequence_length} has no room for two entities and {SPECIAL_TOKENS} special tokens; "
            f"use {SPECIAL_TOKENS + 2} or more."
        )
    ids = np.array([[tokenizer.token_to_id(marker)] for marker in markers], np.int32)  # [4, 1]
    tokenized = tokenize_texts(tokenizer, [piece for text in texts for piece in text.pieces])
    tokens = np.where(np.isin(tokenized.first_ids, ids), tokenizer.unk_id, tokenized.first_ids).astype(np.int32)
    parts, lengths, cut, apart = [np.zeros(0, np.int32)], [], 0, 0
    for number, text in enumerate(texts):
        splits = tokenized.first_splits[5 * number : 5 * number + 6]
        pieces = [tokens[start:end] for start, end in pairwise(splits)]
        kept = _fit(pieces, room)
        cut += sum(map(len, kept)) < sum(map(len, pieces))
        apart += any(len(kept[index]) < len(pieces[index]) for index in (1, 2, 3))
        left, right = (ids[2:], ids[:2]) if text.second_leads else (ids[:2], ids[2:])
        row = [kept[0], left[0], kept[1], left[1], kept[2], right[0], kept[3], right[1], kept[4]]
        lengths.append(sum(map(len, row)))
        parts += row
    splits = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    special: dict[str, Any] = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id, "pad_id": tokenizer.pad_id}
    notes = []
    if cut:
        notes.append(f"{cut:,} of {len(texts):,} texts were cut to {sequence_length} tokens around their entities")
    if apart:
        notes.append(
            f"{apart:,} of {len(texts):,} texts have entities that are too long or too far apart for {sequence_length} "
            "tokens: the middle between them was removed"
        )
    return TokenizedTexts(np.concatenate(parts), splits, **special), tuple(notes)


def _fit(pieces: Sequence[np.ndarray], room: int) -> Sequence[np.ndarray]:
    """Cut five pieces to a length: the entities have priority, then the text between them, then both sides."""
    before, left, between, right, after = pieces
    if sum(map(len, pieces)) <= room:
        return pieces
    left = left[: max(room - len(right), room - room // 2)]  # cut if the entities themselves are too long
    right = right[: room - len(left)]
    room -= len(left) + len(right)
    if len(between) > room:
        between = np.concatenate([between[: room - room // 2], between[len(between) - room // 2 :]])
        return before[:0], left, between, right, after[:0]
    room -= len(between)
    ahead = min(len(before), max(room // 2, room - len(after)))
    return before[len(before) - ahead :], left, between, right, after[: room - ahead]
