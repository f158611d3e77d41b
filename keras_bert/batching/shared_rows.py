"""Batches several texts in each row, so that little compute goes into padding.

Takes `TokenizedTexts` and gives `tf.data` batches for an encoder with `packed=True` and `example_starts`. Unlike in
`batching/length_buckets.py`, a batch has texts of all lengths and nearly all batches have one shape, so XLA compiles
once or twice.

Which texts share a batch: texts are sorted by length and cut into as many strata as a batch has texts; each batch takes
one text of every stratum. Every second stratum is assigned at random. In the others the longest text goes to the batch
that is the shortest so far, which makes all batches about equally long. Within a batch, the longest text goes first,
each into the fullest row that still has space.

Several devices divide a batch: with `parts`, each part of the rows has the texts of one part of the batch, and its own
share of the longest texts.

An example may be a group of texts (two sentences and their similarity, a question with four choices). With `group`, the
texts of a group stay in one batch, in their order, and batches are balanced by the length of whole groups.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.batching.datasets import prompt
from keras_bert.batching.length_buckets import check_column, has_token_labels
from keras_bert.text.token_labels import TokenLabels, TokenVectors
from keras_bert.text.tokenized_texts import TokenizedTexts

# === Shapes ===

# One more shape has to make all steps cheaper by this factor to be worth its compilation.
_ONE_MORE_SHAPE = 1.03


@dataclass(frozen=True)
class PackedShape:
    """The shape of all batches: the number of rows, and of tokens in a row."""

    rows: int
    width: int


def packed_shape(
    lengths: Sequence[int] | np.ndarray, *, batch_size: int, hidden_dim: int = 768, group: int = 1, parts: int = 1
) -> PackedShape:
    """Choose the cheapest shape for batches of `batch_size` of these texts.

    Usually it fits all batches. If a few long texts make some batches much longer than the others, it fits most of
    them. The others get more rows (see `packed_batches`), a shape that XLA compiles separately.

    Args:
        lengths: The number of tokens of each text, special tokens included.
        batch_size: The number of texts in a batch, or of groups.
        hidden_dim: The width of the encoder. The wider it is, the smaller is attention's share of the cost, which grows
            with the width of a row.
        group: How many texts, one after the other, are a group.
        parts: How many devices divide a batch; they get equal numbers of rows.

    Example:
        >>> packed_shape([16] * 60 + [32] * 4, batch_size=32)
        PackedShape(rows=17, width=32)
    """
    lengths = np.asarray(lengths)
    _check_sizes(lengths.size, batch_size, group, parts)
    members = _balanced_batches(_group_lengths(lengths, group), batch_size, np.random.default_rng(0))
    sizes = _sizes(lengths, _texts_of(_divided(members[:512], parts), group))
    batch_size //= parts
    longest, tokens = _round_up(int(lengths.max()), 4), sizes.sum(axis=1)

    def cost(rows: Any, width: float) -> Any:
        return rows * width * (1 + width / (6 * hidden_dim))

    def mean_cost(shape: PackedShape) -> float:
        rows = _rows_given(_place(sizes, shape)[1], shape)
        return np.mean(cost(rows, shape.width)) * _ONE_MORE_SHAPE ** (np.unique(rows).size - 1)

    best, least = PackedShape(batch_size * group, longest), np.inf
    best_first = sorted(
        range(1, batch_size * group + 1), key=lambda rows: cost(rows, max(longest, tokens.max() / rows))
    )
    for rows in best_first:
        width = max(longest, _round_up(-(-int(tokens.mean()) // rows), 4))
        while cost(rows, width) < least:  # the cost if no batch needs more rows
            shape = PackedShape(rows, width)
            best, least = min((best, least), (shape, mean_cost(shape)), key=lambda pair: pair[1])
            width += 4
    return PackedShape(parts * best.rows, best.width)


# === Batches ===


def packed_batches(
    tokenized: TokenizedTexts,
    labels: Any,
    *,
    batch_size: int,
    shape: PackedShape,
    seed: int,
    epoch: int = 0,
    epochs: int = 1,
    sample_weights: Any = None,
    group: int = 1,
    parts: int = 1,
) -> tf.data.Dataset:
    """Make batches of shared rows for `fit`, with every text once in an epoch.

    Each epoch has `ceil(texts / batch_size)` batches of nearly equal size and depends only on seed and epoch: a resumed
    run starts with its epoch and skips the batches that it has already seen. If the texts do not divide evenly, some
    batches have entries of weight 0, so use a loss with `reduction="mean_with_sample_weight"`.

    Args:
        tokenized: The texts.
        labels: An array `[n, …]`, `TokenLabels`, or a structure of them; with groups, a row for each group, but for
            each text in `TokenVectors`.
        batch_size: B, the number of texts in a batch, or of groups.
        shape: From `packed_shape`. A batch that needs more rows gets them.
        seed: The seed of the order.
        epoch: The number of the first epoch, from 0.
        epochs: The number of epochs in the dataset.
        sample_weights: The weight of each text, or of each group.
        group: G, how many texts, one after the other, are a group.
        parts: How many devices divide a batch: the first R / parts rows have the first B / parts examples, and so on.

    Returns:
        A dataset of `(inputs, labels, weights)`. The inputs are `token_ids`, `segment_ids`, `padding_mask` (0, or the
        number of the text in its batch), int32 `[R, T]`, and `example_starts`, int32 `[B * G]`: where each text begins
        in the flattened rows, so that `pooled_output [B * G, H]` can be reshaped to `[B, G, H]`. Labels of tokens are
        int32 `[R, T]`; weights then have the structure of the labels.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])
        >>> tokenized = tokenize_texts(tokenizer, ["a", "b a b"])
        >>> data = packed_batches(tokenized, [0, 1], batch_size=2, shape=PackedShape(1, 8), seed=0)
        >>> inputs, labels, weights = next(iter(data))
        >>> inputs["token_ids"].numpy().tolist(), inputs["example_starts"].numpy().tolist(), labels.numpy().tolist()
        ([[2, 5, 4, 5, 3, 2, 4, 3]], [0, 5], [1, 0])
    """
    lengths = tokenized.lengths
    _check_sizes(len(tokenized), batch_size, group, parts)
    if shape.rows % parts:
        raise ValueError(
            f"The shape has {shape.rows} rows for parts={parts}; take it from packed_shape(…, parts={parts})."
        )
    if lengths.max() > shape.width:
        raise ValueError(
            f"A text has {lengths.max()} tokens, but a row has {shape.width}; take the shape from packed_shape."
        )
    examples = len(tokenized) // group
    if sample_weights is None:
        sample_weights = np.ones(examples, np.float32)
    columns = {
        "labels": check_column(labels, examples, "labels", token_rows=len(tokenized)),
        "weights": check_column(sample_weights, examples, "weights"),
    }
    by_token = [part for part in tf.nest.flatten(columns["labels"]) if isinstance(part, TokenLabels)]
    if group > 1 and any(not isinstance(part, TokenVectors) for part in by_token):
        raise ValueError(f"group={group}: expected one label per group, but got labels of tokens; use group=1.")
    if any(part.chained for part in by_token):
        raise ValueError("Chained labels need a row for each text; use bucketed_batches.")
    plans = [
        _plan_epoch(lengths, batch_size, shape, seed, number, group, parts) for number in range(epoch, epoch + epochs)
    ]
    members, starts, rows = (np.concatenate(parts) for parts in zip(*plans, strict=True))
    return _make_batches(tokenized, members, starts, rows, shape.width, columns, group)


def _check_sizes(texts: int, batch_size: int, group: int, parts: int = 1) -> None:
    if parts < 1 or batch_size % parts:
        raise ValueError(
            f"batch_size={batch_size} does not divide among {parts} devices; use a multiple of {parts}, such as "
            f"{max(1, batch_size // max(parts, 1)) * parts}."
        )
    if not texts or batch_size < 1:
        raise ValueError(f"There are {texts} texts and batch_size={batch_size}: expected at least 1 of both.")
    if group < 1 or texts % group:
        raise ValueError(f"There are {texts} texts and group={group}: expected whole groups of at least 1 text.")


def _group_lengths(lengths: np.ndarray, group: int) -> np.ndarray:
    return lengths.reshape(-1, group).sum(axis=1)


def _texts_of(members: np.ndarray, group: int) -> np.ndarray:
    """Return the texts of the groups of each batch, `[N, B * G]` from `[N, B]`, −1 for none."""
    texts = members[:, :, None] * group + np.arange(group)
    return np.where(members[:, :, None] < 0, -1, texts).reshape(len(members), -1)


def _plan_epoch(
    lengths: np.ndarray, batch_size: int, shape: PackedShape, seed: int, epoch: int, group: int, parts: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the texts of each batch `[N, B * G]`, −1 for none; where they begin, the same shape; the rows `[N]`."""
    random = np.random.default_rng((seed, epoch))
    members = random.permutation(_balanced_batches(_group_lengths(lengths, group), batch_size, random))
    members = _texts_of(_divided(members, parts), group)  # [N * parts, B / parts * G]
    part = PackedShape(shape.rows // parts, shape.width)
    starts, needed = _place(_sizes(lengths, members), part)
    rows = _rows_given(needed.reshape(-1, parts).max(axis=1), part)  # [N], of each part
    starts = starts.reshape(len(rows), parts, -1) + (rows[:, None] * np.arange(parts) * shape.width)[:, :, None]
    return members.reshape(len(rows), -1), starts.reshape(len(rows), -1), parts * rows


def _divided(members: np.ndarray, parts: int) -> np.ndarray:
    """Divide the examples of batches, the longest first, `[N, B]`, evenly among parts: `[N * parts, B / parts]`."""
    turns = np.arange(members.shape[1]).reshape(-1, parts)
    turns[1::2] = turns[1::2, ::-1]  # the part that chose last chooses first
    return members[:, turns.T].reshape(-1, len(turns))


def _rows_given(needed: np.ndarray, shape: PackedShape) -> np.ndarray:
    """Return the rows of each batch, rounded up in steps, so that larger batches have only a few different shapes."""
    return shape.rows + _round_up(np.maximum(needed - shape.rows, 0), -(-shape.rows // 4))


def _balanced_batches(lengths: np.ndarray, batch_size: int, random: np.random.Generator) -> np.ndarray:
    """Return the texts of each batch, `[N, B]`, the longest first, −1 for none."""
    number = -(-len(lengths) // batch_size)
    order = random.permutation(len(lengths))
    order = order[np.argsort(-lengths[order], kind="stable")]
    strata = np.pad(order, (0, number * batch_size - len(order)), constant_values=-1).reshape(batch_size, number)
    sizes = _sizes(lengths, strata)
    batches, totals = np.empty((number, batch_size), np.int64), np.zeros(number, np.int64)
    for index, stratum in enumerate(strata):
        turn = random.permutation(number)
        if index % 2:
            turn = turn[np.argsort(totals[turn], kind="stable")]
        batches[turn, index] = stratum
        totals[turn] += sizes[index]
    return batches


def _place(sizes: np.ndarray, shape: PackedShape) -> tuple[np.ndarray, np.ndarray]:
    """Return where in the flattened rows each text of each batch begins, and the rows that each batch needs."""
    order = np.argsort(-sizes, axis=1, kind="stable")  # the longest first; texts without groups are sorted already
    starts, rows = _place_in_order(np.take_along_axis(sizes, order, axis=1), shape)
    return np.take_along_axis(starts, np.argsort(order, axis=1), axis=1), rows


def _place_in_order(sizes: np.ndarray, shape: PackedShape) -> tuple[np.ndarray, np.ndarray]:
    number, batch_size = sizes.shape
    used = np.zeros((number, shape.rows + batch_size), np.int64)  # rows beyond the shape are for larger batches
    spare = np.arange(used.shape[1]) >= shape.rows
    starts, every = np.zeros_like(sizes), np.arange(number)
    for index in range(batch_size):
        size = sizes[:, index, None]
        # The fullest row with enough space; if there is none, the first of the spare rows.
        merit = np.where(spare, -1 - np.arange(used.shape[1]), used)
        merit = np.where(used + size <= shape.width, merit, np.iinfo(np.int64).min)
        row = merit.argmax(axis=1)
        starts[:, index] = row * shape.width + used[every, row]
        used[every, row] += sizes[:, index]
    starts[sizes == 0] = 0
    return starts, (used > 0).cumsum(axis=1).argmax(axis=1) + 1


def _sizes(lengths: np.ndarray, members: np.ndarray) -> np.ndarray:
    return np.where(members < 0, 0, lengths[members])


def _round_up(number: Any, multiple: int) -> Any:
    return -(-number // multiple) * multiple


def _make_batches(
    tokenized: TokenizedTexts,
    members: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
    width: int,
    columns: dict[str, Any],
    group: int,
) -> tf.data.Dataset:
    """Return a dataset that builds its batches in the graph, without Python."""
    ids, splits, second_begins = (tf.constant(array) for array in tokenized.packed())
    texts_of_batch = members.shape[1]

    def make(members: tf.Tensor, starts: tf.Tensor, rows: tf.Tensor) -> tuple[Any, ...]:
        is_real = members >= 0
        chosen = tf.where(is_real, members, 0)
        begins = tf.gather(splits, chosen)
        sizes = tf.where(is_real, tf.gather(splits, chosen + 1) - begins, 0)  # [B * G]
        owner = tf.repeat(tf.range(texts_of_batch), sizes)  # each token's text in the batch; below, its place in it
        within = tf.ragged.range(sizes).flat_values
        places = (tf.gather(starts, owner) + within)[:, None]

        def spread(values: tf.Tensor, nothing: float = 0, each: Sequence[int] = ()) -> tf.Tensor:
            empty = tf.fill([rows * width, *each], nothing)
            full = tf.tensor_scatter_nd_update(empty, places, tf.cast(values, empty.dtype))
            return tf.ensure_shape(tf.reshape(full, [rows, width, *each]), [None, width, *each])

        inputs = {
            "token_ids": spread(tf.gather(ids, tf.gather(begins, owner) + within), tokenized.pad_id),
            "segment_ids": spread(within >= tf.gather(tf.gather(second_begins, chosen), owner)),
            "padding_mask": spread(owner + 1),
            "example_starts": tf.cast(starts, tf.int32),
        }
        examples = chosen[::group] // group  # [B]
        weights = tf.where(is_real[::group], tf.gather(columns["weights"], examples), 0.0)

        def take(values: Any) -> tuple[tf.Tensor, tf.Tensor]:
            """Return labels and weights: of the examples `[B]`, or of all places in the rows."""
            if not isinstance(values, TokenLabels):
                return tf.gather(values, examples), weights
            is_vector = isinstance(values, TokenVectors)
            values = tf.gather(values.values, tf.gather(begins, owner) + within)
            if is_vector:
                return spread(values, 0.0, each=values.shape[1:]), spread(tf.gather(weights, owner // group), 0.0)
            counted = tf.where(values >= 0, tf.gather(weights, owner // group), 0.0)
            return spread(tf.maximum(values, 0)), spread(counted, 0.0)

        if not has_token_labels(columns["labels"]):
            return inputs, tf.nest.map_structure(lambda values: take(values)[0], columns["labels"]), weights
        pairs = [take(values) for values in tf.nest.flatten(columns["labels"])]
        return inputs, *(tf.nest.pack_sequence_as(columns["labels"], part) for part in zip(*pairs, strict=True))

    plan = tf.data.Dataset.from_tensor_slices((members, starts, rows.astype(np.int32)))
    return prompt(plan.map(make, num_parallel_calls=2).prefetch(4))
