"""Stored rows → `tf.data` batches: masked here, or with the keys by which the devices mask them."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from keras_bert.pretraining.masking import Masking
from keras_bert.pretraining.plan import PretrainingPlan
from keras_bert.pretraining.rows.masking import mask_rows, with_keys
from keras_bert.pretraining.rows.reading import StoredRows

Batches = Iterator[dict[str, np.ndarray]]


def rows_from(
    stored: StoredRows, plan: PretrainingPlan, start: int, *, masking: Masking | None = None
) -> tf.data.Dataset:
    """The endless batches of a plan from a step on, masked if there is a masking, else with keys."""

    def batches() -> Batches:
        for step, batch in enumerate(stored.batches(plan.batch_size, seed=plan.seed, start=start), start):
            keyed = with_keys(batch, seed=plan.seed, step=step, rate=plan.mask_rate_at(step))
            yield keyed if masking is None else mask_rows(keyed, masking)

    like = one_row(stored)
    return _dataset(batches, like if masking is None else mask_rows(like, masking), plan.batch_size)


def rows_in_order(stored: StoredRows, plan: PretrainingPlan, batch_size: int, *, masking: Masking) -> tf.data.Dataset:
    """All rows once, masked at the rate that a plan ends with, in the same way each time."""

    def batches() -> Batches:
        for step, batch in enumerate(stored.in_order(batch_size)):
            yield mask_rows(with_keys(batch, seed=plan.seed, step=step, rate=plan.last_mask_rate), masking)

    return _dataset(batches, mask_rows(one_row(stored), masking), None)


def unmasked(stored: StoredRows, batch_size: int, *, seed: int, shuffle: bool) -> tf.data.Dataset:
    """Endless batches without masks, mixed or in the order of the files."""

    def batches() -> Batches:
        if shuffle:
            yield from stored.batches(batch_size, seed=seed)
        for _ in itertools.count():
            for batch in stored.in_order(batch_size):
                if len(batch["token_ids"]) == batch_size:
                    yield batch

    return _dataset(batches, next(stored.in_order(1)), batch_size)


def one_row(stored: StoredRows) -> dict[str, np.ndarray]:
    """The first row with the keys of its masks, as a batch."""
    return with_keys(next(stored.in_order(1)), seed=0, step=0, rate=0.0)


def count_stored_tokens(stored: StoredRows, vocabulary_size: int, batches: int) -> np.ndarray:
    """How often each token occurs in the first batches of 256 rows; padding does not count."""
    counts = np.zeros(vocabulary_size, np.int64)
    for batch in itertools.islice(stored.in_order(256), batches):
        counts += np.bincount(batch["token_ids"][batch["padding_mask"] > 0], minlength=vocabulary_size)
    return counts


def _dataset(batches: Callable[[], Batches], like: dict[str, np.ndarray], batch_size: int | None) -> tf.data.Dataset:
    """A dataset of batches with the shapes of one of them, but with so many rows."""
    shapes = {name: tf.TensorSpec((batch_size, *rows.shape[1:]), rows.dtype) for name, rows in like.items()}
    return tf.data.Dataset.from_generator(batches, output_signature=shapes)
