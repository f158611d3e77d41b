"""Losses of sentence embeddings: for pairs with scores, for pairs that belong together, and for shorter vectors.

All are losses over `pair_embeddings [B, G, H]`, the vectors of the G texts of each example. The contrastive loss uses
the whole batch: the texts of other examples are negatives, unless they have weight 0 or are the same text.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

_EXCLUDED = -1e9


def _unit(vectors: Any) -> Any:
    return vectors * ops.rsqrt(ops.sum(vectors * vectors, axis=-1, keepdims=True) + 1e-12)


@keras.saving.register_keras_serializable("keras_bert")
class CosineScoreLoss(keras.losses.Loss):
    """Squared difference of a pair's cosine and its score.

    Takes scores `[B]` and vectors `[B, 2, H]`.

    Example:
        >>> float(CosineScoreLoss()(np.array([0.5]), np.array([[[1.0, 0.0], [0.0, 1.0]]])))
        0.25
    """

    def __init__(self, reduction: str = "mean_with_sample_weight", name: str = "cosine_score_loss", **kwargs: Any):
        super().__init__(reduction=reduction, name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        unit = _unit(y_pred)
        return ops.square(ops.sum(unit[:, 0] * unit[:, 1], axis=-1) - ops.reshape(y_true, (-1,)))


@keras.saving.register_keras_serializable("keras_bert")
class ContrastiveLoss(keras.losses.Loss):
    """Cross-entropy of finding the second text of a pair among those of the whole batch (van den Oord et al. 2018).

    Takes vectors `[B, G, H]`: an anchor, a positive, and with G = 3 a hard negative; and, as targets `[B, G]`, a number
    for each text, where equal texts have equal numbers. A text is not a negative for an anchor if it is the anchor's
    positive, belongs to another example with the same anchor, or is the anchor itself. Examples of weight 0 are not
    negatives either.

    Args:
        temperature: Cosines are divided by it: the smaller, the more the nearest negatives count.
        symmetric: Whether the loss also finds the anchors by their positives.

    Example:
        >>> vectors = np.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
        >>> round(float(ContrastiveLoss(temperature=1.0)(np.array([[0, 1], [2, 3]]), vectors)), 4)  # log(1 + e⁻¹)
        0.3133
    """

    def __init__(
        self,
        temperature: float = 0.05,
        symmetric: bool = False,
        reduction: str = "mean_with_sample_weight",
        name: str = "contrastive_loss",
        **kwargs: Any,
    ):
        super().__init__(reduction=reduction, name=name, **kwargs)
        if not temperature > 0:
            raise ValueError(f"temperature={temperature!r}: expected a number above 0, such as 0.05.")
        self.temperature, self.symmetric = temperature, symmetric

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        # `call` does not see the weights, so examples of weight 0 get the number −1.
        if sample_weight is not None:
            here = ops.reshape(ops.convert_to_tensor(sample_weight, "float32") > 0, (-1, 1))
            y_true = ops.where(here, ops.convert_to_tensor(y_true, "float32"), -1.0)
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        unit = _unit(y_pred)
        anchors, positives = (unit[:, 0], y_true[:, 0]), (unit[:, 1], y_true[:, 1])
        negatives = [(unit[:, place], y_true[:, place]) for place in range(2, y_pred.shape[1])]
        same_anchor = _same(anchors[1], anchors[1])
        loss = self._find(anchors, positives, negatives, same_anchor)
        if not self.symmetric:
            return loss
        return 0.5 * (loss + self._find(positives, anchors, [], same_anchor))

    def _find(self, queries: Any, targets: Any, negatives: Any, together: Any) -> Any:
        """Negative log-probability of each query's target among all targets and negatives of the batch.

        Each argument is a pair of vectors and numbers; `together [B, B]` says which targets are right for a query.
        """
        place = ops.arange(ops.shape(queries[0])[0])
        own, scores = _same(place, place), []
        for candidates in (targets, *negatives):
            excluded = _same(targets[1], candidates[1]) | _same(queries[1], candidates[1]) | (candidates[1] < 0)[None]
            if candidates is targets:
                excluded = (excluded | together) & ~own
            scores.append(ops.where(excluded, _EXCLUDED, self._score(queries, candidates)))
        right = ops.sum(queries[0] * targets[0], axis=-1) / self.temperature
        return ops.logsumexp(ops.concatenate(scores, axis=1), axis=1) - right

    def _score(self, queries: Any, candidates: Any) -> Any:
        return ops.matmul(queries[0], ops.transpose(candidates[0])) / self.temperature  # [B, B]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "temperature": self.temperature, "symmetric": self.symmetric}


def _same(first: Any, second: Any) -> Any:
    return first[:, None] == second[None, :]


@keras.saving.register_keras_serializable("keras_bert")
class MatryoshkaLoss(keras.losses.Loss):
    """The mean of a loss over vectors that are cut to several lengths (Kusupati et al. 2022).

    So the first numbers of a vector learn to be a vector themselves. Takes what the other loss takes.

    Args:
        loss: The other loss.
        dimensions: The lengths.

    Example:
        >>> vectors = np.array([[[1.0, 0.0, 0.0], [0.6, 0.0, 0.8]]])
        >>> round(float(MatryoshkaLoss(CosineScoreLoss(), (3, 2))(np.array([1.0]), vectors)), 4)  # (0.4² + 0) / 2
        0.08
    """

    def __init__(
        self,
        loss: keras.losses.Loss,
        dimensions: Sequence[int],
        reduction: str = "mean_with_sample_weight",
        name: str = "matryoshka_loss",
        **kwargs: Any,
    ):
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.loss, self.dimensions = loss, tuple(dimensions)

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        losses = [self.loss(y_true, y_pred[..., :width], sample_weight) for width in self.dimensions]
        return sum(losses[1:], losses[0]) / len(losses)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        losses = [self.loss.call(y_true, y_pred[..., :width]) for width in self.dimensions]
        return sum(losses[1:], losses[0]) / len(losses)

    def get_config(self) -> dict[str, Any]:
        loss = keras.saving.serialize_keras_object(self.loss)
        return {**super().get_config(), "loss": loss, "dimensions": list(self.dimensions)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "MatryoshkaLoss":
        """Create a loss from the result of `get_config()`."""
        return cls(**{**config, "loss": keras.saving.deserialize_keras_object(config["loss"])})
