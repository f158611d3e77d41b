"""Keras losses that compare a student's logits with its teacher's: of classes, of labels and of spans.

The teacher's tensors are the labels, the student's are the outputs. Each loss gives a number for each text or token, so
that weights can leave out padding. The losses of `keras.distillation` give one number for a whole batch, in which
padding counts. Losses of vectors are in `keras_bert/training/vector_distances.py`, because pretraining needs them too.
"""

from typing import Any

import keras
from keras import ops

from keras_bert.model.attention_bias import MASK_BIAS
from keras_bert.tasks.multiple_choice.task import ABSENT


@keras.saving.register_keras_serializable("keras_bert")
class SoftLabels(keras.losses.Loss):
    """Cross-entropy with a teacher's probabilities at a temperature, times its square (Hinton et al. 2015).

    Takes logits of both, `[…, C]`; gives one number for each row. The teacher's own entropy is subtracted, so that 0
    means equal. Positions where the teacher has `ABSENT` (a question with fewer choices than others) are left out.

    Example:
        >>> loss = SoftLabels(2.0)
        >>> float(loss(np.array([[1.0, 3.0]]), np.array([[1.0, 3.0]])))
        0.0
    """

    def __init__(
        self,
        temperature: float = 2.0,
        weight: float = 1.0,
        reduction: str = "mean_with_sample_weight",
        name: str = "soft_labels",
        **kwargs: Any,
    ) -> None:
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.temperature, self.weight = temperature, weight

    def call(self, y_true: Any, y_pred: Any) -> Any:
        y_true = ops.cast(y_true, y_pred.dtype)
        teacher = ops.log_softmax(y_true / self.temperature)
        student = ops.log_softmax(ops.where(y_true > ABSENT / 2, y_pred, ABSENT) / self.temperature)
        distance = ops.sum(ops.exp(teacher) * (teacher - student), axis=-1)
        return self.weight * self.temperature**2 * distance

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "temperature": self.temperature, "weight": self.weight}


@keras.saving.register_keras_serializable("keras_bert")
class SoftYesNo(keras.losses.Loss):
    """`SoftLabels` for several labels at once: each label is a choice between yes and no.

    Takes logits of both, `[…, C]`; gives the mean over the labels, one number for each row.
    """

    def __init__(
        self,
        temperature: float = 2.0,
        weight: float = 1.0,
        reduction: str = "mean_with_sample_weight",
        name: str = "soft_yes_no",
        **kwargs: Any,
    ) -> None:
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.temperature, self.weight = temperature, weight

    def call(self, y_true: Any, y_pred: Any) -> Any:
        both = [ops.stack([logits / self.temperature, ops.zeros_like(logits)], axis=-1) for logits in (y_true, y_pred)]
        teacher, student = (ops.log_softmax(ops.cast(part, y_pred.dtype)) for part in both)
        distance = ops.mean(ops.sum(ops.exp(teacher) * (teacher - student), axis=-1), axis=-1)
        return self.weight * self.temperature**2 * distance

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "temperature": self.temperature, "weight": self.weight}


@keras.saving.register_keras_serializable("keras_bert")
class SoftSpans(keras.losses.Loss):
    """`SoftLabels` over the tokens of a row: where an answer begins and where it ends.

    Takes `[B, T, 3]`, the teacher's two logits and 1 for tokens that are not padding, and the student's logits
    `[B, T, 2]`. Gives a number for each token. The mean over all tokens is the distance; longer rows count more.
    """

    def __init__(
        self,
        temperature: float = 2.0,
        weight: float = 1.0,
        reduction: str = "mean_with_sample_weight",
        name: str = "soft_spans",
        **kwargs: Any,
    ) -> None:
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.temperature, self.weight = temperature, weight

    def call(self, y_true: Any, y_pred: Any) -> Any:
        y_true = ops.cast(y_true, y_pred.dtype)
        real = y_true[..., 2:]  # [B, T, 1]
        hidden = (1.0 - real) * MASK_BIAS
        teacher = ops.log_softmax(y_true[..., :2] / self.temperature + hidden, axis=1)
        student = ops.log_softmax(y_pred / self.temperature + hidden, axis=1)
        terms = ops.mean(ops.exp(teacher) * (teacher - student) * real, axis=-1)  # [B, T]
        return self.weight * self.temperature**2 * terms * ops.sum(real, axis=1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "temperature": self.temperature, "weight": self.weight}
