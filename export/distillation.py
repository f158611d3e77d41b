"""A teacher, a student and texts → the student with what it could learn from the teacher, through `model.fit`.

`distill` trains a student as `Task.fit` would, packed rows, recipes, resume and all, with more to aim at: what the
teacher makes of each text (`distillation_losses.py`), computed once (`teacher_outputs.py`). Any task can be distilled:
the heads' logits are found by their names. TinyBERT's two stages are two calls: first hidden states, relations or
attention on any text, then logits and labels on the task's own.
"""

import os
from collections.abc import Sequence
from dataclasses import replace

import keras
import numpy as np
from keras import ops

from export.distillation_losses import (
    Attention,
    Hidden,
    Layers,
    Logits,
    RelationDistance,
    Relations,
    SoftLabels,
    SoftSpans,
    VectorDistance,
)
from export.teacher_outputs import teacher_outputs
from keras_bert.encoder import bert_encoder
from keras_bert.tasks.task import Task, is_pair_of_xy
from keras_bert.tokenized_texts import TokenVectors
from keras_bert.training.finetune import FinetuneReport
from keras_bert.training.recipes import Recipe, find_recipe
from keras_bert.weight_copying import copy_weights

_TOKEN_LOGITS, _SPANS = "token_logits", "span_logits"
_HEADS = ("class_logits", "relation_logits", _TOKEN_LOGITS, _SPANS)


def distill(
    teacher: Task | Sequence[Task],
    student: Task,
    x,
    y=None,
    *,
    losses: Sequence = (Logits(),),
    label_weight: float = 0.5,
    validation_data=None,
    recipe: str | Recipe = "standard",
    metric: str | None = None,
    cache: str | os.PathLike | None = None,
    directory: str | os.PathLike | None = None,
    columns: dict | None = None,
    verbose: int | str = "auto",
    **changes,
) -> FinetuneReport:
    """Train a student on what its teacher thinks.

    Args:
        teacher: A fine-tuned task, or several of one kind whose logits are averaged (their layers are not).
        student: A task of the same kind and labels, such as `make_student` gives; it is trained in place.
        x, y: Examples in any form that `student.fit` takes.
        losses: What to take from the teacher: `Logits`, `Hidden`, `Embeddings`, `Relations`, `Attention`.
        label_weight: What the examples' own labels count; 0 leaves them out.
        validation_data: As for `fit`: it decides which weights to keep.
        recipe: As for `fit`.
        metric: As for `fit`.
        cache: A directory for the teacher's outputs, which a second run with the same texts finds there.
        directory: As for `fit`: where the state is kept, so that a killed run goes on.
        columns: As for `fit`.
        verbose: As for `fit`.
        changes: Settings of the recipe to change, e.g. `learning_rate=3e-4, epochs=10`.

    Returns:
        The report of the training, as `fit` gives it.

    Example:
        ```python
        student = make_student(teacher, num_layers=3)
        print(distill(teacher, student, train, validation_data=dev, losses=[Logits(2.0), Relations(heads=12)]))
        ```
    """
    teachers = [teacher] if isinstance(teacher, Task) else list(teacher)
    losses = list(losses)
    _check(teachers, student, losses, label_weight)
    data = student._prepare(x, y, **(columns or {}))
    student._check_training(data)
    check = None
    if validation_data is not None:
        given = validation_data if is_pair_of_xy(validation_data) else (validation_data, None)
        check = student._prepare(*given, **(columns or {}))
    aims = _Aims(teachers[0], student, losses)
    targets = _targets(teachers, student, aims, (x, y, columns or {}), data, cache, verbose)
    twin = _distilled(student, aims, label_weight, data)
    report = twin._fit_recipe(
        replace(data, labels={**student._targets(data.labels), **targets}),
        check,
        find_recipe(recipe, **changes),
        metric or student.default_metric,
        directory,
        verbose,
    )
    student.__dict__.update(twin.__dict__)  # what was learned beside the model: transitions, thresholds
    return report


