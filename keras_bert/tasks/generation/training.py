"""The loss of text generation, and changes to its training batches.

`pick_places` keeps only the labelled tokens, because scores over the whole vocabulary are expensive and source tokens
need none. `spoil_targets` replaces some target tokens in the input.
"""

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops


@keras.saving.register_keras_serializable("keras_bert")
class NextTokenLoss(keras.losses.Loss):
    """Cross-entropy of the next token over the vocabulary, with label smoothing.

    Takes token ids `[…]` and logits `[…, V]`. With smoothing ε the right token has weight 1 − ε, all tokens together ε.

    Example:
        >>> round(float(NextTokenLoss()(np.array([1]), np.zeros((1, 4)))), 4)  # four tokens, all alike: log 4
        1.3863
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        reduction: str = "mean_with_sample_weight",
        name: str = "next_token_loss",
        **kwargs: Any,
    ):
        super().__init__(reduction=reduction, name=name, **kwargs)
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing={label_smoothing!r}: expected a share from 0 to below 1.")
        self.label_smoothing = label_smoothing

    def call(self, y_true: Any, y_pred: Any) -> Any:
        right = ops.take_along_axis(y_pred, ops.cast(y_true, "int32")[..., None], axis=-1)[..., 0]
        wanted = (1 - self.label_smoothing) * right + self.label_smoothing * ops.mean(y_pred, axis=-1)
        return ops.logsumexp(y_pred, axis=-1) - wanted

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def place_count(lengths: np.ndarray, batch_size: int, *, parts: int = 1) -> int:
    """Choose the number of places for the target tokens of a batch, so that few batches need more.

    Args:
        lengths: The number of labelled tokens of each row.
        batch_size: Rows of a batch.
        parts: The devices that share the places; the number is a multiple of theirs.

    Example:
        >>> place_count(np.array([10, 10, 12]), 32)
        352
    """
    mean, spread = float(np.mean(lengths)), float(np.std(lengths))
    most = min(batch_size * mean + 3 * spread * batch_size**0.5, batch_size * float(np.max(lengths)))
    multiple = math.lcm(16, parts)
    return max(1, -(-int(np.ceil(most)) // multiple)) * multiple


def pick_places(batches: tf.data.Dataset, count: int, *, label: str, output: str, parts: int = 1) -> tf.data.Dataset:
    """Add the places of labelled tokens to the inputs, as `target_places [M]`, and keep only their labels.

    Args:
        batches: Batches of `(inputs, labels, weights)` with labels and weights for each token.
        count: M. A batch with more labelled tokens gets a quarter more places, and so on, so that few shapes occur.
        label: The name of the labels.
        output: The new name of the labels.
        parts: The devices that share the places.
    """
    step = max(1, count // (4 * parts)) * parts

    def pick(inputs: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
        flat = tf.reshape(weights[label], [-1])
        places = tf.cast(tf.where(flat > 0)[:, 0], tf.int32)
        more = tf.maximum(tf.size(places) - count, 0)
        empty = count + -(-more // step) * step - tf.size(places)
        places = tf.pad(places, [[0, empty]])
        counted = tf.pad(tf.boolean_mask(flat, flat > 0), [[0, empty]])
        wanted = tf.gather(tf.reshape(labels[label], [-1]), places)
        return {**inputs, "target_places": places}, {output: wanted}, {output: counted}

    return batches.map(pick, num_parallel_calls=tf.data.AUTOTUNE)


def spoil_targets(
    batches: tf.data.Dataset, rate: float, *, seed: int, first_step: int, mask_id: int | None, vocabulary_size: int
) -> tf.data.Dataset:
    """Replace some target tokens in the inputs of batches. Labels are not changed.

    A model that was trained only on right targets does not know how to continue after its own mistake. The choice is a
    function of seed and step, so that a resumed run reads the same batches.

    Args:
        batches: Batches of `(inputs, labels, weights)`.
        rate: The share of target tokens to replace.
        seed: Random seed.
        first_step: The step of the first batch.
        mask_id: The id of `[MASK]`, which replaces them; `None` uses random tokens.
        vocabulary_size: The size of the vocabulary.
    """

    def spoil(step: Any, batch: Any) -> Any:
        inputs, *rest = batch
        ids = inputs["token_ids"]
        keys = [tf.stack([tf.constant(2 * seed + half, tf.int64), step]) for half in (0, 1)]
        hit = tf.random.stateless_uniform(tf.shape(ids), keys[0]) < rate
        hit &= inputs["segment_ids"] > 0
        other = mask_id
        if mask_id is None:
            other = tf.random.stateless_uniform(tf.shape(ids), keys[1], 0, vocabulary_size, tf.int32)
        return {**inputs, "token_ids": tf.where(hit, other, ids)}, *rest

    return batches.enumerate(first_step).map(spoil, num_parallel_calls=tf.data.AUTOTUNE)
