"""Find the tensors of teacher and student that distillation losses compare.

`Aims` takes a teacher, a student and a list of losses (`distillation/losses.py`). It gives the model that computes the
teacher's outputs, the student's training model with the same tensors as outputs, and a Keras loss for each.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from export.distillation.distances import SoftLabels, SoftSpans, SoftYesNo
from export.distillation.losses import Attention, DistillationLoss, Hidden, Layers, Logits, Relations, Vectors
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.weights import copy_weights
from keras_bert.tasks.base.task import Task
from keras_bert.tasks.similarity.pooling import OUTPUT as VECTORS
from keras_bert.training.layer_vectors import attention_vectors
from keras_bert.training.vector_distances import (
    CosineDistance,
    RelationDistance,
    SimilarityDistance,
    VectorDistance,
)

TOKEN_LOGITS, SPANS = "token_logits", "span_logits"
_HEADS = ("class_logits", "relation_logits", TOKEN_LOGITS, SPANS)


class Aims:
    """The outputs of a student's training model that follow a teacher, and their losses.

    Args:
        teacher: The teacher whose layers are compared.
        student: The student.
        losses: The values of `distillation/losses.py` to learn by.
    """

    def __init__(self, teacher: Task, student: Task, losses: Sequence[DistillationLoss]) -> None:
        self.teacher, self.student = teacher, student
        self.losses: dict[str, tuple[DistillationLoss, Any]] = {}
        heads = [name for name in _HEADS if name in student.model.output]
        for loss in losses:
            if isinstance(loss, Logits | Vectors):
                found = (
                    heads if isinstance(loss, Logits) else [name for name in (VECTORS,) if name in student.model.output]
                )
                if not found:
                    other = "Logits()" if isinstance(loss, Vectors) else "Vectors()"
                    raise ValueError(
                        f"{type(student).__name__} has none of the outputs that {type(loss).__name__}() compares; try "
                        f"{other}."
                    )
                self.losses.update({f"soft_{name}": (loss, name) for name in found})
                continue
            for pair in loss.pairs or [(student.config.num_layers, teacher.config.num_layers)]:
                self._check_pair(loss, pair, teacher.config, student.config)
                self.losses[f"{loss.name}_{pair[0]}_{pair[1]}"] = (loss, tuple(pair))
        self.same_width = teacher.config.hidden_dim == student.config.hidden_dim
        self.projections = [f"{name}_projection" for name, (loss, _) in self.losses.items() if self._projects(loss)]

    def _projects(self, loss: Any) -> bool:
        return not self.same_width and (
            isinstance(loss, Hidden) or (isinstance(loss, Vectors) and loss.by == "vectors")
        )

    @staticmethod
    def _check_pair(loss: Any, pair: tuple[int, int], teacher: BertConfig, student: BertConfig) -> None:
        lowest = 0 if isinstance(loss, Hidden) else 1
        for layer, config, who in zip(pair, (student, teacher), ("student", "teacher"), strict=True):
            if not lowest <= layer <= config.num_layers:
                raise ValueError(
                    f"{type(loss).__name__}: the {who} has no layer {layer}; expected {lowest} to {config.num_layers}."
                )
        if isinstance(loss, Relations) and (teacher.heads_dim % loss.heads or student.heads_dim % loss.heads):
            raise ValueError(
                f"Relations has heads={loss.heads}; expected a number that divides both widths, {teacher.heads_dim} "
                f"and {student.heads_dim}."
            )
        if isinstance(loss, Attention) and teacher.num_heads != student.num_heads:
            raise ValueError(
                f"Attention: the teacher has {teacher.num_heads} heads, the student {student.num_heads}; expected the "
                "same number. Use Relations(heads=…), which works with any."
            )

    def is_by_token(self, name: str) -> bool:
        """Whether a target has a vector for each token."""
        loss, where = self.losses[name]
        return isinstance(loss, Layers) or where in (TOKEN_LOGITS, SPANS)

    # === Models ===

    def teacher_model(self, task: Task) -> keras.Model:
        """Build a model with all outputs that a teacher is asked for; layers are taken from the first teacher only."""
        encoder = bert_encoder(task.config)
        model = task.build_model(encoder, classifier_dropout=None, seed=None)
        outputs = {}
        for name, (loss, where) in self.losses.items():
            if not isinstance(loss, Layers):
                outputs[name] = model.output[where]
            elif task is self.teacher:
                outputs[name] = _layer_vectors(encoder, loss, where[1])
        asked = keras.Model(encoder.input, outputs)
        copy_weights(task.model, asked)
        return asked

    def extend(self, model: keras.Model, encoder: keras.Model) -> keras.Model:
        """Add the outputs that the losses compare to the student's training model."""
        outputs = dict(model.output)
        for name, (loss, where) in self.losses.items():
            by_layer = isinstance(loss, Layers)
            vectors = _layer_vectors(encoder, loss, where[0]) if by_layer else _head_output(model, where)
            if self._projects(loss):
                width = self.teacher.config.hidden_dim
                vectors = keras.layers.Dense(width, use_bias=False, name=f"{name}_projection")(vectors)
            elif by_layer and not isinstance(loss, Hidden):
                text = ops.cast(encoder.input["padding_mask"], vectors.dtype)[..., None]
                vectors = ops.concatenate([text, vectors], axis=-1)
            outputs[name] = vectors if by_layer else keras.layers.Identity(name=name)(vectors)
        return keras.Model(model.input, outputs, name=model.name)

    # === Losses ===

    def keras_losses(self) -> dict[str, keras.losses.Loss]:
        """The loss of each added output."""
        return {name: self._keras_loss(loss, where) for name, (loss, where) in self.losses.items()}

    def _keras_loss(self, loss: Any, where: Any) -> keras.losses.Loss:
        if isinstance(loss, Logits):
            return self._soft_loss(loss, where)
        if isinstance(loss, Vectors):
            direct = loss.by == "vectors" or (loss.by == "auto" and self.same_width)
            return (CosineDistance if direct else SimilarityDistance)(loss.weight)
        if isinstance(loss, Hidden):
            return VectorDistance(loss.weight)
        if isinstance(loss, Attention):
            return RelationDistance(self.teacher.config.num_heads, 2, cross=True, weight=loss.weight)
        return RelationDistance(loss.heads, 3, weight=loss.weight)

    def _soft_loss(self, loss: Logits, where: str) -> keras.losses.Loss:
        """The loss of a head's logits, chosen by the loss that the head trains with."""
        if where == SPANS:
            return SoftSpans(loss.temperature, loss.weight)
        own = self.student.losses().get(where)
        if isinstance(own, keras.losses.MeanSquaredError):  # a number, which has no temperature
            return ScaledLoss(keras.losses.MeanSquaredError(reduction=own.reduction), loss.weight)
        kind = SoftYesNo if isinstance(own, keras.losses.BinaryCrossentropy) else SoftLabels
        return kind(loss.temperature, loss.weight)


