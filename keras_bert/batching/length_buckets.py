"""Batches texts of similar length, each batch padded to one of a few widths.

Takes `TokenizedTexts` and gives `tf.data` batches for the encoder. Which rows share a batch decides how much compute
goes into padding, and how many shapes XLA has to compile.

All batches of an epoch are full except the last. Rows left over in a bucket move to the next wider one, so there is one
shape for each bucket and one for the last batch, which always has the largest width: the same shape in every epoch.
Filling the last batch of each bucket with rows of weight 0 instead would give more steps, some of them with few
examples, and a wrong mean in every loss and metric that does not divide by the weights. `fill_last` does it for the
last batch of the epoch only, which saves the compilation of one shape.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.batching.datasets import prompt
from keras_bert.text.token_labels import TokenLabels, TokenVectors
from keras_bert.text.tokenized_texts import TokenizedTexts, tokenize_texts

__all__ = [
    "TokenizedTexts",
    "bucketed_batches",
    "length_sorted_batches",
    "restore_order",
    "restore_token_order",
    "tokenize_texts",
]

# === Training ===


def bucketed_batches(
    tokenized: TokenizedTexts,
    labels: Any = None,
    *,
    batch_size: int,
    boundaries: Sequence[int],
    shuffle_seed: int | None = None,
    epoch: int = 0,
    epochs: int = 1,
    sample_weights: Any = None,
    drop_remainder: bool = False,
    fill_last: bool = False,
    padded_to: Sequence[int] | None = None,
) -> tf.data.Dataset:
    """Make batches of rows of similar length for `fit`, with every row once in an epoch.

    Each epoch has `ceil(rows / batch_size)` batches and depends only on seed and epoch: a resumed run starts with its
    epoch and skips the batches that it has already seen.

    Args:
        tokenized: The texts, none longer than the last boundary.
        labels: An array `[n, …]`, `TokenLabels`, or a structure of them; with `None` the batches are inputs only. With
            `TokenLabels` there are always weights, in the structure of the labels: `[B, T]` for tokens.
        batch_size: The number of rows in a batch.
        boundaries: The widths, from `bucket_boundaries`.
        shuffle_seed: The seed for shuffling rows and buckets; `None` goes bucket by bucket, in the order of the rows.
        epoch: The number of the first epoch, from 0.
        epochs: The number of epochs in the dataset, each in a different order; for `fit(steps_per_epoch=…)`.
        sample_weights: The weight of each row.
        drop_remainder: Whether to leave out a last batch that is not full. Each epoch leaves out different rows.
        fill_last: Whether to fill the last batch with rows of weight 0. There are then always weights; with
            `weighted_metrics` and a loss with `reduction="mean_with_sample_weight"` the results do not change.
        padded_to: Fewer, larger widths to pad the same batches to, where each shape is expensive to compile.

    Returns:
        A dataset of `(inputs, labels)` or `(inputs, labels, weights)`; the inputs are `token_ids`, `segment_ids`,
        `padding_mask`, int32 `[B, T]`.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])
        >>> tokenized = tokenize_texts(tokenizer, ["a", "a b a b a", "b"])
        >>> data = bucketed_batches(tokenized, [0, 1, 0], batch_size=2, boundaries=(4, 8))
        >>> [(inputs["token_ids"].shape.as_list(), labels.numpy().tolist()) for inputs, labels in data]
        [([2, 4], [0, 0]), ([1, 8], [1])]
    """
    if labels is None and (sample_weights is not None or fill_last):
        raise ValueError("Got sample_weights or fill_last=True without labels; pass labels, or leave both out.")
    if drop_remainder and fill_last:
        raise ValueError("drop_remainder=True and fill_last=True: the last batch is dropped or filled; choose one.")
    bounds = _check(tokenized, batch_size, boundaries)
    if drop_remainder and len(tokenized) < batch_size:
        raise ValueError(
            f"drop_remainder=True leaves none of {len(tokenized)} rows at batch_size={batch_size}; use a smaller batch."
        )
    if sample_weights is None and (fill_last or has_token_labels(labels)):
        sample_weights = np.ones(len(tokenized), np.float32)
    given = {"labels": labels, "weights": sample_weights}
    columns = {name: check_column(value, len(tokenized), name) for name, value in given.items() if value is not None}
    plans = [
        _plan_epoch(tokenized.lengths, batch_size, bounds, shuffle_seed, number, drop_remainder, fill_last)
        for number in range(epoch, epoch + epochs)
    ]
    rows, widths = (np.concatenate(parts) for parts in zip(*plans, strict=True))
    if padded_to is not None:
        wider = _check(tokenized, batch_size, padded_to)
        widths = wider[np.searchsorted(wider, np.minimum(widths, wider[-1]))]
    full = drop_remainder or fill_last or len(tokenized) % batch_size == 0
    return _make_batches(tokenized, rows, widths, columns, fill_last, full)


def _plan_epoch(
    lengths: np.ndarray,
    batch_size: int,
    boundaries: np.ndarray,
    seed: int | None,
    epoch: int,
    drop_remainder: bool,
    fill_last: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of each batch, `[batches, batch_size]` with −1 for none, and its width."""
    random = None if seed is None else np.random.default_rng((seed, epoch))
    order = np.arange(len(lengths)) if random is None else random.permutation(len(lengths))
    buckets = np.searchsorted(boundaries, lengths[order])
    full, each_width, left = [np.zeros((0, batch_size), np.int64)], [], order[:0]
    for bucket, width in enumerate(boundaries):
        waiting = np.concatenate([left, order[buckets == bucket]])
        count = len(waiting) // batch_size
        full.append(waiting[: count * batch_size].reshape(count, batch_size))
        each_width += [width] * count
        left = waiting[count * batch_size :]
    rows, widths = np.concatenate(full), np.array(each_width, np.int32)
    if random is not None:
        mixed = random.permutation(len(rows))
        rows, widths = rows[mixed], widths[mixed]
    if len(left) and not drop_remainder:
        # A full last batch can have any bucket's shape. A short one has the largest width, to add only one shape.
        last = boundaries[np.searchsorted(boundaries, lengths[left].max())] if fill_last else boundaries[-1]
        left = np.pad(left, (0, batch_size - len(left)), constant_values=-1)
        rows, widths = np.concatenate([rows, left[None]]), np.append(widths, np.int32(last))
    return rows, widths