def _check(teachers, student, losses, label_weight):
    if not teachers:
        raise ValueError("There is no teacher; expected a fine-tuned task, or several.")
    for teacher in teachers:
        if teacher.name != student.name or teacher.labels != student.labels:
            raise ValueError(
                f"The teacher is for {teacher.name} with the labels {teacher.labels}, the student for {student.name} "
                f"with {student.labels}; expected the same task and labels: make the student with make_student."
            )
    if student.trains_groups:
        raise ValueError(f"{type(student).__name__} trains on groups of texts, which distill cannot do.")
    if not losses and not label_weight:
        raise ValueError("There is nothing to learn: no losses, and label_weight=0.")
    unknown = [loss for loss in losses if not isinstance(loss, Logits | Layers)]
    if unknown:
        raise TypeError(f"losses has {unknown[0]!r}; expected Logits, Hidden, Embeddings, Relations or Attention.")


# === What to aim at ===


class _Aims:
    """The outputs that a student's training model gets, and their losses."""

    def __init__(self, teacher, student, losses):
        self.teacher, self.losses = teacher, {}
        heads = [name for name in _HEADS if name in student.model.output]
        for loss in losses:
            if isinstance(loss, Logits):
                self.losses.update({f"soft_{name}": (loss, name) for name in heads})
                continue
            pairs = loss.pairs or [(student.config.num_layers, teacher.config.num_layers)]
            for pair in pairs:
                self._check_pair(loss, pair, teacher.config, student.config)
                self.losses[f"{loss.name}_{pair[0]}_{pair[1]}"] = (loss, tuple(pair))
        if len(heads) == 0 and any(isinstance(loss, Logits) for loss in losses):
            raise ValueError(f"{type(student).__name__} has none of the outputs that Logits() knows.")
        self.projections = [
            f"{name}_projection"
            for name, (loss, _) in self.losses.items()
            if isinstance(loss, Hidden) and teacher.config.hidden_dim != student.config.hidden_dim
        ]

    @staticmethod
    def _check_pair(loss, pair, teacher, student):
        lowest = 0 if isinstance(loss, Hidden) else 1
        for layer, config, who in zip(pair, (student, teacher), ("student", "teacher"), strict=True):
            if not lowest <= layer <= config.num_layers:
                raise ValueError(
                    f"{type(loss).__name__}: the {who} has no layer {layer}; expected {lowest} to {config.num_layers}."
                )
        if isinstance(loss, Relations) and (teacher.hidden_dim % loss.heads or student.hidden_dim % loss.heads):
            raise ValueError(
                f"Relations(heads={loss.heads}): it must divide both widths, {teacher.hidden_dim} and "
                f"{student.hidden_dim}."
            )
        if isinstance(loss, Attention) and teacher.num_heads != student.num_heads:
            raise ValueError(
                f"Attention: the teacher has {teacher.num_heads} heads, the student {student.num_heads}; expected as "
                "many. Relations(heads=…) works with any."
            )

    @property
    def vector_names(self):
        """The targets with a vector for each token."""
        return tuple(
            name
            for name, (loss, where) in self.losses.items()
            if isinstance(loss, Layers) or where in (_TOKEN_LOGITS, _SPANS)
        )

    def teacher_model(self, task):
        """A model that gives all that a teacher is asked for."""
        encoder = bert_encoder(task.config)
        model = task._build(encoder, classifier_dropout=None, seed=None)
        outputs = {}
        for name, (loss, where) in self.losses.items():
            if isinstance(loss, Logits):
                outputs[name] = model.output[where]
            elif task is self.teacher:
                outputs[name] = _layer_vectors(encoder, loss, where[1])
        asked = keras.Model(encoder.input, outputs)
        copy_weights(task.model, asked)
        return asked

    def extend(self, model, encoder):
        """The student's training model with the outputs that the losses compare."""
        outputs = dict(model.output)
        for name, (loss, where) in self.losses.items():
            if isinstance(loss, Logits):
                outputs[name] = keras.layers.Identity(name=name)(_head_output(model, where))
                continue
            vectors = _layer_vectors(encoder, loss, where[0])
            if f"{name}_projection" in self.projections:
                width = self.teacher.config.hidden_dim
                vectors = keras.layers.Dense(width, use_bias=False, name=f"{name}_projection")(vectors)
            elif not isinstance(loss, Hidden):
                text = ops.cast(encoder.input["padding_mask"], vectors.dtype)[..., None]
                vectors = ops.concatenate([text, vectors], axis=-1)
            outputs[name] = vectors
        return keras.Model(model.input, outputs, name=model.name)

    def keras_losses(self):
        """The loss of each of these outputs."""
        return {name: self._keras_loss(loss, where) for name, (loss, where) in self.losses.items()}

    def _keras_loss(self, loss, where):
        if isinstance(loss, Logits):
            return (SoftSpans if where == _SPANS else SoftLabels)(loss.temperature, loss.weight)
        if isinstance(loss, Hidden):
            return VectorDistance(loss.weight)
        if isinstance(loss, Attention):
            return RelationDistance(self.teacher.config.num_heads, 2, cross=True, weight=loss.weight)
        return RelationDistance(loss.heads, 3, weight=loss.weight)


