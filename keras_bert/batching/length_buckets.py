"""Tokenized texts → batches of similar length, each padded to one of a few widths.

Takes `TokenizedTexts`, gives `tf.data` batches for the encoder. A room of its own because which rows share a batch
decides how much compute goes into padding, and how many shapes XLA has to compile.

All batches of an epoch are full but the last. What is left over in a bucket moves up into the next wider one, so there
is one shape for each bucket and one more for the last batch, which always has the widest bucket's width: the same shape
in every epoch. The other way, filling each bucket's last batch with rows of weight zero, gives more steps than plain
batches do, some of them of few examples, and a wrong mean in every loss and metric that does not divide by the weights.
For the one last batch it can be had (`fill_last`), where compiling a shape costs more than a few rows too many.
"""

from collections.abc import Sequence
from dataclasses import replace

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

# === Widths ===


# === Training ===


def bucketed_batches(
    tokenized: TokenizedTexts,
    labels=None,
    *,
    batch_size: int,
    boundaries: Sequence[int],
    shuffle_seed: int | None = None,
    epoch: int = 0,
    epochs: int = 1,
    sample_weights=None,
    drop_remainder: bool = False,
    fill_last: bool = False,
) -> tf.data.Dataset:
    """Batches of rows of similar length, every row once in an epoch; what `fit` takes.

    Each epoch has `ceil(rows / batch_size)` batches and is a function of seed and epoch: a resumed run asks for its
    epoch, and skips the batches that it has seen.

    Args:
        tokenized: The texts, none longer than the last boundary.
        labels: An array `[n, …]`, `TokenLabels`, or a structure of them; `None` gives the inputs alone. With
            `TokenLabels` weights are always given, in the structure of the labels: `[B, T]` for tokens.
        batch_size: The rows of a batch.
        boundaries: The widths, from `bucket_boundaries`.
        shuffle_seed: Mixes rows and buckets; `None` goes bucket by bucket, in the order of the rows.
        epoch: The number of the epoch, from 0.
        epochs: How many epochs follow each other in the dataset, each in an order of its own; for
            `fit(steps_per_epoch=…)`.
        sample_weights: The weight of each row.
        drop_remainder: Leave out the last batch where it is not full; in the next epoch other rows are left out.
        fill_last: Fill the last batch with rows of weight 0. Weights are then always given; take a loss with
            `reduction="mean_with_sample_weight"` and `weighted_metrics`, and the numbers are those of the short batch.

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
        raise ValueError("sample_weights and fill_last need labels: pass labels, or leave them out.")
    if drop_remainder and fill_last:
        raise ValueError("drop_remainder=True and fill_last=True: the last batch is dropped or filled; choose one.")
    boundaries = _check(tokenized, batch_size, boundaries)
    if drop_remainder and len(tokenized) < batch_size:
        raise ValueError(f"drop_remainder=True leaves none of {len(tokenized)} rows at batch_size={batch_size}.")
    if sample_weights is None and (fill_last or has_token_labels(labels)):
        sample_weights = np.ones(len(tokenized), np.float32)
    columns = {"labels": labels, "weights": sample_weights}
    columns = {name: check_column(value, len(tokenized), name) for name, value in columns.items() if value is not None}
    plans = [
        _plan_epoch(tokenized.lengths, batch_size, boundaries, shuffle_seed, number, drop_remainder, fill_last)
        for number in range(epoch, epoch + epochs)
    ]
    rows, widths = (np.concatenate(parts) for parts in zip(*plans, strict=True))
    full = drop_remainder or fill_last or len(tokenized) % batch_size == 0
    return _make_batches(tokenized, rows, widths, columns, fill_last, full)


def _plan_epoch(lengths, batch_size, boundaries, seed, epoch, drop_remainder, fill_last):
    """The rows of each batch, `[batches, batch_size]` with −1 for none, and its width."""
    random = None if seed is None else np.random.default_rng((seed, epoch))
    order = np.arange(len(lengths)) if random is None else random.permutation(len(lengths))
    buckets = np.searchsorted(boundaries, lengths[order])
    full, widths, left = [np.zeros((0, batch_size), np.int64)], [], order[:0]
    for bucket, width in enumerate(boundaries):
        waiting = np.concatenate([left, order[buckets == bucket]])
        count = len(waiting) // batch_size
        full.append(waiting[: count * batch_size].reshape(count, batch_size))
        widths += [width] * count
        left = waiting[count * batch_size :]
    rows, widths = np.concatenate(full), np.array(widths, np.int32)
    if random is not None:
        mixed = random.permutation(len(rows))
        rows, widths = rows[mixed], widths[mixed]
    if len(left) and not drop_remainder:
        # Filled up, the last batch can take any bucket's shape. A short one keeps to the widest, to be one shape alone.
        last = boundaries[np.searchsorted(boundaries, lengths[left].max())] if fill_last else boundaries[-1]
        left = np.pad(left, (0, batch_size - len(left)), constant_values=-1)
        rows, widths = np.concatenate([rows, left[None]]), np.append(widths, np.int32(last))
    return rows, widths


# === Prediction ===


def length_sorted_batches(
    tokenized: TokenizedTexts, *, batch_size: int, boundaries: Sequence[int], fill_last: bool = False
) -> tuple[tf.data.Dataset, np.ndarray]:
    """Batches for `predict`, the longest rows first, and the row that each output will belong to.

    Args:
        tokenized: The texts, none longer than the last boundary.
        batch_size: The rows of a batch.
        boundaries: The widths, from `bucket_boundaries`.
        fill_last: Fill the last batch with copies of a row, so that no shape depends on the number of texts; their
            place in the order is −1, and `restore_order` leaves them out.

    Returns:
        A dataset of inputs, and the order of the rows. Short rows come last, where a batch too few costs least.

    Example:
        >>> batches, order = length_sorted_batches(tokenized, batch_size=2, boundaries=(4, 8))
        >>> order.tolist()
        [1, 0, 2]
        >>> logits = restore_order(model.predict(batches)["class_logits"], order)
    """
    boundaries = _check(tokenized, batch_size, boundaries)
    lengths = tokenized.lengths
    order = np.argsort(-lengths, kind="stable")
    order = np.pad(order, (0, -len(order) % batch_size), constant_values=-1)
    rows = order.reshape(-1, batch_size)
    widths = boundaries[np.searchsorted(boundaries, lengths[rows[:, 0]])]
    batches = _make_batches(tokenized, rows, widths, {}, fill_last, fill_last or len(tokenized) % batch_size == 0)
    return batches, order if fill_last else order[: len(tokenized)]


def restore_order(outputs: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Outputs of `length_sorted_batches`, in the order of the texts again.

    Example:
        >>> restore_order(np.array([10, 20, 30, 99]), np.array([2, 0, 1, -1])).tolist()
        [20, 30, 10]
    """
    if len(outputs) != len(order):
        raise ValueError(f"There are {len(outputs)} outputs for {len(order)} rows; pass all that the batches gave.")
    real = order >= 0
    return np.asarray(outputs)[real][np.argsort(order[real])]


