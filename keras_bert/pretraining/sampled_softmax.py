"""An MLM head for large vocabularies: in training, it compares the true token with K sampled ones instead of all.

Takes the vectors at the masked positions and the true ids, gives `mlm_logits`. In training these are `[B, M, 1 + K]`,
with the true token first; otherwise they are the full `[B, M, V]`, so that validation uses the real softmax. The
weights have the same names as those of the full head.

Softmax divides by Z = Σ exp(logit), over the vocabulary. Here Z is estimated from negatives that all masked tokens of a
batch share: Z ≈ exp(true) + Σ exp(negative) / expected count. The estimate is unbiased for any distribution of the
negatives, and it is close in each batch if likely tokens are always included. So the tokens of greatest weight are in
every batch. The others are sampled one from each of many strata of equal weight, so they rarely appear twice.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.model.encoder import encoder_config
from keras_bert.model.heads import MaskedLMTransform, OutputBias
from keras_bert.model.token_scores import token_cross_entropy, token_hits

_HIDDEN = -1e9  # the logit of a negative that is the true token: exp gives 0
_SMOOTHING = 0.75  # power of the counts, as in word2vec
_LEAST_SHARE = 1e-3  # of the average weight: limits the weight of a rare token in the estimate
_WIDTH = 1 << 30  # of all strata, in int32: float32 is too coarse for rare tokens

# === Which tokens ===


def count_tokens(
    batches: Iterable[dict[str, Any]], vocabulary_size: int, *, leave_out: Iterable[int] = ()
) -> np.ndarray:
    """Count how often each id occurs in batches with `token_ids`, `[V]`; ids of `leave_out` (special ones) count 0.

    Example:
        ```python
        examples = read_examples("examples", batch_size=256)
        model = pretraining_model(config, negatives=2048, token_counts=count_tokens(examples, config.vocabulary_size))
        ```
    """
    counts = np.zeros(vocabulary_size, "int64")
    for batch in batches:
        ids = batch["token_ids"]
        ids = np.ravel(getattr(ids, "flat_values", ids))
        if ids.size and ids.max() >= vocabulary_size:
            raise ValueError(
                f"The batches have id {ids.max()}, but vocabulary_size={vocabulary_size}; pass the size of the "
                "vocabulary that the examples were made with."
            )
        counts += np.bincount(ids, minlength=vocabulary_size)
    counts[list(leave_out)] = 0
    return counts


def negative_weights(vocabulary_size: int, token_counts: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
    """The sampling weight of each id, `[V]`: by how often it occurs or, if that is unknown, by Zipf's law over the ids.

    Example:
        >>> negative_weights(4, token_counts=[0, 16, 81, 1]).round(1).tolist()
        [1.0, 8.4, 27.3, 1.7]
    """
    if token_counts is None:
        ranks = np.arange(1, vocabulary_size + 1)
        weights = np.log1p(1 / ranks)
    else:
        counts = np.asarray(token_counts, "float64")
        if counts.shape != (vocabulary_size,) or not np.all(np.isfinite(counts)) or counts.min() < 0:
            raise ValueError(
                f"token_counts has shape {counts.shape}; expected {vocabulary_size} numbers of at least 0, one for "
                "each id of the vocabulary: count_tokens(dataset, vocabulary_size) makes them."
            )
        weights = (counts + 1) ** _SMOOTHING
    return np.maximum(weights, _LEAST_SHARE * weights.mean())


def expected_counts(weights: np.ndarray, negatives: int) -> np.ndarray:
    """How often each id is a negative on average, `[V]`: by weight, at most 1; the sum is `negatives`.

    Example:
        >>> expected_counts(np.array([1.0, 8.0, 2.0, 1.0]), 2).tolist()
        [0.25, 1.0, 0.5, 0.25]
    """
    order = np.argsort(-weights, kind="stable")
    sorted_weights = weights[order]
    rest = np.cumsum(sorted_weights[::-1])[::-1]
    shares = (negatives - np.arange(len(weights))) * sorted_weights / rest
    sure = int(np.argmax(shares <= 1 + 1e-12))  # those before would exceed 1, so they are always included
    counts = np.ones(len(weights))
    counts[order[sure:]] = (negatives - sure) * sorted_weights[sure:] / rest[sure]
    return np.minimum(counts, 1.0)


# === Layers ===


@keras.saving.register_keras_serializable("keras_bert")
class DrawNegatives(keras.layers.Layer):
    """Samples K ids for a batch; gives them and the logarithm of their expected counts, both `[K]`.

    Its input is not used; it connects the layer to the model. Outside of training it gives zeros.

    Args:
        vocabulary_size: V.
        negatives: K, at most V.
        token_counts: How often each id occurs; see `negative_weights`.
        seed: Seed of the sampling.

    Example:
        >>> ids, log_expected = DrawNegatives(100, 100, seed=1)(keras.ops.zeros((1, 1)), training=True)
        >>> sorted(ids.numpy().tolist()) == list(range(100))
        True
    """

    def __init__(
        self,
        vocabulary_size: int,
        negatives: int,
        *,
        token_counts: Sequence[int] | np.ndarray | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(negatives, int) or isinstance(negatives, bool) or not 1 <= negatives <= vocabulary_size:
            raise ValueError(f"negatives={negatives!r}: expected an integer from 1 to {vocabulary_size}.")
        self.vocabulary_size, self.negatives, self.seed = vocabulary_size, negatives, seed
        self.token_counts = None if token_counts is None else [int(count) for count in token_counts]
        self.seed_generator = keras.random.SeedGenerator(seed)
        self._lay_out()

    def _lay_out(self) -> None:
        """Arrange ids on a line by decreasing weight, each as wide as its expected count; a stratum has width 1."""
        expected = expected_counts(negative_weights(self.vocabulary_size, self.token_counts), self.negatives)
        order = np.argsort(-expected, kind="stable")
        self.stratum = _WIDTH // self.negatives
        ends = np.rint(np.cumsum(expected[order]) * self.stratum).astype("int64")
        ends[-1] = self.stratum * self.negatives
        self.ids = order.astype("int32")
        self.log_expected = np.log(np.diff(ends, prepend=0) / self.stratum).astype("float32")
        size = 2 ** math.ceil(math.log2(self.vocabulary_size + 1))
        self.ends = np.pad(ends, (0, size - len(ends)), constant_values=2**31 - 1).astype("int32")

    def call(self, anchor: Any, training: bool | None = False) -> tuple[Any, Any]:
        if not training:
            return ops.zeros((self.negatives,), "int32"), ops.zeros((self.negatives,), "float32")
        within = keras.random.randint((self.negatives,), 0, self.stratum, seed=self.seed_generator)
        places = _count_not_above(self.ends, ops.arange(self.negatives, dtype="int32") * self.stratum + within)
        return ops.take(self.ids, places), ops.take(self.log_expected, places)

    def compute_output_spec(
        self, anchor: Any, training: bool | None = False
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        shape = (self.negatives,)
        return keras.KerasTensor(shape, dtype="int32"), keras.KerasTensor(shape, dtype="float32")

    def get_config(self) -> dict[str, Any]:
        names = ("vocabulary_size", "negatives", "token_counts", "seed")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def _count_not_above(sorted_values: Any, points: Any) -> Any:
    """Count, for each point, the values that are not above it; the number of values is a power of two.

    A binary search. `ops.searchsorted` gives the same, but XLA compares all values with all points there.
    """
    sorted_values, places = ops.convert_to_tensor(sorted_values), ops.zeros_like(points)
    step = sorted_values.shape[0] // 2
    while step:
        places = places + step * ops.cast(ops.take(sorted_values, places + (step - 1)) <= points, "int32")
        step //= 2
    return places


@keras.saving.register_keras_serializable("keras_bert")
class RowScores(keras.layers.Layer):
    """Multiplies vectors `[B, M, E]` by rows of the token table.

    Rows `[B, M, E]`, one for each vector, give `[B, M]`; rows `[K, E]`, the same for all vectors, give `[B, M, K]`.
    """

    def call(self, vectors: Any, rows: Any) -> Any:
        if len(rows.shape) == 2:
            return ops.matmul(vectors, ops.transpose(rows))
        return ops.sum(vectors * rows, axis=-1)

    def compute_output_shape(
        self, vectors_shape: tuple[int | None, ...], rows_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        leading = tuple(vectors_shape[:-1])
        return (*leading, rows_shape[0]) if len(rows_shape) == 2 else leading


@keras.saving.register_keras_serializable("keras_bert")
class SampledLogits(keras.layers.Layer):
    """Gives the sampled logits in training, with the true token as class 0, and the full logits otherwise.

    The softmax of the sampled logits estimates the full softmax at the true token. The model computes both kinds,
    because training is not known before the call. In a compiled step, as in `fit`, the unused one is removed.
    """

    def call(
        self,
        full: Any,
        true: Any,
        negative: Any,
        true_ids: Any,
        negative_ids: Any,
        log_expected: Any,
        training: bool | None = False,
    ) -> Any:
        if not training:
            return full
        corrected = negative - ops.cast(log_expected, negative.dtype)
        # A true token that is also a negative would count twice in Z.
        is_true = ops.equal(true_ids[:, :, None], negative_ids)
        corrected = ops.where(is_true, ops.cast(_HIDDEN, corrected.dtype), corrected)
        return ops.concatenate([true[:, :, None], corrected], axis=-1)

    def compute_output_shape(
        self, full_shape: tuple[int | None, ...], *other_shapes: Any, **named_shapes: Any
    ) -> tuple[int | None, ...]:
        return tuple(full_shape)


# === Functional Model ===


def sampled_masked_lm_logits(
    encoder: keras.Model,
    vectors: Any,
    masked_ids: Any,
    negatives: int,
    *,
    token_counts: Sequence[int] | np.ndarray | None = None,
    seed: int | None = None,
) -> Any:
    """Add the head to an encoder; as `masked_lm_logits`, but with `1 + negatives` classes in training.

    Args:
        encoder: The encoder, whose token table is the output matrix.
        vectors: The vectors at the masked positions, `[B, M, H]`.
        masked_ids: The true ids there, `[B, M]`.
        negatives: K, below V − 1: the number of classes tells training from evaluation.
        token_counts: How often each id occurs in the text; `None` uses Zipf's law over the ids.
        seed: Seed of the head's weights and of the sampling.
    """
    config = encoder_config(encoder)
    size = config.vocabulary_size
    if not isinstance(negatives, int) or isinstance(negatives, bool) or not 1 <= negatives <= size - 2:
        raise ValueError(
            f"negatives={negatives!r}: expected an integer from 1 to {size - 2}, two below vocabulary_size={size}, or "
            "None for the full softmax."
        )
    transformed = MaskedLMTransform(config, seed=seed, name="mlm_transform")(vectors)
    table, bias = encoder.get_layer("token_embedding"), OutputBias(name="mlm_bias")
    full = bias(table(transformed, reverse=True))
    draw = DrawNegatives(size, negatives, token_counts=token_counts, seed=seed, name="draw_negatives")
    negative_ids, log_expected = draw(masked_ids)
    true = bias(RowScores(name="true_scores")(transformed, table(masked_ids)), masked_ids)
    negative = bias(RowScores(name="negative_scores")(transformed, table(negative_ids)), negative_ids)
    return SampledLogits(name="sampled_logits")(full, true, negative, masked_ids, negative_ids, log_expected)


# === Loss and metrics ===


def true_classes(ids: Any, logits: Any, vocabulary_size: int) -> Any:
    """The class of the true token: its id in full logits, 0 in sampled ones."""
    return ids if logits.shape[-1] == vocabulary_size else ops.zeros_like(ids)


def _cross_entropy(ids: Any, logits: Any, vocabulary_size: int) -> Any:
    classes = true_classes(ids, logits, vocabulary_size)
    return token_cross_entropy(classes, logits)


def _hits(ids: Any, logits: Any, vocabulary_size: int) -> Any:
    return token_hits(true_classes(ids, logits, vocabulary_size), logits)


@keras.saving.register_keras_serializable("keras_bert")
class SampledCrossEntropy(keras.losses.Loss):
    """The cross-entropy of ids, with full or sampled logits."""

    def __init__(
        self,
        vocabulary_size: int,
        *,
        reduction: str = "mean_with_sample_weight",
        name: str = "mlm_loss",
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.vocabulary_size = vocabulary_size

    def call(self, ids: Any, logits: Any) -> Any:
        return _cross_entropy(ids, logits, self.vocabulary_size)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "vocabulary_size": self.vocabulary_size}


class _SampledMean(keras.metrics.MeanMetricWrapper):
    """The mean of a measure of ids, with full or sampled logits."""

    measure: Callable[[Any, Any, int], Any]

    def __init__(self, vocabulary_size: int, *, name: str, dtype: Any = None) -> None:
        super().__init__(type(self).measure, name=name, dtype=dtype, vocabulary_size=vocabulary_size)
        self.vocabulary_size = vocabulary_size

    def get_config(self) -> dict[str, Any]:
        return {"vocabulary_size": self.vocabulary_size, "name": self.name, "dtype": self.dtype}


@keras.saving.register_keras_serializable("keras_bert")
class SampledAccuracy(_SampledMean):
    """The accuracy; in training it is lower than the real one, because the logits of negatives are raised."""

    measure = staticmethod(_hits)


@keras.saving.register_keras_serializable("keras_bert")
class SampledPerplexity(_SampledMean):
    """The exponential of the mean cross-entropy; in training it estimates the real perplexity."""

    measure = staticmethod(_cross_entropy)

    def result(self) -> Any:
        return ops.exp(super().result())
