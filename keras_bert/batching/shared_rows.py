"""Tokenized texts → batches of full rows: several texts side by side in one row, so that no compute goes into padding.

Takes `TokenizedTexts`, gives `tf.data` batches for an encoder with `packed=True` and `example_starts`. A room of its
own beside `batching/length_buckets.py`, which pads texts of similar length: here a batch has texts of all lengths and
nearly all batches have one shape, so XLA compiles once or twice, and of the places one in thirty is empty instead of
one in six.

Which texts share a batch: they are sorted by length and cut into as many strata as a batch has texts; each batch takes
one text of every stratum. Every second stratum is dealt by chance, the others by need, the longest text to the batch
that is shortest so far, which makes all batches equally long. How the texts of a batch share rows: the longest first,
each into the fullest row that still has room.

An example may be a group of texts (two sentences and their similarity, a question with four choices): with `group` the
texts of a group stay in one batch, in their order, and batches are dealt by the length of whole groups.
"""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_bert.batching.datasets import prompt
from keras_bert.batching.length_buckets import check_column, has_token_labels
from keras_bert.text.token_labels import TokenLabels, TokenVectors
from keras_bert.text.tokenized_texts import TokenizedTexts

# === Shapes ===

# To compile a step for one more shape must save so much of all steps.
_ONE_MORE_SHAPE = 1.03


@dataclass(frozen=True)
class PackedShape:
    """The shape of all batches: rows and tokens of a row."""

    rows: int
    width: int


