"""How a row is stored, and how examples become rows; NumPy only.

A record has the tokens of a row, for each token the number of its example and its segment, and for each example where
it begins and whether its second segment is random. All records of a directory have the same size, so the place of a row
in a file is a product, and a batch is a copy.
"""

from typing import Any

import numpy as np

# The last two are for `pretrain` alone: rows with one example each, padded, or with as many as fit.
LAYOUTS = ("examples", "padded", "packed")
MAX_EXAMPLES = 16  # of a shared row
_PACKED_TOGETHER = 512  # examples of a window in which rows are filled


def row_dtype(layout: str, *, sequence_length: int, vocabulary_size: int) -> np.dtype[Any]:
    """Return the type of a record.

    Example:
        >>> row_dtype("packed", sequence_length=128, vocabulary_size=30522).itemsize
        432
    """
    examples = MAX_EXAMPLES if layout == "packed" else 1
    tokens = "<u2" if vocabulary_size <= 1 << 16 else "<u4"
    return np.dtype(
        [
            ("tokens", tokens, (sequence_length,)),
            ("places", "u1", (sequence_length,)),  # twice the number of the example, from 1 on, plus the segment
            ("starts", "<u2", (examples,)),
            ("labels", "u1", (examples,)),
        ]
    )


def make_rows(ids: np.ndarray, pairs: np.ndarray, dtype: np.dtype[Any], *, special: tuple[int, int, int]) -> np.ndarray:
    """Put examples into rows: one in each, or, if the type has places for several, as many as fit.

    Args:
        ids: The tokens of a text.
        pairs: The examples, as `make_pairs` gives them: where both segments begin and end, and the label.
        dtype: From `row_dtype`.
        special: The ids of `[CLS]`, `[SEP]` and padding.
    """
    cls_id, sep_id, pad_id = special
    length, slots = dtype["tokens"].shape[0], dtype["labels"].shape[0]
    first, second = pairs[:, 1] - pairs[:, 0], pairs[:, 3] - pairs[:, 2]
    sizes = first + 2 + np.where(second > 0, second + 1, 0)
    if slots == 1:
        row, slot, start = np.arange(len(pairs)), np.zeros_like(sizes), np.zeros_like(sizes)
    else:
        row, slot, start = fill_rows(sizes, length=length, max_examples=slots)
    rows = np.zeros(row.max(initial=-1) + 1, dtype)
    rows["tokens"] = pad_id
    rows["starts"][row, slot], rows["labels"][row, slot] = start, pairs[:, 4]
    tokens, places = rows["tokens"], rows["places"]
    columns = np.stack([row, start, start + 1 + first, start + sizes, 2 * slot + 2, *pairs.T[:4]], axis=1)
    for at, begin, middle, end, place, one, one_end, two, two_end in columns.tolist():
        line = tokens[at]
        line[begin], line[middle] = cls_id, sep_id
        line[begin + 1 : middle] = ids[one:one_end]
        places[at, begin : middle + 1] = place
        if two_end > two:
            line[middle + 1 : end - 1], line[end - 1] = ids[two:two_end], sep_id
            places[at, middle + 1 : end] = place + 1
    return rows


def fill_rows(sizes: np.ndarray, *, length: int, max_examples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find a place for each example: its row, its number in the row, and its first position.

    Within windows of some hundred examples the longest come first, each into the first row with enough space.

    Example:
        >>> row, slot, start = fill_rows(np.array([3, 6, 4]), length=10, max_examples=8)
        >>> row.tolist(), slot.tolist(), start.tolist()
        ([1, 0, 0], [0, 0, 1], [0, 0, 6])
    """
    row, slot, start = (np.zeros(len(sizes), int) for _ in range(3))
    rows = 0
    for begin in range(0, len(sizes), _PACKED_TOGETHER):
        window = sizes[begin : begin + _PACKED_TOGETHER]
        room, filled = np.full(len(window), length), np.zeros(len(window), int)
        for index in np.argsort(-window, kind="stable").tolist():
            place = int(np.argmax((room >= window[index]) & (filled < max_examples)))
            row[begin + index], slot[begin + index] = rows + place, filled[place]
            start[begin + index] = length - room[place]
            room[place] -= window[index]
            filled[place] += 1
        rows += int(np.count_nonzero(filled))
    return row, slot, start


def as_batch(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return records as a batch: `token_ids`, `segment_ids`, `padding_mask [B, T]`, labels and their weights.

    Shared rows have the number of each token's example in `padding_mask`, and `example_starts`, labels and weights
    `[B, E]`, as from `pack_rows`.
    """
    places = rows["places"]
    numbers = places >> 1
    batch = {
        "token_ids": rows["tokens"].astype(np.int32),
        "segment_ids": (places & 1).astype(np.int32),
        "padding_mask": numbers.astype(np.int32),
        "next_sentence_label": rows["labels"].astype(np.int32),
    }
    if batch["next_sentence_label"].shape[1] == 1:
        batch["next_sentence_label"] = batch["next_sentence_label"][:, 0]
        return {**batch, "next_sentence_weight": np.ones(len(rows), np.float32)}
    there = np.arange(1, rows["labels"].shape[1] + 1) <= numbers.max(axis=1)[:, None]
    starts = rows["starts"].astype(np.int32)
    return {**batch, "example_starts": starts, "next_sentence_weight": there.astype(np.float32)}
