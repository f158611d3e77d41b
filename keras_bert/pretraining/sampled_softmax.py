"""The MLM head for large vocabularies: in training, the truth is told from K drawn tokens instead of from all.

Takes the vectors at the masked positions and what stood there, gives `mlm_logits`: `[B, M, 1 + K]` in training, with
the truth first, and the plain `[B, M, V]` else, so that validation measures the real softmax. Same weights under the
same names as the full head. A room of its own because drawing needs a design: which tokens, how often, and what that
does to the loss.

The design. Softmax divides by Z = Σ exp(logit), over the vocabulary. Here Z is estimated from negatives that all masked
tokens of a batch share: Z ≈ exp(truth) + Σ exp(negative) / expected count. It is right on average for any distribution
of the negatives, and close in each batch where likely tokens are drawn surely. So the heaviest tokens are in every
batch, and the others are drawn one from each of many strata of equal weight, hence hardly ever twice.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import keras
import numpy as np
from keras import ops

from keras_bert.model.encoder import encoder_config
from keras_bert.model.heads import MaskedLMTransform, OutputBias

_HIDDEN = -1e9  # the logit of a negative that is the truth: exp gives 0
_SMOOTHING = 0.75  # power of the counts, as in word2vec
_LEAST_SHARE = 1e-3  # of the average weight: bounds how much a rare token that is drawn can count
_WIDTH = 1 << 30  # all strata together, in int32: float32 could not tell rare tokens apart

# === Which tokens ===


def count_tokens(batches: Iterable[dict], vocabulary_size: int, *, leave_out: Iterable[int] = ()) -> np.ndarray:
    """How often each id occurs in batches with `token_ids`, `[V]`; those to leave out (special ones) count 0.

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
            raise ValueError(f"The batches have id {ids.max()}, but vocabulary_size={vocabulary_size}.")
        counts += np.bincount(ids, minlength=vocabulary_size)
    counts[list(leave_out)] = 0
    return counts


def negative_weights(vocabulary_size: int, token_counts: Sequence[int] | None = None) -> np.ndarray:
    """How heavily each id is drawn, `[V]`: by how often it occurs, or, where that is unknown, Zipf's law over the ids.

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
    """How often each id is among the negatives on average, `[V]`: by weight, but never over 1; in sum `negatives`.

    Example:
        >>> expected_counts(np.array([1.0, 8.0, 2.0, 1.0]), 2).tolist()
        [0.25, 1.0, 0.5, 0.25]
    """
    order = np.argsort(-weights, kind="stable")
    sorted_weights = weights[order]
    rest = np.cumsum(sorted_weights[::-1])[::-1]
    shares = (negatives - np.arange(len(weights))) * sorted_weights / rest
    sure = int(np.argmax(shares <= 1 + 1e-12))  # those before have more than their share: they come always
    counts = np.ones(len(weights))
    counts[order[sure:]] = (negatives - sure) * sorted_weights[sure:] / rest[sure]
    return np.minimum(counts, 1.0)


# === Layers ===


@keras.saving.register_keras_serializable("keras_bert")
class DrawNegatives(keras.layers.Layer):
    """Draws K ids for a batch: gives them, and the logarithm of how often each is drawn on average, both `[K]`.

    Its input only says where in the model it stands. Outside of training it draws nothing and gives zeros.

    Args:
        vocabulary_size: V.
        negatives: K, at most V.
        token_counts: How often each id occurs; see `negative_weights`.
        seed: Seed of the draws.

    Example:
        >>> ids, log_expected = DrawNegatives(100, 100, seed=1)(keras.ops.zeros((1, 1)), training=True)
        >>> sorted(ids.numpy().tolist()) == list(range(100))
        True
    """

    def __init__(self, vocabulary_size, negatives, *, token_counts=None, seed=None, **kwargs):
        super().__init__(**kwargs)
        if not isinstance(negatives, int) or isinstance(negatives, bool) or not 1 <= negatives <= vocabulary_size:
            raise ValueError(f"negatives={negatives!r}: expected an integer from 1 to {vocabulary_size}.")
        self.vocabulary_size, self.negatives, self.seed = vocabulary_size, negatives, seed
        self.token_counts = None if token_counts is None else [int(count) for count in token_counts]
        self.seed_generator = keras.random.SeedGenerator(seed)
        self._lay_out()

    def _lay_out(self):
        """Ids side by side, the heaviest first, each as wide as its expected count; a stratum is 1 wide."""
        expected = expected_counts(negative_weights(self.vocabulary_size, self.token_counts), self.negatives)
        order = np.argsort(-expected, kind="stable")
        self.stratum = _WIDTH // self.negatives
        ends = np.rint(np.cumsum(expected[order]) * self.stratum).astype("int64")
        ends[-1] = self.stratum * self.negatives
        self.ids = order.astype("int32")
        self.log_expected = np.log(np.diff(ends, prepend=0) / self.stratum).astype("float32")
        size = 2 ** math.ceil(math.log2(self.vocabulary_size + 1))
        self.ends = np.pad(ends, (0, size - len(ends)), constant_values=2**31 - 1).astype("int32")

    def call(self, anchor, training=False):
        if not training:
            return ops.zeros((self.negatives,), "int32"), ops.zeros((self.negatives,), "float32")
        within = keras.random.randint((self.negatives,), 0, self.stratum, seed=self.seed_generator)
        places = _count_not_above(self.ends, ops.arange(self.negatives, dtype="int32") * self.stratum + within)
        return ops.take(self.ids, places), ops.take(self.log_expected, places)

    def compute_output_spec(self, anchor, training=False):
        shape = (self.negatives,)
        return keras.KerasTensor(shape, dtype="int32"), keras.KerasTensor(shape, dtype="float32")

    def get_config(self):
        names = ("vocabulary_size", "negatives", "token_counts", "seed")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def _count_not_above(sorted_values, points):
    """How many of the values (a power of two of them) are at most each point.

    `ops.searchsorted`, but by halving: XLA compares all values with all points there.
    """
    sorted_values, places = ops.convert_to_tensor(sorted_values), ops.zeros_like(points)
    step = sorted_values.shape[0] // 2
    while step:
        places = places + step * ops.cast(ops.take(sorted_values, places + (step - 1)) <= points, "int32")
        step //= 2
    return places


@keras.saving.register_keras_serializable("keras_bert")
class RowScores(keras.layers.Layer):
    """Vectors `[B, M, E]` times rows of the token table: with a row each, `[B, M, E]`, → `[B, M]`; with `[K, E]` shared
    rows → `[B, M, K]`.
    """

    def call(self, vectors, rows):
        if len(rows.shape) == 2:
            return ops.matmul(vectors, ops.transpose(rows))
        return ops.sum(vectors * rows, axis=-1)

    def compute_output_shape(self, vectors_shape, rows_shape):
        leading = tuple(vectors_shape[:-1])
        return (*leading, rows_shape[0]) if len(rows_shape) == 2 else leading


@keras.saving.register_keras_serializable("keras_bert")
class SampledLogits(keras.layers.Layer):
    """In training, logits whose softmax estimates the full one at the truth, which is class 0; else the full logits.

    Which of the two is not known before the call, so the model computes both. What is not used costs nothing where the
    step is compiled, as in `fit`: compilers drop it.
    """

    def call(self, full, true, negative, true_ids, negative_ids, log_expected, training=False):
        if not training:
            return full
        corrected = negative - ops.cast(log_expected, negative.dtype)
        # A truth that was drawn as well would count twice in Z.
        is_true = ops.equal(true_ids[:, :, None], negative_ids)
        corrected = ops.where(is_true, ops.cast(_HIDDEN, corrected.dtype), corrected)
        return ops.concatenate([true[:, :, None], corrected], axis=-1)

    def compute_output_shape(self, full_shape, *other_shapes, **named_shapes):
        return tuple(full_shape)


# === Functional Model ===


def sampled_masked_lm_logits(
    encoder: keras.Model,
    vectors,
    masked_ids,
    negatives: int,
    *,
    token_counts: Sequence[int] | None = None,
    seed: int | None = None,
):
    """As `masked_lm_logits`, for `vectors [B, M, H]` at the masked positions; in training over `1 + negatives` classes.

    Args:
        encoder: The encoder whose token table scores.
        vectors: `[B, M, H]`.
        masked_ids: What stood there, `[B, M]`.
        negatives: K. It may not be V − 1 or more: nothing would be saved, and the shape tells training from evaluation.
        token_counts: How often each id occurs in the text; `None` takes Zipf's law over the ids.
        seed: Seed of the head's weights and of the draws.
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