def packed_shape(lengths, *, batch_size: int, hidden_dim: int = 768, group: int = 1) -> PackedShape:
    """Choose the cheapest shape for batches of `batch_size` of these texts.

    Most often it is one that holds them all. Where some batches are much longer than the others, because of a few long
    texts, it is one that holds most: the others get more rows (see `packed_batches`), which XLA compiles by themselves.

    Args:
        lengths: The lengths of the packed texts, special tokens included.
        batch_size: The texts of a batch, or its groups.
        hidden_dim: The width of the encoder: attention costs more in wide rows, and less beside a wide encoder.
        group: How many texts, one after the other, are a group.

    Example:
        >>> packed_shape([16] * 60 + [32] * 4, batch_size=32)
        PackedShape(rows=17, width=32)
    """
    lengths = np.asarray(lengths)
    _check_sizes(lengths.size, batch_size, group)
    members = _balanced_batches(_group_lengths(lengths, group), batch_size, np.random.default_rng(0))
    sizes = _sizes(lengths, _texts_of(members[:512], group))
    longest, tokens = _round_up(int(lengths.max()), 4), sizes.sum(axis=1)

    def cost(rows, width):
        return rows * width * (1 + width / (6 * hidden_dim))

    def mean_cost(shape):
        rows = _rows_given(_place(sizes, shape)[1], shape)
        return np.mean(cost(rows, shape.width)) * _ONE_MORE_SHAPE ** (np.unique(rows).size - 1)

    best, least = PackedShape(batch_size * group, longest), np.inf
    best_first = sorted(
        range(1, batch_size * group + 1), key=lambda rows: cost(rows, max(longest, tokens.max() / rows))
    )
    for rows in best_first:
        width = max(longest, _round_up(-(-int(tokens.mean()) // rows), 4))
        while cost(rows, width) < least:  # what it costs even if no batch needs more rows
            shape = PackedShape(rows, width)
            best, least = min((best, least), (shape, mean_cost(shape)), key=lambda pair: pair[1])
            width += 4
    return best


# === Batches ===


def packed_batches(
    tokenized: TokenizedTexts,
    labels,
    *,
    batch_size: int,
    shape: PackedShape,
    seed: int,
    epoch: int = 0,
    epochs: int = 1,
    sample_weights=None,
    group: int = 1,
) -> tf.data.Dataset:
    """Batches of full rows, every text once in an epoch; what `fit` takes.

    Each epoch has `ceil(texts / batch_size)` batches, as equal as can be, and is a function of seed and epoch: a
    resumed run asks for its epoch, and skips the batches it has seen. Where texts do not divide evenly, a batch has
    places of weight 0: take a loss with `reduction="mean_with_sample_weight"`.

    Args:
        tokenized: The texts.
        labels: An array `[n, …]`, `TokenLabels`, or a structure of them; with groups, a row for each group, and for
            each text of `TokenVectors`.
        batch_size: B, the texts of a batch, or its groups.
        shape: From `packed_shape`. A batch that chance has made larger gets more rows.
        seed: Of the order.
        epoch: The number of the first epoch, from 0.
        epochs: How many epochs follow each other in the dataset.
        sample_weights: The weight of each text, or of each group.
        group: G, how many texts, one after the other, are a group.

    Returns:
        A dataset of `(inputs, labels, weights)`. The inputs are `token_ids`, `segment_ids`, `padding_mask` (0, or the
        number of the text in its batch), int32 `[R, T]`, and `example_starts`, int32 `[B * G]`: where in the flattened
        rows each text begins, so that `pooled_output [B * G, H]` is `[B, G, H]` reshaped. Labels for tokens are int32
        `[R, T]`; weights then have the structure of the labels.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"])
        >>> tokenized = tokenize_texts(tokenizer, ["a", "b a b"])
        >>> data = packed_batches(tokenized, [0, 1], batch_size=2, shape=PackedShape(1, 8), seed=0)
        >>> inputs, labels, weights = next(iter(data))
        >>> inputs["token_ids"].numpy().tolist(), inputs["example_starts"].numpy().tolist(), labels.numpy().tolist()
        ([[2, 5, 4, 5, 3, 2, 4, 3]], [0, 5], [1, 0])
    """
    lengths = tokenized.lengths
    _check_sizes(len(tokenized), batch_size, group)
    if lengths.max() > shape.width:
        raise ValueError(f"A text has {lengths.max()} tokens, a row {shape.width}; take the shape from packed_shape.")
    examples = len(tokenized) // group
    if sample_weights is None:
        sample_weights = np.ones(examples, np.float32)
    columns = {
        "labels": check_column(labels, examples, "labels", token_rows=len(tokenized)),
        "weights": check_column(sample_weights, examples, "weights"),
    }
    by_token = [part for part in tf.nest.flatten(columns["labels"]) if isinstance(part, TokenLabels)]
    if group > 1 and any(not isinstance(part, TokenVectors) for part in by_token):
        raise ValueError(f"group={group}: a group has labels of its own, not one for each token; use group=1.")
    if any(part.chained for part in by_token):
        raise ValueError("Labels that are taken as a chain cannot share a row with another text: use bucketed_batches.")
    plans = [_plan_epoch(lengths, batch_size, shape, seed, number, group) for number in range(epoch, epoch + epochs)]
    members, starts, rows = (np.concatenate(parts) for parts in zip(*plans, strict=True))
    return _make_batches(tokenized, members, starts, rows, shape.width, columns, group)


def _check_sizes(texts, batch_size, group):
    if not texts or batch_size < 1:
        raise ValueError(f"There are {texts} texts and batch_size={batch_size}: expected at least 1 of both.")
    if group < 1 or texts % group:
        raise ValueError(f"There are {texts} texts and group={group}: expected whole groups of at least 1 text.")


def _group_lengths(lengths, group):
    return lengths.reshape(-1, group).sum(axis=1)


def _texts_of(members, group):
    """The texts of the groups of each batch, `[N, B]` → `[N, B * G]`, −1 for none."""
    texts = members[:, :, None] * group + np.arange(group)
    return np.where(members[:, :, None] < 0, -1, texts).reshape(len(members), -1)


def _plan_epoch(lengths, batch_size, shape, seed, epoch, group):
    """The texts of each batch `[N, B * G]`, −1 for none; where they begin, the same shape; its rows `[N]`."""
    random = np.random.default_rng((seed, epoch))
    members = random.permutation(_balanced_batches(_group_lengths(lengths, group), batch_size, random))
    members = _texts_of(members, group)
    starts, rows = _place(_sizes(lengths, members), shape)
    return members, starts, _rows_given(rows, shape)


def _rows_given(needed, shape):
    """In steps, so that the rare batch that needs more rows does not bring a new shape each time."""
    return shape.rows + _round_up(np.maximum(needed - shape.rows, 0), -(-shape.rows // 4))


def _balanced_batches(lengths, batch_size, random):
    """The texts of each batch, `[N, B]`, the longest first, −1 for none."""
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


def _place(sizes, shape):
    """Where in the flattened rows each text of each batch begins, and the rows that each batch needs."""
    order = np.argsort(-sizes, axis=1, kind="stable")  # the longest first, which leaves single texts as they are
    starts, rows = _place_in_order(np.take_along_axis(sizes, order, axis=1), shape)
    return np.take_along_axis(starts, np.argsort(order, axis=1), axis=1), rows


def _place_in_order(sizes, shape):
    number, batch_size = sizes.shape
    used = np.zeros((number, shape.rows + batch_size), np.int64)  # rows beyond the shape are for batches too large
    spare = np.arange(used.shape[1]) >= shape.rows
    starts, every = np.zeros_like(sizes), np.arange(number)
    for index in range(batch_size):
        size = sizes[:, index, None]
        # The fullest row that has room; of the spare ones the first, and only where no other has room.
        merit = np.where(spare, -1 - np.arange(used.shape[1]), used)
        merit = np.where(used + size <= shape.width, merit, np.iinfo(np.int64).min)
        row = merit.argmax(axis=1)
        starts[:, index] = row * shape.width + used[every, row]
        used[every, row] += sizes[:, index]
    starts[sizes == 0] = 0
    return starts, (used > 0).cumsum(axis=1).argmax(axis=1) + 1


def _sizes(lengths, members):
    return np.where(members < 0, 0, lengths[members])


def _round_up(number, multiple):
    return -(-number // multiple) * multiple


def _make_batches(tokenized, members, starts, rows, width, columns, group):
    """A dataset that puts texts into rows in the graph, so that making a batch takes no Python."""
    ids, splits, second_begins = (tf.constant(array) for array in tokenized.packed())
    texts_of_batch = members.shape[1]

    def make(members, starts, rows):
        is_real = members >= 0
        chosen = tf.where(is_real, members, 0)
        begins = tf.gather(splits, chosen)
        sizes = tf.where(is_real, tf.gather(splits, chosen + 1) - begins, 0)  # [B * G]
        owner = tf.repeat(tf.range(texts_of_batch), sizes)  # of each token: the text in the batch, and its place in it
        within = tf.ragged.range(sizes).flat_values
        places = (tf.gather(starts, owner) + within)[:, None]

        def spread(values, nothing=0, each=()):
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

        def take(values):
            """Labels and what they count: of the examples `[B]`, or of all places in the rows."""
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
