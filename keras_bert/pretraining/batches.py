"""Reads shards of examples as the batches that `fit` takes in pretraining.

Takes a directory that `write_examples` wrote and a plan, gives a `tf.data.Dataset` of masked batches. Every batch
depends only on the seed and the step, so a run that is resumed at some step gets the batches of an uninterrupted run.
Rows are padded, or shared by several examples. They are put together here, or were when they were written; then they
may leave unmasked, with keys by which the devices mask them.
"""

import math
import os
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.batching.datasets import filled_batches, prompt
from keras_bert.model.config import BertConfig
from keras_bert.pretraining.corpus.manifest import load_manifest
from keras_bert.pretraining.corpus.reading import read_examples
from keras_bert.pretraining.data_service import read_examples_through_service
from keras_bert.pretraining.masking import Masking, falling_rate, mask_batches
from keras_bert.pretraining.model import features_and_labels
from keras_bert.pretraining.plan import PretrainingPlan
from keras_bert.pretraining.rows.batches import count_stored_tokens, rows_from, rows_in_order, unmasked
from keras_bert.pretraining.rows.reading import StoredRows
from keras_bert.pretraining.sampled_softmax import count_tokens
from keras_bert.pretraining.shared_rows import pack_rows
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.devices import Devices

_PACKED_TOGETHER = 512  # examples of a window in which rows are packed
_COUNTED_BATCHES = 2000  # of 256 examples: enough to know how often tokens occur


def training_batches(
    examples: str | os.PathLike[str],
    config: BertConfig,
    tokenizer: BertTokenizer,
    plan: PretrainingPlan,
    start: int = 0,
    *,
    devices: Devices | None = None,
    masked: bool = True,
) -> tf.data.Dataset:
    """The endless batches of a `PretrainingPlan` from a step on.

    Args:
        examples: A directory that `write_examples` wrote.
        config: The sizes of the model.
        tokenizer: The one that the examples were made with.
        plan: A `PretrainingPlan`.
        start: The number of the first batch, from 0.
        devices: What trains; a tf.data service hands each of its machines other examples.
        masked: Whether to mask here. Otherwise batches are dictionaries of rows with the keys of their masks, for a
            model that masks by `mask_rows`; only where `masks_on_devices(examples)`.

    Example:
        ```python
        for inputs, labels, weights in training_batches("examples", config, tokenizer, plan, start=5_000).take(1):
            inputs["token_ids"].shape
        ```
    """
    if masks_on_devices(examples):
        stored = _stored_rows(examples, config, tokenizer, plan)
        if not masked:
            return prompt(rows_from(stored, plan, start).prefetch(4))
        masking = plan_masking(examples, tokenizer, plan)
        return _labelled(rows_from(stored, plan, start, masking=masking), examples, plan)
    count = load_manifest(os.fspath(examples)).examples
    if count < plan.batch_size and not plan.packed:
        raise ValueError(
            f"{examples} has {count} examples, fewer than batch_size={plan.batch_size}; take a smaller batch, or more "
            "text."
        )
    rows = _rows(examples, config, tokenizer, plan, plan.batch_size, endless=True, devices=devices, seed=plan.seed)
    # Through a service the order is not a function of the seed, so there is no place in it to skip to.
    rows = rows if plan.service else rows.skip(start)
    machine = devices.worker_index if plan.service and devices is not None else 0
    rate = falling_rate(plan.mask_rate, plan.last_mask_rate, plan.steps)
    return _mask(rows, examples, tokenizer, plan, start, seed=plan.seed + machine, rate=rate)


