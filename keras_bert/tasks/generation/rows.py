"""Tokenize sources and targets into the rows that a prefix language model trains on.

Takes `GenerationRows` and a tokenizer; gives `GenerationData`: rows `[CLS] source [SEP] target [SEP]`, with the next
token as the label of every token from the source's `[SEP]` on. Sources and targets that are too long are cut.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from keras_bert.batching.prepared_data import PreparedData
from keras_bert.tasks.generation.files import GenerationRows, Source
from keras_bert.text.token_labels import TokenLabels
from keras_bert.text.tokenized_texts import FlatTokenizer, TokenizedTexts

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class GenerationData(PreparedData):
    """Rows to train on, and the examples they came from."""

    rows: GenerationRows = field(kw_only=True)

    def slice_examples(self, start: int, stop: int) -> "Self":
        """The examples from `start` to before `stop`."""
        rows = replace(self.rows, examples=self.rows[start:stop])
        return replace(super().slice_examples(start, stop), rows=rows)


@dataclass(frozen=True)
class Room:
    """The maximum lengths of sources and targets.

    Args:
        source: Maximum number of tokens of a source, including `[CLS]` and `[SEP]`.
        target: Maximum number of tokens of a target, including `[SEP]`.
        keeps: The part of a longer source that is kept: its `"start"`, or its `"end"` (the last turns of a dialogue).
    """

    source: int
    target: int
    keeps: str = "start"


def arrange_pairs(tokenizer: FlatTokenizer, rows: GenerationRows, room: Room) -> GenerationData:
    """Make rows with labels, and notes on what was cut.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])
        >>> data = arrange_pairs(tokenizer, as_generation_rows([("a", "b a")]), Room(8, 8))
        >>> data.tokenized.packed()[0].tolist(), data.labels.values.tolist()
        ([2, 4, 3, 5, 4, 3], [-1, -1, 5, 4, 3, -1])
    """
    missing = [example.row for example in rows if example.target is None]
    if missing:
        raise ValueError(f"Row {missing[0]} has no target; expected one for every source.")
    first_ids, first_splits, cut_sources = tokenize_sources(tokenizer, rows.sources, room)
    second_ids, second_splits = tokenizer.tokenize_flat([target or "" for target in rows.targets])
    wanted = np.diff(second_splits)
    kept = np.minimum(wanted, room.target - 1)
    second_ids = np.concatenate(
        [np.zeros(0, np.int32)]
        + [second_ids[begin : begin + count] for begin, count in zip(second_splits[:-1], kept, strict=True)]
    ).astype(np.int32)
    special = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id, "pad_id": tokenizer.pad_id}
    tokenized = TokenizedTexts(first_ids, first_splits, second_ids, _splits(kept), **special)
    notes = _notes(rows, cut_sources, int(np.sum(kept < wanted)), room)
    return GenerationData(
        tokenized, _next_tokens(tokenized, kept == wanted), None, np.arange(len(rows)), notes, rows=rows
    )


def tokenize_sources(
    tokenizer: FlatTokenizer, sources: Sequence[Source], room: Room
) -> tuple[np.ndarray, np.ndarray, int]:
    """Tokenize sources into ids without `[CLS]` and the last `[SEP]`, where each begins, and how many were cut.

    The texts of a source are separated by `[SEP]`.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])
        >>> tokenize_sources(tokenizer, [("a", "b")], Room(8, 8))[0].tolist()
        [4, 3, 5]
    """
    turns = [(source,) if isinstance(source, str) else source for source in sources]
    ids, splits = tokenizer.tokenize_flat([turn for source in turns for turn in source])
    most, kept, cut, place = room.source - 2, [np.zeros(0, np.int32)], 0, 0
    for source in turns:
        parts: list[list[int] | np.ndarray] = []
        for _ in source:
            parts += [[tokenizer.sep_id], ids[splits[place] : splits[place + 1]]]
            place += 1
        row = np.concatenate(parts[1:]).astype(np.int32)
        cut += len(row) > most
        kept.append(row[:most] if room.keeps == "start" else row[-most:])
    return np.concatenate(kept), _splits([len(row) for row in kept[1:]]), cut


def _next_tokens(tokenized: TokenizedTexts, is_whole: np.ndarray) -> TokenLabels:
    """The label of each token of all rows: the next token, if that belongs to the target."""
    ids, splits, second_begins = tokenized.packed()
    labels = np.append(ids[1:], -1).astype(np.int32)
    lengths = np.diff(splits)
    within = np.arange(len(ids)) - np.repeat(splits[:-1], lengths)
    labels[within < np.repeat(second_begins - 1, lengths)] = -1
    labels[splits[1:] - 1] = -1  # the last token of a row has no next one
    labels[(splits[1:] - 2)[~is_whole]] = -1  # a target that was cut has no real end
    return TokenLabels(labels, splits)


def _notes(rows: GenerationRows, cut_sources: int, cut_targets: int, room: Room) -> tuple[str, ...]:
    notes = (str(rows.report),) if rows.report.dropped else ()
    if cut_sources:
        notes += (f"{cut_sources:,} of {len(rows):,} sources were cut to {room.source} tokens",)
    if cut_targets:
        notes += (f"{cut_targets:,} of {len(rows):,} targets were cut to {room.target} tokens",)
    return notes


def _splits(lengths: ArrayLike) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
