"""A linear-chain CRF: the likelihood of a whole sequence of tags.

`LinearChainCRF` is a layer that adds learned transitions to the logits of a tagger; `CRFLoss` is the loss of the right
tags. Decoding is in `decoding/entities.py`, in NumPy.

The layer's output is the score of each tag at each token after each previous tag, `[B, T, C + 1, C]`: one tensor with
everything that the loss needs. The last row of the transitions is for a tag at the start of the text. The gradient of
the sum over all paths is the probability of each transition, which the forward and backward sums give in closed form.
So no gradient goes through a loop, which XLA and JAX handle differently.
"""

from typing import Any

import keras
import numpy as np
from keras import ops
from numpy.typing import ArrayLike

_NEVER = -1e9


@keras.saving.register_keras_serializable("keras_bert")
class LinearChainCRF(keras.layers.Layer):
    """Adds transitions to logits: takes `[B, T, C]`, gives `[B, T, C + 1, C]`.

    Args:
        scale: How much faster the transitions learn than the encoder. With AdamW a weight moves by about the learning
            rate per step, and with the rates for BERT the transitions would stay near zero.
        forbidden: `[C, C]`, true if a tag must not follow another: such paths are left out of the sum.

    Example:
        >>> LinearChainCRF(name="crf")(np.zeros((2, 5, 3), "float32")).shape
        TensorShape([2, 5, 4, 3])
    """

    def __init__(self, *, scale: float = 100.0, forbidden: ArrayLike | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.scale = scale
        self.forbidden = None if forbidden is None else np.asarray(forbidden, bool).tolist()

    def build(self, x_shape: Any) -> None:
        classes = x_shape[-1]
        if self.forbidden is not None and np.shape(self.forbidden) != (classes, classes):
            raise ValueError(f"forbidden has shape {np.shape(self.forbidden)}; expected {(classes, classes)}.")
        self.kernel = self.add_weight(name="transitions", shape=(classes + 1, classes), initializer="zeros")

    @property
    def transitions(self) -> np.ndarray:
        """The learned scores, `[C + 1, C]`; the last row is for a tag at the start of a text."""
        return self.scale * ops.convert_to_numpy(self.kernel)

    def set_transitions(self, transitions: ArrayLike) -> None:
        """Set the scores."""
        self.kernel.assign(np.asarray(transitions, "float32") / self.scale)

    def call(self, x: Any) -> Any:
        # The value is scaled, but not the gradient: it would dominate all others in clipping by the global norm.
        kernel = ops.convert_to_tensor(self.kernel)
        scores = kernel + (self.scale - 1.0) * ops.stop_gradient(kernel)
        if self.forbidden is not None:
            penalty = np.pad(np.where(self.forbidden, _NEVER, 0.0), ((0, 1), (0, 0)))
            scores = scores + ops.convert_to_tensor(penalty, scores.dtype)
        return x[:, :, None, :] + scores

    def compute_output_shape(self, x_shape: Any) -> tuple[int | None, ...]:
        return (*x_shape[:-1], x_shape[-1] + 1, x_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale, "forbidden": self.forbidden}


@keras.saving.register_keras_serializable("keras_bert")
class CRFLoss(keras.losses.Loss):
    """Negative log-likelihood of the right tags of a row, divided by their number.

    Labels are `[B, T]`, −1 for tokens without a label, which the chain skips. Weighted by the number of labels in
    each row, the loss is the mean over all tags.

    Example:
        >>> potentials = LinearChainCRF()(np.zeros((1, 3, 2), "float32"))
        >>> round(float(CRFLoss()(np.array([[-1, 0, 1]]), potentials)), 4)  # one of two, twice
        0.6931
    """

    def __init__(self, reduction: str = "mean_with_sample_weight", name: str = "crf_loss", **kwargs: Any):
        super().__init__(reduction=reduction, name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        labels = ops.cast(y_true, "int32")
        count = ops.sum(ops.cast(labels >= 0, y_pred.dtype), axis=1)
        return -crf_log_likelihood(y_pred, labels) / ops.maximum(count, 1.0)


def crf_log_likelihood(potentials: Any, labels: Any) -> Any:
    """Compute the log-likelihood of labels, `[B]`.

    Args:
        potentials: `[B, T, C + 1, C]`, from `LinearChainCRF`.
        labels: int32 `[B, T]`; −1 for tokens without a label.

    Example:
        >>> crf_log_likelihood(np.zeros((1, 2, 3, 2), "float32"), np.array([[0, 1]])).numpy().round(4).tolist()
        [-1.3863]
    """
    classes = potentials.shape[-1]
    is_labelled = labels >= 0
    before = ops.swapaxes(_previous_labels(labels, classes), 0, 1)
    taken = ops.one_hot(before * classes + ops.maximum(labels, 0), (classes + 1) * classes, dtype=potentials.dtype)
    taken = taken * ops.cast(is_labelled, potentials.dtype)[:, :, None]
    flat = ops.reshape(potentials, (-1, ops.shape(potentials)[1], (classes + 1) * classes))
    return ops.sum(flat * taken, axis=(1, 2)) - log_partition(potentials, is_labelled)


def _previous_labels(labels: Any, classes: int) -> Any:
    """The label before each token, `[T, B]`; the number of classes if there is none."""

    def step(last: Any, label: Any) -> tuple[Any, Any]:
        return ops.where(label >= 0, label, last), last

    return ops.scan(step, ops.full_like(labels[:, 0], classes), ops.swapaxes(labels, 0, 1))[1]


def log_partition(potentials: Any, mask: Any) -> Any:
    """Compute the logarithm of the sum over all paths of the exponential of their scores, `[B]`.

    Args:
        potentials: `[B, T, C + 1, C]`.
        mask: Bool `[B, T]`: which tokens are part of the chain.
    """
    classes = potentials.shape[-1]
    # One more state than tags: the start of the text, where all paths start and to which none returns. A token outside
    # of the chain leaves every state as it is.
    steps = ops.pad(potentials, ((0, 0), (0, 0), (0, 0), (0, 1)), constant_values=_NEVER)
    stay = ops.convert_to_tensor(np.where(np.eye(classes + 1), 0.0, _NEVER), potentials.dtype)
    steps = ops.transpose(ops.where(mask[:, :, None, None], steps, stay), (1, 0, 2, 3))  # [T, B, C + 1, C + 1]
    return _path_sum(steps)


@ops.custom_gradient
def _path_sum(steps: Any) -> Any:
    last, before = _forward(steps)
    total = ops.logsumexp(last, axis=-1)

    def gradient(*arguments: Any, upstream: Any = None) -> Any:
        upstream = arguments[0] if upstream is None else upstream
        logs = before[:, :, :, None] + steps + _backward(steps)[:, :, None, :] - total[None, :, None, None]
        # The probability of each transition; rounding must not make it more than 1.
        return ops.exp(ops.minimum(logs, 0.0)) * upstream[None, :, None, None]

    return total, gradient


def _forward(steps: Any) -> Any:
    """The sums over all prefixes: after the last token `[B, C + 1]`, and before each token `[T, B, C + 1]`."""
    first = steps[0, :, 0, :]
    start = ops.concatenate([ops.full_like(first[:, :-1], _NEVER), ops.zeros_like(first[:, -1:])], axis=-1)

    def step(sums: Any, scores: Any) -> tuple[Any, Any]:
        return ops.logsumexp(sums[:, :, None] + scores, axis=1), sums

    return ops.scan(step, start, steps)


def _backward(steps: Any) -> Any:
    """The sums over all suffixes after each token, `[T, B, C + 1]`."""

    def step(sums: Any, scores: Any) -> tuple[Any, Any]:
        return ops.logsumexp(scores + sums[:, None, :], axis=2), sums

    return ops.scan(step, ops.zeros_like(steps[0, :, :, 0]), steps, reverse=True)[1]
