"""Packed batches → batches with masked tokens and what stood there, fresh at every pass over the data.

Takes `token_ids, segment_ids, padding_mask` and gives them with some tokens hidden, plus `masked_positions`,
`masked_ids` and `masked_weights`, `[B, M]`. A room of its own because masking is a random choice in the input pipeline:
it is stateless (seed and step decide everything), so that a run can be repeated, resumed, and masked anew in every
epoch.

The rule is BERT's (Devlin et al. 2018, section 3.1): 15 % of the tokens are predicted; of these 80 % become `[MASK]`,
10 % a random token, 10 % stay. Special tokens and padding are never chosen.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_bert.text.tokenizer import BertTokenizer

UNITS = ("token", "word", "span")
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class Masking:
    """How to mask, and the vocabulary that it needs to know.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##c"])
        >>> masking = Masking.for_tokenizer(tokenizer, max_predictions=2)
        >>> batch = {"token_ids": [[2, 5, 6, 7, 3]], "segment_ids": [[0] * 5], "padding_mask": [[1] * 5]}
        >>> masked = masking({name: tf.constant(value) for name, value in batch.items()}, seed=(1, 2))
        >>> masked["masked_weights"].numpy()
        array([[1., 0.]], dtype=float32)

    Args:
        mask_id: The id of `[MASK]`.
        special_ids: Ids that are never masked and never drawn as random tokens.
        continuations: For each id, whether the token continues a word (`##…`).
        max_predictions: M, the most tokens that one row may hide.
        rate: The share of tokens to predict.
        mask_share, random_share: Of the predicted tokens, how many become `[MASK]` and how many a random token.
        unit: What is hidden together: a `"token"`, a whole `"word"`, or a `"span"` of one to `max_span` words.
        max_span: The most words of a span; shorter spans are likelier (1/n), as in ALBERT.
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

    def __post_init__(self):
        if self.unit not in UNITS:
            raise ValueError(f"unit={self.unit!r} is unknown; choose one of {', '.join(UNITS)}.")
        if not 0 < self.rate < 1:
            raise ValueError(f"rate={self.rate!r} is not a share of the tokens; expected a number between 0 and 1.")
        if self.mask_share < 0 or self.random_share < 0 or self.mask_share + self.random_share > 1:
            raise ValueError(
                f"mask_share={self.mask_share} and random_share={self.random_share} must not be negative, nor over 1 "
                "together; what is left of 1 stays as it is."
            )
        if self.max_predictions < 1 or self.max_span < 1:
            raise ValueError(f"max_predictions={self.max_predictions} and max_span={self.max_span} must be at least 1.")

    @classmethod
    def for_tokenizer(cls, tokenizer: BertTokenizer, **settings) -> "Masking":
        """The masking for a vocabulary; settings are the other fields."""
        vocabulary = tokenizer.vocabulary
        special = tuple(index for index, token in enumerate(vocabulary) if token in _SPECIAL)
        continuations = np.array([token.startswith("##") for token in vocabulary])
        return cls(tokenizer.mask_id, special, continuations, **settings)

    def __call__(self, batch: dict[str, tf.Tensor], seed, *, rate=None) -> dict[str, tf.Tensor]:
        """Mask one packed batch; `seed` is two integers, and `rate`, a number or a tensor, replaces the masking's."""
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

    def _choose(self, ids, candidate, seed, rate):
        """Booleans `[B, T]`: units in random order until a row has its share of tokens."""
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
        # The unit that crosses the budget comes along if half of it fits: too much as often as too little.
        return candidate & (before + size / 2 <= budget) & (before + size <= float(self.max_predictions))

    def _units(self, ids, seed):
        """The number of the unit that each token is in, `[B, T]`."""
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

    def _replace(self, ids, seed):
        """`[MASK]`, a random token or the token itself, for every place; `[B, T]`."""
        share_seed, token_seed = tf.unstack(tf.random.split(seed, 2))
        ordinary = np.setdiff1d(np.arange(len(self.continuations)), self.special_ids).astype("int32")
        drawn = tf.random.stateless_uniform(tf.shape(ids), token_seed, maxval=len(ordinary), dtype=tf.int32)
        draw = tf.random.stateless_uniform(tf.shape(ids), share_seed)
        kept = tf.where(draw < self.mask_share + self.random_share, tf.gather(tf.constant(ordinary), drawn), ids)
        return tf.where(draw < self.mask_share, tf.cast(self.mask_id, ids.dtype), kept)

    @staticmethod
    def _is_in(ids, special_ids):
        return tf.reduce_any(ids[:, :, None] == tf.constant(special_ids, ids.dtype), axis=-1)


def mask_batches(
    dataset: tf.data.Dataset,
    masking: Masking,
    *,
    seed: int,
    start: int = 0,
    rate: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tf.data.Dataset:
    """Mask every batch of a dataset. A repeated dataset is masked anew at every pass, for each batch has a number.

    Args:
        dataset: Batches without masks.
        masking: How to mask.
        seed: Of the masks.
        start: The number of the first batch: a dataset that begins later is masked as the whole would be.
        rate: Number of a batch → its share of tokens to predict, such as `falling_rate` gives; `None` takes the
            masking's. Either way a row has at most `max_predictions`.

    Example:
        ```python
        data = mask_batches(packed.repeat(), Masking.for_tokenizer(tokenizer), seed=1)
        ```
    """
    numbered = tf.data.Dataset.zip(tf.data.Dataset.counter(start, dtype=tf.int32), dataset)

    def mask(number, batch):
        return masking(batch, (seed, number), rate=None if rate is None else rate(number))

    return numbered.map(mask, num_parallel_calls=tf.data.AUTOTUNE)


def falling_rate(first: float, last: float, steps: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """A mask rate that goes from `first` to `last` in a straight line over a run, as a function of the step.

    Example:
        >>> rate = falling_rate(0.3, 0.15, steps=100)
        >>> [round(float(rate(step)), 3) for step in (0, 50, 100, 200)]
        [0.3, 0.225, 0.15, 0.15]
    """

    def rate(step):
        done = tf.minimum(tf.cast(step, tf.float32) / float(steps), 1.0)
        return first + (last - first) * done

    return rate
