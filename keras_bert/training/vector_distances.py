"""Keras losses that compare a student's vectors with its teacher's: vectors, relations and similarities.

The teacher's tensors are the labels, the student's are the outputs. Each loss gives a number for each text or token, so
that weights can leave out padding. In shared rows, tokens of different texts are never compared.
"""

from typing import Any

import keras
from keras import ops

from keras_bert.model.attention_bias import MASK_BIAS


@keras.saving.register_keras_serializable("keras_bert")
class VectorDistance(keras.losses.Loss):
    """The mean squared difference of vectors, `[…, D]`, divided by the teacher's mean square.

    Without the division, layers with larger states would count more.
    """

    def __init__(
        self,
        weight: float = 1.0,
        reduction: str = "mean_with_sample_weight",
        name: str = "vector_distance",
        **kwargs: Any,
    ) -> None:
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.weight = weight

    def call(self, y_true: Any, y_pred: Any) -> Any:
        y_true = ops.cast(y_true, y_pred.dtype)
        unit = ops.mean(ops.square(y_true), axis=-1) + 1e-6
        return self.weight * ops.mean(ops.square(y_true - y_pred), axis=-1) / unit

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "weight": self.weight}


@keras.saving.register_keras_serializable("keras_bert")
class RelationDistance(keras.losses.Loss):
    """How differently two models relate the tokens of a text to each other (MiniLMv2, Wang et al. 2021).

    Takes the teacher's vectors `[B, T, K * Ht]`, K side by side for each token, and the student's `[B, T, 1 + K * Hs]`,
    which begin with the number of the token's text (0 is padding). Each vector is cut into `heads` parts, whatever the
    heads of the models. The softmax over the products of a token's part with those of all tokens of its text is
    compared by the Kullback-Leibler divergence. With `cross`, there are two vectors, and the products are those of the
    first with the second: the attention itself. Gives a number for each token.
    """

    def __init__(
        self,
        heads: int = 12,
        vectors: int = 3,
        cross: bool = False,
        weight: float = 1.0,
        reduction: str = "mean_with_sample_weight",
        name: str = "relation_distance",
        **kwargs: Any,
    ) -> None:
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.heads, self.vectors, self.cross, self.weight = heads, vectors, cross, weight

    def call(self, y_true: Any, y_pred: Any) -> Any:
        text, student = y_pred[..., 0], y_pred[..., 1:]
        apart = ops.cast(ops.not_equal(text[:, :, None], text[:, None, :]), student.dtype)[:, None] * MASK_BIAS
        theirs, ours = self._relations(ops.cast(y_true, student.dtype), apart), self._relations(student, apart)
        terms = [
            ops.mean(ops.sum(ops.exp(one) * (one - other), axis=-1), axis=1)  # [B, T], the mean over the heads
            for one, other in zip(theirs, ours, strict=True)
        ]
        return self.weight * sum(terms) / len(terms)

    def _relations(self, vectors: Any, apart: Any) -> list[Any]:
        """The logarithms of the relations, each `[B, heads, T, T]`."""
        parts = [self._split(part) for part in ops.split(vectors, self.vectors, axis=-1)]
        pairs = [(parts[0], parts[1])] if self.cross else [(part, part) for part in parts]
        return [
            ops.log_softmax(ops.matmul(left, ops.transpose(right, (0, 1, 3, 2))) * left.shape[-1] ** -0.5 + apart)
            for left, right in pairs
        ]

    def _split(self, vectors: Any) -> Any:
        width = vectors.shape[-1] // self.heads
        shape = (*ops.shape(vectors)[:2], self.heads, width)
        return ops.transpose(ops.reshape(vectors, shape), (0, 2, 1, 3))  # [B, heads, T, D]

    def get_config(self) -> dict[str, Any]:
        own = {"heads": self.heads, "vectors": self.vectors, "cross": self.cross, "weight": self.weight}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("keras_bert")
class CosineDistance(keras.losses.Loss):
    """One minus the cosine between the vectors of texts, `[B, G, H]` of both; gives the mean over a group."""

    def __init__(
        self,
        weight: float = 1.0,
        reduction: str = "mean_with_sample_weight",
        name: str = "cosine_distance",
        **kwargs: Any,
    ) -> None:
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.weight = weight

    def call(self, y_true: Any, y_pred: Any) -> Any:
        cosines = ops.sum(_unit(ops.cast(y_true, y_pred.dtype)) * _unit(y_pred), axis=-1)
        return self.weight * ops.mean(1.0 - cosines, axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "weight": self.weight}


@keras.saving.register_keras_serializable("keras_bert")
class SimilarityDistance(keras.losses.Loss):
    """How differently two models compare the texts of a batch: vectors `[B, G, Ht]` and `[B, G, Hs]`, of any widths.

    Takes the cosine of every text with every other, and squares the difference between student and teacher. Gives the
    mean over all texts of the batch, for each group. Groups of weight 0 are left out.
    """

    def __init__(
        self,
        weight: float = 1.0,
        reduction: str = "mean_with_sample_weight",
        name: str = "similarity_distance",
        **kwargs: Any,
    ) -> None:
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.weight = weight

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        # `call` does not see the weights, so groups of weight 0 get a vector of zeros.
        if sample_weight is not None:
            here = ops.reshape(ops.convert_to_tensor(sample_weight, "float32") > 0, (-1, 1, 1))
            y_true = ops.where(here, ops.convert_to_tensor(y_true, "float32"), 0.0)
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        theirs = _unit(ops.reshape(ops.cast(y_true, y_pred.dtype), (-1, y_true.shape[-1])))  # [B * G, Ht]
        ours = _unit(ops.reshape(y_pred, (-1, y_pred.shape[-1])))
        here = ops.cast(ops.sum(ops.square(theirs), axis=-1) > 0.5, ours.dtype)  # [B * G]
        apart = ops.square(ops.matmul(theirs, ops.transpose(theirs)) - ops.matmul(ours, ops.transpose(ours)))
        by_text = ops.sum(apart * here[None], axis=-1) / ops.maximum(ops.sum(here), 1.0)
        return self.weight * ops.mean(ops.reshape(by_text, (-1, y_pred.shape[1])), axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "weight": self.weight}


def _unit(vectors: Any) -> Any:
    return vectors * ops.rsqrt(ops.sum(vectors * vectors, axis=-1, keepdims=True) + 1e-12)
