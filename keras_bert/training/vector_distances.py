"""How far a student's vectors are from its teacher's, as Keras losses: vectors, relations and similarities.

Takes a teacher's tensors as the labels and a student's as the outputs; gives a number for each text or token, so that
weights can leave out padding. In packed rows no token meets a token of another text.
"""

import keras
from keras import ops

from keras_bert.model.attention_bias import MASK_BIAS


@keras.saving.register_keras_serializable("keras_bert")
class VectorDistance(keras.losses.Loss):
    """The mean squared difference of vectors, `[…, D]`, in units of the teacher's own mean square.

    Without the unit, a layer whose states are ten times larger would count a hundred times more.
    """

    def __init__(self, weight=1.0, reduction="mean_with_sample_weight", name="vector_distance", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.weight = weight

    def call(self, y_true, y_pred):
        y_true = ops.cast(y_true, y_pred.dtype)
        unit = ops.mean(ops.square(y_true), axis=-1) + 1e-6
        return self.weight * ops.mean(ops.square(y_true - y_pred), axis=-1) / unit

    def get_config(self):
        return {**super().get_config(), "weight": self.weight}


@keras.saving.register_keras_serializable("keras_bert")
class RelationDistance(keras.losses.Loss):
    """How differently two models relate the tokens of a text to each other (MiniLMv2, Wang et al. 2021).

    Takes the teacher's vectors `[B, T, K * Ht]`, K of them for each token side by side, and the student's
    `[B, T, 1 + K * Hs]`, behind the number of the text that the token belongs to (0 = padding). Each is cut into
    `heads` parts, whatever heads the models have; the softmax over the products of each part of a token with those of
    all tokens of its text is compared by the Kullback-Leibler divergence. With `cross`, of two vectors the products of
    the first with the second: attention itself. Gives a number for each token.
    """

    def __init__(
        self,
        heads=12,
        vectors=3,
        cross=False,
        weight=1.0,
        reduction="mean_with_sample_weight",
        name="relation_distance",
        **kwargs,
    ):
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.heads, self.vectors, self.cross, self.weight = heads, vectors, cross, weight

    def call(self, y_true, y_pred):
        text, student = y_pred[..., 0], y_pred[..., 1:]
        apart = ops.cast(ops.not_equal(text[:, :, None], text[:, None, :]), student.dtype)[:, None] * MASK_BIAS
        theirs, ours = self._relations(ops.cast(y_true, student.dtype), apart), self._relations(student, apart)
        terms = [
            ops.mean(ops.sum(ops.exp(one) * (one - other), axis=-1), axis=1)  # [B, T], the mean over the heads
            for one, other in zip(theirs, ours, strict=True)
        ]
        return self.weight * sum(terms) / len(terms)

    def _relations(self, vectors, apart):
        """The logarithms of the relations, `[B, heads, T, T]` each."""
        parts = [self._split(part) for part in ops.split(vectors, self.vectors, axis=-1)]
        pairs = [(parts[0], parts[1])] if self.cross else [(part, part) for part in parts]
        return [
            ops.log_softmax(ops.matmul(left, ops.transpose(right, (0, 1, 3, 2))) * left.shape[-1] ** -0.5 + apart)
            for left, right in pairs
        ]

    def _split(self, vectors):
        width = vectors.shape[-1] // self.heads
        shape = (*ops.shape(vectors)[:2], self.heads, width)
        return ops.transpose(ops.reshape(vectors, shape), (0, 2, 1, 3))  # [B, heads, T, D]

    def get_config(self):
        own = {"heads": self.heads, "vectors": self.vectors, "cross": self.cross, "weight": self.weight}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("keras_bert")
class CosineDistance(keras.losses.Loss):
    """1 − the cosine between the vectors of texts, `[B, G, H]` of both; gives the mean over a group's texts."""

    def __init__(self, weight=1.0, reduction="mean_with_sample_weight", name="cosine_distance", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.weight = weight

    def call(self, y_true, y_pred):
        cosines = ops.sum(_unit(ops.cast(y_true, y_pred.dtype)) * _unit(y_pred), axis=-1)
        return self.weight * ops.mean(1.0 - cosines, axis=-1)

    def get_config(self):
        return {**super().get_config(), "weight": self.weight}


@keras.saving.register_keras_serializable("keras_bert")
class SimilarityDistance(keras.losses.Loss):
    """How differently two models compare the texts of a batch: vectors `[B, G, Ht]` and `[B, G, Hs]`, of any widths.

    The cosine of every text with every other, the student's less the teacher's, squared; gives the mean over all texts
    of the batch, for each group. Groups of weight 0 are not there.
    """

    def __init__(self, weight=1.0, reduction="mean_with_sample_weight", name="similarity_distance", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.weight = weight

    def __call__(self, y_true, y_pred, sample_weight=None):
        # The weights say who is there, and `call` does not see them: what is not there gets a vector of zeros.
        if sample_weight is not None:
            here = ops.reshape(ops.convert_to_tensor(sample_weight, "float32") > 0, (-1, 1, 1))
            y_true = ops.where(here, ops.convert_to_tensor(y_true, "float32"), 0.0)
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true, y_pred):
        theirs = _unit(ops.reshape(ops.cast(y_true, y_pred.dtype), (-1, y_true.shape[-1])))  # [B * G, Ht]
        ours = _unit(ops.reshape(y_pred, (-1, y_pred.shape[-1])))
        here = ops.cast(ops.sum(ops.square(theirs), axis=-1) > 0.5, ours.dtype)  # [B * G]
        apart = ops.square(ops.matmul(theirs, ops.transpose(theirs)) - ops.matmul(ours, ops.transpose(ours)))
        by_text = ops.sum(apart * here[None], axis=-1) / ops.maximum(ops.sum(here), 1.0)
        return self.weight * ops.mean(ops.reshape(by_text, (-1, y_pred.shape[1])), axis=-1)

    def get_config(self):
        return {**super().get_config(), "weight": self.weight}


def _unit(vectors):
    return vectors * ops.rsqrt(ops.sum(vectors * vectors, axis=-1, keepdims=True) + 1e-12)