def validation_batches(
    examples: str | os.PathLike[str],
    config: BertConfig,
    tokenizer: BertTokenizer,
    plan: PretrainingPlan,
    *,
    replicas: int = 1,
) -> tf.data.Dataset:
    """The first `plan.validation_steps` batches of a directory, with masks that are the same each time; kept in memory.

    They are masked at the rate that the run ends with, so that all measurements of a run can be compared.

    Args:
        examples, config, tokenizer, plan: As for `training_batches`.
        replicas: What a batch must divide by. Over 1, and on JAX, which would compile for another shape, a last batch
            that is not full gets rows that count nothing.

    Example:
        ```python
        model.evaluate(validation_batches("validation", config, tokenizer, plan))
        ```
    """
    manifest = load_manifest(os.fspath(examples))
    count = manifest.tokens // manifest.settings.sequence_length if plan.packed else manifest.examples  # at least
    if not count:
        raise ValueError(f"{examples} fills no row; validate on more text.")
    stored = _stored_rows(examples, config, tokenizer, plan) if masks_on_devices(examples) else None
    count = count if stored is None else len(stored)
    batch_size = min(plan.batch_size, -(-count // replicas) * replicas)
    if stored is not None:
        rows = rows_in_order(stored, plan, batch_size, masking=plan_masking(examples, tokenizer, plan))
        batches = _labelled(rows if plan.validation_steps is None else rows.take(plan.validation_steps), examples, plan)
    else:
        rows = _rows(examples, config, tokenizer, plan, batch_size, drop_remainder=False, shuffle=False)
        rows = rows if plan.validation_steps is None else rows.take(plan.validation_steps)
        batches = _mask(rows, examples, tokenizer, plan, start=0, seed=plan.seed)
    if replicas > 1 or keras.backend.backend() == "jax":
        batches = filled_batches(batches, batch_size)
    batches = batches.cache()
    # Keras warns at the end of a dataset whose size it does not know.
    return batches.apply(tf.data.experimental.assert_cardinality(batches.reduce(np.int64(0), lambda n, _: n + 1)))


def unmasked_rows(
    examples: str | os.PathLike[str],
    config: BertConfig,
    tokenizer: BertTokenizer,
    plan: PretrainingPlan,
    batch_size: int,
    *,
    shuffle: bool = True,
) -> tf.data.Dataset:
    """The rows of a directory before masking, endless and so many at a time, in an order that the seed decides.

    Args:
        examples, config, tokenizer, plan: As for `training_batches`.
        batch_size: Rows at a time.
        shuffle: Whether to mix them; otherwise they come in the order of the files.

    Example:
        ```python
        next(iter(unmasked_rows("examples", config, tokenizer, plan, 1024)))["token_ids"].shape
        ```
    """
    if masks_on_devices(examples):
        stored = _stored_rows(examples, config, tokenizer, plan)
        return unmasked(stored, batch_size, seed=plan.seed, shuffle=shuffle)
    return _rows(examples, config, tokenizer, plan, batch_size, endless=True, seed=plan.seed, shuffle=shuffle)


def max_predictions(examples: str | os.PathLike[str], plan: PretrainingPlan) -> int:
    """The most masked tokens of a row: the plan's, or the share that is masked of a full row, rounded up.

    Where the share changes in the course of a run, it is the largest: a step has the same shapes from first to last.

    Example:
        ```python
        max_predictions("examples-128", PretrainingPlan(steps=500, mask_rate=0.15))  # 20; of 512 tokens 77, as in BERT
        ```
    """
    length = load_manifest(os.fspath(examples)).settings.sequence_length
    if plan.max_predictions is not None:
        return plan.max_predictions
    return math.ceil(round(max(plan.mask_rate, plan.last_mask_rate) * length, 6))


def token_counts(examples: str | os.PathLike[str], tokenizer: BertTokenizer) -> np.ndarray:
    """How often each token occurs in the first half million examples; special ones, which nobody masks, count 0."""
    special = Masking.for_tokenizer(tokenizer).special_ids
    if masks_on_devices(examples):
        counts = count_stored_tokens(StoredRows(examples), tokenizer.vocabulary_size, _COUNTED_BATCHES)
        counts[list(special)] = 0
        return counts
    some = read_examples(examples, batch_size=256, shuffle=False).take(_COUNTED_BATCHES)
    return count_tokens(some, tokenizer.vocabulary_size, leave_out=special)


def masks_on_devices(examples: str | os.PathLike[str]) -> bool:
    """Whether a directory has rows that the devices mask: those of the layouts `"padded"` and `"packed"`."""
    return load_manifest(os.fspath(examples)).settings.layout != "examples"


def plan_masking(examples: str | os.PathLike[str], tokenizer: BertTokenizer, plan: PretrainingPlan) -> Masking:
    """The masking of a plan's batches."""
    settings = {"rate": plan.last_mask_rate, "unit": plan.mask_unit}
    return Masking.for_tokenizer(tokenizer, max_predictions=max_predictions(examples, plan), **settings)


# === Steps of the pipeline ===


def _stored_rows(
    examples: str | os.PathLike[str], config: BertConfig, tokenizer: BertTokenizer, plan: PretrainingPlan
) -> StoredRows:
    layout = load_manifest(os.fspath(examples)).settings.layout
    if plan.service:
        raise ValueError(f"{examples} has layout={layout!r}; a tf.data service reads layout='examples' alone.")
    if (layout == "packed") != plan.packed:
        raise ValueError(f"{examples} has layout={layout!r}; it needs a plan with packed={layout == 'packed'}.")
    _check_length(examples, config)
    return StoredRows(examples, tokenizer=tokenizer)


def _rows(
    examples: str | os.PathLike[str],
    config: BertConfig,
    tokenizer: BertTokenizer,
    plan: PretrainingPlan,
    batch_size: int,
    *,
    endless: bool = False,
    drop_remainder: bool = True,
    devices: Devices | None = None,
    **order: Any,
) -> tf.data.Dataset:
    """Examples as rows `[B, T]`: each padded, or several packed into one."""
    length = _check_length(examples, config)
    together = _PACKED_TOGETHER if plan.packed else batch_size
    if endless and plan.service:
        data = read_examples_through_service(
            examples, service=plan.service, batch_size=together, tokenizer=tokenizer, devices=devices, **order
        )
    else:
        drop_examples = drop_remainder and not plan.packed
        data = read_examples(examples, batch_size=together, tokenizer=tokenizer, drop_remainder=drop_examples, **order)
        data = data.repeat() if endless else data
    if not plan.packed:
        shape = [batch_size if drop_remainder else None, length]
        return data.map(lambda batch: _pad(batch, shape, tokenizer.pad_id), tf.data.AUTOTUNE)
    return pack_rows(
        data,
        sequence_length=length,
        batch_size=batch_size,
        pad_id=tokenizer.pad_id,
        seed=plan.seed,
        drop_remainder=drop_remainder,
    )


def _check_length(examples: str | os.PathLike[str], config: BertConfig) -> int:
    length = load_manifest(os.fspath(examples)).settings.sequence_length
    if length > config.max_sequence_length:
        raise ValueError(
            f"{examples} has rows of {length} tokens, over max_sequence_length={config.max_sequence_length}; write the "
            "examples shorter, or make the model longer."
        )
    return length


def _pad(batch: dict[str, Any], shape: list[int | None], pad_id: int) -> dict[str, tf.Tensor]:
    tokens = batch["token_ids"]
    return {
        "token_ids": tokens.to_tensor(pad_id, shape=shape),
        "segment_ids": batch["segment_ids"].to_tensor(0, shape=shape),
        "padding_mask": tf.ones_like(tokens).to_tensor(0, shape=shape),
        "next_sentence_label": batch["next_sentence_label"],
    }


def _mask(
    rows: tf.data.Dataset,
    examples: str | os.PathLike[str],
    tokenizer: BertTokenizer,
    plan: PretrainingPlan,
    start: int,
    seed: int,
    rate: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tf.data.Dataset:
    masked = mask_batches(rows, plan_masking(examples, tokenizer, plan), seed=seed, start=start, rate=rate)
    return _labelled(masked, examples, plan)


def _labelled(masked: tf.data.Dataset, examples: str | os.PathLike[str], plan: PretrainingPlan) -> tf.data.Dataset:
    """Masked batches as `fit` takes them."""
    next_sentence = has_next_sentence(examples)
    sampled = plan.negatives is not None
    batches = masked.map(
        lambda batch: features_and_labels(batch, next_sentence=next_sentence, sampled=sampled), tf.data.AUTOTUNE
    )
    return prompt(batches.prefetch(4))


def has_next_sentence(examples: str | os.PathLike[str]) -> bool:
    """Whether the examples are pairs, so that there is a next sentence to predict."""
    return load_manifest(os.fspath(examples)).settings.pairs != "single"