def restore_token_order(outputs: np.ndarray, order: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Outputs for tokens, row after row of `length_sorted_batches`, in the order of the texts again.

    Args:
        outputs: `[tokens, …]`, without padding.
        order: The row that each row of the batches was.
        lengths: The tokens of each row, in the order of the texts.

    Example:
        >>> restore_token_order(np.array([20, 21, 10]), np.array([1, 0]), np.array([1, 2])).tolist()
        [10, 20, 21]
    """
    if len(outputs) != lengths.sum():
        raise ValueError(f"There are {len(outputs)} outputs for {lengths.sum()} tokens; pass all, without padding.")
    begins = np.zeros(len(order), np.int64)
    begins[order] = np.cumsum(lengths[order]) - lengths[order]
    within = np.arange(len(outputs)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return outputs[np.repeat(begins, lengths) + within]


# === Batches ===


def _make_batches(tokenized, rows, widths, columns, fill, full) -> tf.data.Dataset:
    """A dataset that packs rows of the set in the graph, so that making a batch takes no Python."""
    ids, splits, second_begins = (tf.constant(array) for array in tokenized.packed())
    batch_size = rows.shape[1] if full else None

    def make(chosen, width):
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

        def take(values):
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


def _check(tokenized, batch_size, boundaries):
    boundaries = np.asarray(boundaries, np.int32)
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size}: expected at least 1.")
    if boundaries.ndim != 1 or not boundaries.size or np.any(np.diff(boundaries) <= 0):
        raise ValueError(f"boundaries={boundaries.tolist()}: expected ascending widths, as bucket_boundaries gives.")
    if not len(tokenized):
        raise ValueError("There are no texts; expected at least one.")
    if (longest := int(tokenized.lengths.max())) > boundaries[-1]:
        raise ValueError(
            f"Row {int(tokenized.lengths.argmax())} has {longest} tokens, the widest boundary is {boundaries[-1]}; use "
            "trimmed() or windows(), or choose the boundaries for all sets together."
        )
    return boundaries


def _weigh_tokens(kinds, is_token, labels, weights):
    """Labels and weights in one structure: tokens without a label count 0, and a chain by its labelled tokens."""

    def weigh(kind, values):
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


def has_token_labels(labels) -> bool:
    """Whether a structure of labels has some for tokens."""
    return any(isinstance(part, TokenLabels) for part in tf.nest.flatten(labels))


def check_column(values, rows, name, token_rows=None):
    """Labels or weights as tensors, a row for each example; of tokens for each text, where that is not the same."""
    texts = rows if token_rows is None else token_rows

    def convert(array):
        if isinstance(array, TokenLabels):
            if len(array) != texts or len(array.values) != array.splits[-1]:
                raise ValueError(f"{name} are for {len(array)} rows of tokens, the texts {texts}; expected as many.")
            return replace(array, values=_on_tokens(array))
        array = tf.convert_to_tensor(array, tf.float32) if name == "weights" else tf.convert_to_tensor(array)
        if not array.shape.rank or array.shape[0] != rows:
            raise ValueError(f"{name} has shape {array.shape}, the texts {rows} rows; expected one of {name} each.")
        return array

    # A list is a column, not a structure of columns.
    return convert(values) if isinstance(values, list | tuple) else tf.nest.map_structure(convert, values)


def _on_tokens(array):
    return tf.constant(array.values) if isinstance(array, TokenVectors) else tf.constant(array.values, tf.int32)