# === Prediction ===


def length_sorted_batches(
    tokenized: TokenizedTexts, *, batch_size: int, boundaries: Sequence[int], fill_last: bool = False
) -> tuple[tf.data.Dataset, np.ndarray]:
    """Make batches for `predict`, the longest rows first; also return the row that each output belongs to.

    Args:
        tokenized: The texts, none longer than the last boundary.
        batch_size: The number of rows in a batch.
        boundaries: The widths, from `bucket_boundaries`.
        fill_last: Whether to fill the last batch with copies of a row, so that no shape depends on the number of texts.
            They have −1 in the order, and `restore_order` leaves them out.

    Returns:
        A dataset of inputs, and the order of the rows. The shortest rows come last, because a batch that is not full
        costs the least there.

    Example:
        >>> batches, order = length_sorted_batches(tokenized, batch_size=2, boundaries=(4, 8))
        >>> order.tolist()
        [1, 0, 2]
        >>> logits = restore_order(model.predict(batches)["class_logits"], order)
    """
    bounds = _check(tokenized, batch_size, boundaries)
    lengths = tokenized.lengths
    order = np.argsort(-lengths, kind="stable")
    order = np.pad(order, (0, -len(order) % batch_size), constant_values=-1)
    rows = order.reshape(-1, batch_size)
    widths = bounds[np.searchsorted(bounds, lengths[rows[:, 0]])]
    batches = _make_batches(tokenized, rows, widths, {}, fill_last, fill_last or len(tokenized) % batch_size == 0)
    return batches, order if fill_last else order[: len(tokenized)]