@keras.saving.register_keras_serializable("keras_bert")
class ScaledLoss(keras.losses.Loss):
    """Another loss multiplied by a number."""

    def __init__(self, loss: Any, weight: float, name: str = "scaled_loss", **kwargs: Any) -> None:
        inner = keras.saving.deserialize_keras_object(loss) if isinstance(loss, dict) else loss
        super().__init__(name=name, **{**kwargs, "reduction": inner.reduction})
        self.loss, self.weight = inner, weight

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        # Call the loss itself, not its `call`: some losses use the weights.
        return self.weight * self.loss(y_true, y_pred, sample_weight)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self.weight * self.loss.call(y_true, y_pred)

    def get_config(self) -> dict[str, Any]:
        inner = keras.saving.serialize_keras_object(self.loss)
        return {**super().get_config(), "loss": inner, "weight": self.weight}


# === Tensors ===


def _head_output(model: keras.Model, name: str) -> Any:
    """The output of a head, even if the training model gives it in another shape."""
    if name in model.output:
        return model.output[name]
    if name == TOKEN_LOGITS:  # a CRF's training model gives only its loss
        return model.get_layer("token_classifier").output
    (grouped,) = model.output.values()  # [B, G, …]: texts that train in groups
    return grouped if name == VECTORS else grouped[..., 0]


def _layer_vectors(encoder: keras.Model, loss: Any, layer: int) -> Any:
    """A tensor of an encoder with a vector for each token."""
    states = encoder.output["hidden_states"]
    if isinstance(loss, Hidden):
        return states[layer]
    parts = ("query", "key") if isinstance(loss, Attention) else ("query", "key", "value")
    return attention_vectors(encoder, layer, parts)
