"""What training a writer needs beside batches: its loss, and the places in a batch that the loss looks at.

Takes batches with a label for each token; gives batches with the labelled places alone, and, on request, with some of
the target's tokens spoilt. A room of its own because scores over a whole vocabulary are half of a small model's work,
and the tokens of the source need none.
"""

import keras
import numpy as np
import tensorflow as tf
from keras import ops


@keras.saving.register_keras_serializable("keras_bert")
class NextTokenLoss(keras.losses.Loss):
    """Cross-entropy of the next token over the whole vocabulary, with label smoothing.

    Takes token ids `[…]` and logits `[…, V]`. With smoothing ε the right token counts 1 − ε and all tokens together ε.

    Example:
        >>> round(float(NextTokenLoss()(np.array([1]), np.zeros((1, 4)))), 4)  # four tokens, all alike: log 4
        1.3863
    """

    def __init__(self, label_smoothing=0.0, reduction="mean_with_sample_weight", name="next_token_loss", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing={label_smoothing!r}: expected a share from 0 to below 1.")
        self.label_smoothing = label_smoothing

    def call(self, y_true, y_pred):
        right = ops.take_along_axis(y_pred, ops.cast(y_true, "int32")[..., None], axis=-1)[..., 0]
        wanted = (1 - self.label_smoothing) * right + self.label_smoothing * ops.mean(y_pred, axis=-1)
        return ops.logsumexp(y_pred, axis=-1) - wanted

    def get_config(self):
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def place_count(lengths: np.ndarray, batch_size: int) -> int:
    """How many places a batch should have for its targets: few batches have more.

    Args:
        lengths: The labelled tokens of each row.
        batch_size: Rows of a batch.

    Example:
        >>> place_count(np.array([10, 10, 12]), 32)
        352
    """
    mean, spread = float(np.mean(lengths)), float(np.std(lengths))
    most = min(batch_size * mean + 3 * spread * batch_size**0.5, batch_size * float(np.max(lengths)))
    return max(16, -(-int(np.ceil(most)) // 16) * 16)


def pick_places(batches: tf.data.Dataset, count: int, *, label: str, output: str) -> tf.data.Dataset:
    """Batches of `(inputs, labels, weights)` with `target_places [M]` among the inputs, and labels for these alone.

    Args:
        batches: With labels and weights for each token, by the name `label`.
        count: M. A batch with more places gets a quarter more, and so on, so that few shapes occur.
        label: What the labels are called.
        output: What they shall be called.
    """
    step = max(1, count // 4)

    def pick(inputs, labels, weights):
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
    """Batches in which some tokens of the target, as the model reads them, are others; labels stay as they are.

    A model that only ever read right targets does not know what to do after a mistake of its own. What is spoilt is a
    function of seed and step, so that a resumed run reads what the killed one would have read.

    Args:
        batches: Of `(inputs, labels, weights)`.
        rate: The share of the target's tokens.
        seed: Of chance.
        first_step: The step of the first batch.
        mask_id: What stands in their place: `[MASK]`; `None` puts tokens by chance.
        vocabulary_size: How many tokens there are.
    """

    def spoil(step, batch):
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
