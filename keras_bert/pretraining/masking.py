"""Masks tokens of batches for the masked language model, with new masks in every epoch.

Takes `token_ids, segment_ids, padding_mask` and gives them with some tokens hidden, plus `masked_positions`,
`masked_ids` and `masked_weights`, `[B, M]`. The masks depend only on the seed and the number of the batch, so a run can
be repeated and resumed.

The rule is BERT's (Devlin et al. 2018, section 3.1): 15 % of the tokens are predicted; of these 80 % become `[MASK]`,
10 % become a random token and 10 % stay. Special tokens and padding are never chosen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.text.tokenizer import BertTokenizer

UNITS = ("token", "word", "span")
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class Masking:
    """Hides tokens of a batch, by BERT's rule for a vocabulary.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##c"])
        >>> masking = Masking.for_tokenizer(tokenizer, max_predictions=2)
        >>> batch = {"token_ids": [[2, 5, 6, 7, 3]], "segment_ids": [[0] * 5], "padding_mask": [[1] * 5]}
        >>> masked = masking({name: tf.constant(value) for name, value in batch.items()}, seed=(1, 2))
        >>> masked["masked_weights"].numpy()
        array([[1., 0.]], dtype=float32)

    Args:
        mask_id: The id of `[MASK]`.
        special_ids: Ids that are never masked and never used as random tokens.
        continuations: For each id, whether the token continues a word (`##…`).
        max_predictions: M, the most masked tokens in a row.
        rate: The share of tokens to predict.
        mask_share, random_share: The shares of the predicted tokens that become `[MASK]` and a random token.
        unit: What is hidden together: a `"token"`, a whole `"word"`, or a `"span"` of one to `max_span` words.
        max_span: The most words in a span; a span of n words has weight 1/n, as in ALBERT.
    """

    mask_id: int
    special_ids: tuple[int, ...]
    continuations: np.ndarray
    max_predictions: int = 20
    rate: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    unit: str = "token"
    max_span: int = 3

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"unit={self.unit!r} is unknown; choose one of {', '.join(UNITS)}.")
        if not 0 < self.rate < 1:
            raise ValueError(f"rate={self.rate!r} is not a share of the tokens; expected a number between 0 and 1.")
        if self.mask_share < 0 or self.random_share < 0 or self.mask_share + self.random_share > 1:
            raise ValueError(
                f"mask_share={self.mask_share} and random_share={self.random_share} must not be negative, and their "
                "sum must not exceed 1; the rest of the predicted tokens stays unchanged."
            )
        if self.max_predictions < 1 or self.max_span < 1:
            raise ValueError(f"max_predictions={self.max_predictions} and max_span={self.max_span} must be at least 1.")

    @classmethod
    def for_tokenizer(cls, tokenizer: BertTokenizer, **settings: Any) -> "Masking":
        """Make the masking for a vocabulary; `settings` are the other fields."""
        vocabulary = tokenizer.vocabulary
        special = tuple(index for index, token in enumerate(vocabulary) if token in _SPECIAL)
        continuations = np.array([token.startswith("##") for token in vocabulary])
        return cls(tokenizer.mask_id, special, continuations, **settings)

    def __call__(self, batch: dict[str, tf.Tensor], seed: Any, *, rate: Any = None) -> dict[str, tf.Tensor]:
        """Mask one batch; `seed` is two integers, and `rate`, a number or a tensor, replaces `self.rate`."""
        ids = batch["token_ids"]  # [B, T]
        choose_seed, replace_seed = tf.unstack(tf.random.split(tf.cast(seed, tf.int32), 2))
        candidate = (batch["padding_mask"] > 0) & ~self._is_in(ids, self.special_ids)
        chosen = self._choose(ids, candidate, choose_seed, self.rate if rate is None else rate)
        chosen_first = tf.argsort(tf.cast(~chosen, tf.int32), axis=1, stable=True)  # [B, T], in reading order
        positions = chosen_first[:, : self.max_predictions]
        missing = self.max_predictions - tf.shape(positions)[1]
        positions = tf.ensure_shape(tf.pad(positions, [[0, 0], [0, missing]]), [None, self.max_predictions])
        count = tf.reduce_sum(tf.cast(chosen, tf.int32), axis=1)[:, None]
        hidden = tf.range(self.max_predictions)[None, :] < count  # [B, M]
        positions = tf.where(hidden, positions, 0)
        return {
            **batch,
            "token_ids": tf.where(chosen, self._replace(ids, replace_seed), ids),
            "masked_positions": positions,
            "masked_ids": tf.where(hidden, tf.gather(ids, positions, batch_dims=1), 0),
            "masked_weights": tf.cast(hidden, tf.float32),
        }

    def _choose(self, ids: tf.Tensor, candidate: tf.Tensor, seed: tf.Tensor, rate: Any) -> tf.Tensor:
        """Booleans `[B, T]`: units chosen in random order until a row has its share of tokens."""
        rounding_seed, score_seed, span_seed = tf.unstack(tf.random.split(seed, 3))
        counts = tf.reduce_sum(tf.cast(candidate, tf.float32), axis=1)
        # Rounded at random, so that the rate holds on average in short rows too.
        share = tf.floor(rate * counts + tf.random.stateless_uniform(tf.shape(counts), rounding_seed))
        budget = tf.clip_by_value(share, 1.0, float(self.max_predictions))[:, None]
        scores = tf.random.stateless_uniform(tf.shape(ids), score_seed)
        scores = tf.gather(scores, self._units(ids, span_seed), batch_dims=1)  # one score for all tokens of a unit
        rivals = tf.where(candidate, scores, 2.0)[:, None, :]
        before = tf.reduce_sum(tf.cast(rivals < scores[:, :, None], tf.float32), axis=2)
        size = tf.reduce_sum(tf.cast(rivals == scores[:, :, None], tf.float32), axis=2)
        # The unit that crosses the budget is chosen if half of it fits, so that the average is right.
        return candidate & (before + size / 2 <= budget) & (before + size <= float(self.max_predictions))

    def _units(self, ids: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """The number of each token's unit, `[B, T]`."""
        if self.unit == "token":
            return tf.broadcast_to(tf.range(tf.shape(ids)[1])[None, :], tf.shape(ids))
        begins = tf.cast(~tf.gather(tf.constant(self.continuations), ids), tf.int32)
        words = tf.maximum(tf.cumsum(begins, axis=1) - 1, 0)
        if self.unit == "word":
            return words
        logits = tf.math.log(1.0 / tf.range(1, self.max_span + 1, dtype=tf.float32))[None, :]
        lengths = 1 + tf.random.stateless_categorical(logits, tf.size(ids), seed, dtype=tf.int32)
        ends = tf.cumsum(tf.reshape(lengths, tf.shape(ids)), axis=1)
        return tf.searchsorted(ends, words, side="right")

    def _replace(self, ids: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """`[MASK]`, a random token or the token itself, for every place; `[B, T]`."""
        share_seed, token_seed = tf.unstack(tf.random.split(seed, 2))
        ordinary = np.setdiff1d(np.arange(len(self.continuations)), self.special_ids).astype("int32")
        places = tf.random.stateless_uniform(tf.shape(ids), token_seed, maxval=len(ordinary), dtype=tf.int32)
        share = tf.random.stateless_uniform(tf.shape(ids), share_seed)
        kept = tf.where(share < self.mask_share + self.random_share, tf.gather(tf.constant(ordinary), places), ids)
        return tf.where(share < self.mask_share, tf.cast(self.mask_id, ids.dtype), kept)

    @staticmethod
    def _is_in(ids: tf.Tensor, special_ids: tuple[int, ...]) -> tf.Tensor:
        return tf.reduce_any(ids[:, :, None] == tf.constant(special_ids, ids.dtype), axis=-1)


def mask_batches(
    dataset: tf.data.Dataset,
    masking: Masking,
    *,
    seed: int,
    start: int = 0,
    rate: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tf.data.Dataset:
    """Mask every batch of a dataset; a repeated dataset gets new masks in every pass.

    Args:
        dataset: Batches without masks.
        masking: How to mask.
        seed: Seed of the masks.
        start: The number of the first batch, for a dataset that continues another one.
        rate: Takes the number of a batch, gives its share of tokens to predict; see `falling_rate`. `None` uses
            `masking.rate`. A row has at most `max_predictions` in both cases.

    Example:
        ```python
        data = mask_batches(batches.repeat(), Masking.for_tokenizer(tokenizer), seed=1)
        ```
    """
    numbered = tf.data.Dataset.zip(tf.data.Dataset.counter(start, dtype=tf.int32), dataset)

    def mask(number: tf.Tensor, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return masking(batch, (seed, number), rate=None if rate is None else rate(number))

    return numbered.map(mask, num_parallel_calls=tf.data.AUTOTUNE)


def falling_rate(first: float, last: float, steps: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """A mask rate that changes linearly from `first` to `last` during a run, as a function of the step.

    Example:
        >>> rate = falling_rate(0.3, 0.15, steps=100)
        >>> [round(float(rate(step)), 3) for step in (0, 50, 100, 200)]
        [0.3, 0.225, 0.15, 0.15]
    """

    def rate(step: tf.Tensor) -> tf.Tensor:
        done = tf.minimum(tf.cast(step, tf.float32) / float(steps), 1.0)
        return first + (last - first) * done

    return rate