def _head_output(model, name):
    """The logits of a head, also where the model that trains hides them in a loss of its own (a CRF)."""
    return model.output[name] if name in model.output else model.get_layer("token_classifier").output


def _layer_vectors(encoder, loss, layer):
    """A tensor of an encoder, a vector for each token."""
    states = encoder.output["hidden_states"]
    if isinstance(loss, Hidden):
        return states[layer]
    attention = encoder.get_layer(f"block_{layer - 1}").attention
    parts = [attention.query, attention.key] + ([] if isinstance(loss, Attention) else [attention.value])
    return ops.concatenate([part(states[layer - 1]) for part in parts], axis=-1)


# === What the teacher says ===


def _targets(teachers, student, aims, given, data, cache, verbose):
    """The teacher's outputs as labels, a row for each row of the student's data."""
    x, y, columns = given
    found: dict[str, list] = {}
    for teacher in teachers:
        tokenized = teacher._prepare(x, y, **columns).tokenized
        _check_aligned(tokenized, data.tokenized, aims)
        model = aims.teacher_model(teacher)
        names = tuple(name for name in aims.vector_names if name in model.output)
        outputs = teacher_outputs(
            teacher, model, tokenized, token_outputs=names, cache=cache, verbose=verbose not in (0, "0")
        )
        for name, values in outputs.items():
            found.setdefault(name, []).append(values)
    splits = np.concatenate([[0], np.cumsum(data.tokenized.lengths)])
    targets = {}
    for name, values in found.items():
        mean = values[0] if len(values) == 1 else np.mean([np.asarray(part, np.float32) for part in values], axis=0)
        if aims.losses[name][1] == _SPANS:
            mean = np.concatenate([mean, np.ones((len(mean), 1), mean.dtype)], axis=1)
        targets[name] = TokenVectors(np.asarray(mean), splits) if name in aims.vector_names else np.asarray(mean)
    return targets


def _check_aligned(theirs, ours, aims):
    if len(theirs) != len(ours):
        raise ValueError(
            f"The teacher reads the texts as {len(theirs):,} rows, the student as {len(ours):,}; give both the same "
            "sequence_length."
        )
    if aims.vector_names and not np.array_equal(theirs.lengths, ours.lengths):
        rows = np.flatnonzero(theirs.lengths != ours.lengths)
        raise ValueError(
            f"Teacher and student cut {len(rows):,} of {len(ours):,} texts into other pieces (first text {rows[0]}): "
            f"{', '.join(aims.vector_names)} cannot be compared token by token. Give both one vocabulary, or take "
            "Logits alone."
        )


# === Training ===


@keras.saving.register_keras_serializable("keras_bert")
class ScaledLoss(keras.losses.Loss):
    """Another loss times a number."""

    def __init__(self, loss, weight, reduction="mean_with_sample_weight", name="scaled_loss", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.loss = keras.saving.deserialize_keras_object(loss) if isinstance(loss, dict) else loss
        self.weight = weight

    def call(self, y_true, y_pred):
        return self.weight * self.loss.call(y_true, y_pred)

    def get_config(self):
        inner = keras.saving.serialize_keras_object(self.loss)
        return {**super().get_config(), "loss": inner, "weight": self.weight}


def _distilled(student, aims, label_weight, data):
    """The student, told to train on the aims too; it shares the student's model."""
    kind = type(student)

    class Distilled(kind):
        @property
        def training_layers(self):
            return (*student.training_layers, *aims.projections)

        def _build_for_training(self, encoder, **options):
            return aims.extend(kind._build_for_training(student, encoder, **options), encoder)

        def _training_loss(self):
            own = {name: ScaledLoss(loss, label_weight) for name, loss in kind._loss(student).items()}
            return {**own, **aims.keras_losses()}

        def _training_sample(self, train):
            return data.first_rows(256)

    twin = object.__new__(Distilled)
    twin.__dict__.update(student.__dict__)
    return twin
