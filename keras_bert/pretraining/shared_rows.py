"""Puts several short examples into one row, so that little compute is spent on padding.

Takes the ragged batches of `pretraining/corpus/reading.py`, gives batches of shared rows for `masking.py`. Rows are
filled by first-fit decreasing within a window of examples: the longest first, each into the first row with enough
space. `padding_mask` has the number of the example that each token belongs to. The encoder's `PackedBias` uses it to
keep the examples apart, so the results are those of separate rows. Rows depend only on the seed and the order of the
examples.
"""

from typing import Any

import tensorflow as tf

from keras_bert.pretraining.rows.layout import MAX_EXAMPLES


def pack_rows(
    windows: tf.data.Dataset,
    *,
    sequence_length: int,
    batch_size: int,
    max_examples: int = MAX_EXAMPLES,
    pad_id: int = 0,
    seed: int = 0,
    drop_remainder: bool = False,
) -> tf.data.Dataset:
    """Put examples into shared rows, and rows into batches. Every example is in one row, complete.

    Args:
        windows: Ragged batches of `token_ids`, `segment_ids` and `next_sentence_label`, as `read_examples` gives them;
            examples of one batch (a window) can share a row. Some hundred examples fill rows well.
        sequence_length: T, the tokens in a row; no example may be longer.
        batch_size: B, the rows in a batch.
        max_examples: E, the most examples in a row.
        pad_id: The id of padding.
        seed: Seed of the order of rows in a window. Without shuffling, the longest examples would come first.
        drop_remainder: Whether to drop a last batch that is not full.

    Returns:
        A dataset of `token_ids`, `segment_ids`, `padding_mask` (0, or the number of the example in its row, from 1 on),
        int32 `[B, T]`; `example_starts`, `next_sentence_label`, int32 `[B, E]`, and `next_sentence_weight`, float32
        `[B, E]`: 1 where there is an example.

    Example:
        ```python
        windows = read_examples("examples", batch_size=512, seed=1)
        rows = pack_rows(windows.repeat(), sequence_length=128, batch_size=32, seed=1)
        ```
    """
    if sequence_length < 1 or batch_size < 1 or max_examples < 1:
        raise ValueError(
            f"sequence_length={sequence_length}, batch_size={batch_size} and max_examples={max_examples} must be at "
            "least 1."
        )

    def pack(number: tf.Tensor, window: dict[str, Any]) -> dict[str, tf.Tensor]:
        return _pack_window(window, (seed, number), sequence_length, max_examples, pad_id)

    numbered = tf.data.Dataset.zip(tf.data.Dataset.counter(dtype=tf.int32), windows)
    packed = numbered.map(pack, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return packed.rebatch(batch_size, drop_remainder=drop_remainder)


def _pack_window(
    window: dict[str, Any], seed: Any, length: int, max_examples: int, pad_id: int
) -> dict[str, tf.Tensor]:
    """The rows `[R, T]` of one window, and the places of its examples in them."""
    sizes = tf.cast(window["token_ids"].row_lengths(), tf.int32)  # [W]
    longest = tf.reduce_max(sizes)
    message = f"An example is longer than sequence_length={length}; write the examples shorter, or use longer rows."
    with tf.control_dependencies([tf.debugging.assert_less_equal(longest, length, message)]):
        row, slot, start = first_fit(sizes, length=length, max_examples=max_examples)
    count = tf.reduce_max(row) + 1
    shuffled = tf.random.experimental.stateless_shuffle(tf.range(count), seed)
    row = tf.gather(shuffled, row)
    per_token = tf.repeat(tf.stack([row, start, slot], axis=1), sizes, axis=0)
    within = tf.ragged.range(sizes).flat_values
    places = tf.stack([per_token[:, 0], per_token[:, 1] + within], axis=1)  # of all tokens, in the order of the window
    slots = tf.stack([row, slot], axis=1)

    def spread(values: tf.Tensor, indices: tf.Tensor, width: int) -> tf.Tensor:
        full = tf.scatter_nd(indices, values, [count, width])
        return tf.ensure_shape(full, [None, width])

    numbers = spread(per_token[:, 2] + 1, places, length)
    tokens = spread(window["token_ids"].flat_values, places, length)
    return {
        "token_ids": tf.where(numbers > 0, tokens, pad_id),
        "segment_ids": spread(window["segment_ids"].flat_values, places, length),
        "padding_mask": numbers,
        "example_starts": spread(start, slots, max_examples),
        "next_sentence_label": spread(window["next_sentence_label"], slots, max_examples),
        "next_sentence_weight": spread(tf.ones_like(row, tf.float32), slots, max_examples),
    }


def first_fit(sizes: tf.Tensor, *, length: int, max_examples: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Find a place for each example, the longest first: its row, its number in the row, and its first position.

    Example:
        >>> row, slot, start = first_fit(tf.constant([3, 6, 4]), length=10, max_examples=8)
        >>> row.numpy().tolist(), slot.numpy().tolist(), start.numpy().tolist()
        ([1, 0, 0], [0, 0, 1], [0, 0, 6])
    """
    sizes = tf.cast(sizes, tf.int32)
    order = tf.argsort(sizes, direction="DESCENDING", stable=True)
    descending = tf.gather(sizes, order)
    total = tf.size(sizes)

    def put(index: Any, used: Any, filled: Any, places: Any) -> tuple[Any, Any, Any, Any]:
        size = descending[index]
        fits = (used + size <= length) & (filled < max_examples)
        row = tf.argmax(fits, output_type=tf.int32)  # the first one; there is always an empty row
        places = places.write(index, tf.stack([row, filled[row], used[row]]))
        used = tf.tensor_scatter_nd_add(used, [[row]], [size])
        return index + 1, used, tf.tensor_scatter_nd_add(filled, [[row]], [1]), places

    places = tf.TensorArray(tf.int32, total, element_shape=[3])
    empty = tf.zeros_like(sizes)
    *_, places = tf.while_loop(lambda index, *_: index < total, put, (0, empty, empty, places), parallel_iterations=1)
    back = tf.argsort(order, stable=True)
    return tuple(tf.unstack(tf.gather(places.stack(), back), 3, axis=1))