def true_classes(ids, logits, vocabulary_size: int):
    """The class of the truth: its id among the whole vocabulary, 0 among candidates."""
    return ids if logits.shape[-1] == vocabulary_size else ops.zeros_like(ids)


def _cross_entropy(ids, logits, vocabulary_size):
    classes = true_classes(ids, logits, vocabulary_size)
    return keras.losses.sparse_categorical_crossentropy(classes, logits, from_logits=True)


def _hits(ids, logits, vocabulary_size):
    return keras.metrics.sparse_categorical_accuracy(true_classes(ids, logits, vocabulary_size), logits)


@keras.saving.register_keras_serializable("keras_bert")
class SampledCrossEntropy(keras.losses.Loss):
    """Cross-entropy of ids, with logits over the vocabulary or over the truth and its negatives."""

    def __init__(self, vocabulary_size, *, reduction="mean_with_sample_weight", name="mlm_loss", dtype=None):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.vocabulary_size = vocabulary_size

    def call(self, ids, logits):
        return _cross_entropy(ids, logits, self.vocabulary_size)

    def get_config(self):
        return {**super().get_config(), "vocabulary_size": self.vocabulary_size}


class _SampledMean(keras.metrics.MeanMetricWrapper):
    measure: Callable

    def __init__(self, vocabulary_size, *, name, dtype=None):
        super().__init__(type(self).measure, name=name, dtype=dtype, vocabulary_size=vocabulary_size)
        self.vocabulary_size = vocabulary_size

    def get_config(self):
        return {"vocabulary_size": self.vocabulary_size, "name": self.name, "dtype": self.dtype}


@keras.saving.register_keras_serializable("keras_bert")
class SampledAccuracy(_SampledMean):
    """The share of hits; in training among candidates, where drawn tokens weigh more: lower than the real one."""

    measure = staticmethod(_hits)


@keras.saving.register_keras_serializable("keras_bert")
class SampledPerplexity(_SampledMean):
    """exp of the mean cross-entropy; in training an estimate of the real one."""

    measure = staticmethod(_cross_entropy)

    def result(self):
        return ops.exp(super().result())