def restore_order(outputs: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Put the outputs for `length_sorted_batches` into the order of the texts.

    Example:
        >>> restore_order(np.array([10, 20, 30, 99]), np.array([2, 0, 1, -1])).tolist()
        [20, 30, 10]
    """
    if len(outputs) != len(order):
        raise ValueError(f"Got {len(outputs)} outputs for {len(order)} rows; pass the outputs of all batches.")
    real = order >= 0
    return np.asarray(outputs)[real][np.argsort(order[real])]


def restore_token_order(outputs: np.ndarray, order: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Put the outputs for the tokens of `length_sorted_batches` into the order of the texts.

    Args:
        outputs: `[tokens, …]`, row after row, without padding.
        order: The order that `length_sorted_batches` returned.
        lengths: The number of tokens of each row, in the order of the texts.

    Example:
        >>> restore_token_order(np.array([20, 21, 10]), np.array([1, 0]), np.array([1, 2])).tolist()
        [10, 20, 21]
    """
    if len(outputs) != lengths.sum():
        raise ValueError(
            f"Got {len(outputs)} outputs for {lengths.sum()} tokens; pass the outputs of all tokens, without padding."
        )
    begins = np.zeros(len(order), np.int64)
    begins[order] = np.cumsum(lengths[order]) - lengths[order]
    within = np.arange(len(outputs)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return outputs[np.repeat(begins, lengths) + within]


# === Batches ===


def _make_batches(
    tokenized: TokenizedTexts,
    rows: np.ndarray,
    widths: np.ndarray,
    columns: dict[str, Any],
    fill: bool,
    full: bool,
) -> tf.data.Dataset:
    """Return a dataset that builds its batches in the graph, without Python."""
    ids, splits, second_begins = (tf.constant(array) for array in tokenized.packed())
    batch_size = rows.shape[1] if full else None

    def make(chosen: tf.Tensor, width: tf.Tensor) -> Any:
        is_real = chosen >= 0
        chosen = tf.where(is_real, chosen, chosen[0]) if fill else tf.boolean_mask(chosen, is_real)
        chosen = tf.ensure_shape(chosen, [batch_size])
        starts = tf.gather(splits, chosen)[:, None]
        places = tf.range(tf.cast(width, tf.int64))[None, :]  # [1, T]
        is_token = places < tf.gather(splits, chosen + 1)[:, None] - starts  # [B, T]
        token_ids = tf.gather(ids, tf.where(is_token, starts + places, 0))
        inputs = {
            "token_ids": tf.where(is_token, token_ids, tokenized.pad_id),
            "segment_ids": tf.cast(is_token & (places >= tf.gather(second_begins, chosen)[:, None]), tf.int32),
            "padding_mask": tf.cast(is_token, tf.int32),
        }

        def take(values: Any) -> tf.Tensor:
            if not isinstance(values, TokenLabels):
                return tf.gather(values, chosen)
            found = tf.gather(values.values, tf.where(is_token, starts + places, 0))
            if isinstance(values, TokenVectors):
                return tf.where(is_token[..., None], tf.cast(found, tf.float32), 0.0)
            return tf.where(is_token, found, -1)

        taken = tf.nest.map_structure(take, columns)
        if fill and "weights" in taken:
            taken["weights"] = tf.where(is_real, taken["weights"], 0.0)
        if has_token_labels(columns.get("labels")):
            taken = _weigh_tokens(columns["labels"], is_token, **taken)
        return (inputs, *(taken[name] for name in ("labels", "weights") if name in taken)) if taken else inputs

    plan = tf.data.Dataset.from_tensor_slices((rows, widths.astype(np.int32)))
    return prompt(plan.map(make, num_parallel_calls=2).prefetch(4))


def _check(tokenized: TokenizedTexts, batch_size: int, boundaries: Sequence[int] | np.ndarray) -> np.ndarray:
    bounds = np.asarray(boundaries, np.int32)
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: expected at least 1.")
    if bounds.ndim != 1 or not bounds.size or np.any(np.diff(bounds) <= 0):
        raise ValueError(f"boundaries={bounds.tolist()}: expected ascending widths, as bucket_boundaries gives.")
    if not len(tokenized):
        raise ValueError("There are no texts; expected at least one.")
    if (longest := int(tokenized.lengths.max())) > bounds[-1]:
        raise ValueError(
            f"Row {int(tokenized.lengths.argmax())} has {longest} tokens, the widest boundary is {bounds[-1]}; use "
            "trimmed() or windows(), or choose the boundaries for all sets together."
        )
    return bounds


def _weigh_tokens(kinds: Any, is_token: tf.Tensor, labels: Any, weights: tf.Tensor) -> dict[str, Any]:
    """Return labels and weights in one structure; tokens without a label have weight 0.

    A chain is weighted by the number of its labelled tokens.
    """

    def weigh(kind: Any, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        if not isinstance(kind, TokenLabels):
            return values, weights
        if isinstance(kind, TokenVectors):
            return values, weights[:, None] * tf.cast(is_token, tf.float32)
        labelled = tf.cast(values >= 0, tf.float32)  # [B, T]
        if kind.chained:
            return values, weights * tf.reduce_sum(labelled, axis=1)
        return tf.maximum(values, 0), weights[:, None] * labelled

    pairs = [weigh(*both) for both in zip(tf.nest.flatten(kinds), tf.nest.flatten(labels), strict=True)]
    parts = (tf.nest.pack_sequence_as(kinds, part) for part in zip(*pairs, strict=True))
    return dict(zip(("labels", "weights"), parts, strict=True))


def has_token_labels(labels: Any) -> bool:
    """Return whether a structure of labels has labels for single tokens."""
    return any(isinstance(part, TokenLabels) for part in tf.nest.flatten(labels))


def check_column(values: Any, rows: int, name: str, token_rows: int | None = None) -> Any:
    """Return labels or weights as tensors, and check their number of rows.

    Args:
        values: An array, `TokenLabels`, or a structure of them.
        rows: The number of examples.
        name: `"labels"` or `"weights"`.
        token_rows: The number of texts, which `TokenLabels` must have, if it is not the number of examples.
    """
    texts = rows if token_rows is None else token_rows

    def convert(array: Any) -> Any:
        if isinstance(array, TokenLabels):
            if len(array) != texts or len(array.values) != array.splits[-1]:
                raise ValueError(f"Got {name} for the tokens of {len(array)} texts; expected {texts} texts.")
            return replace(array, values=_on_tokens(array))
        array = tf.convert_to_tensor(array, tf.float32) if name == "weights" else tf.convert_to_tensor(array)
        if not array.shape.rank or array.shape[0] != rows:
            raise ValueError(f"The {name} have shape {array.shape}; expected {rows} rows, one for each example.")
        return array

    # A list is a column, not a structure of columns.
    return convert(values) if isinstance(values, list | tuple) else tf.nest.map_structure(convert, values)


def _on_tokens(array: TokenLabels) -> tf.Tensor:
    return tf.constant(array.values) if isinstance(array, TokenVectors) else tf.constant(array.values, tf.int32)
