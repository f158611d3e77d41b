"""Train a student on the outputs of its teacher, with `distill`.

`distill` trains as `Task.fit` does, with shared rows, recipes and resuming, and with more losses
(`distillation/losses.py`) that compare the student with the teacher's outputs, which are computed once
(`distillation/teacher_outputs.py`). Any task can be distilled, with labels or without. TinyBERT's two stages are two
calls: first hidden states, relations or attention on any text, then logits and labels on the task's own texts.

`keras.distillation.Distiller` is not used: it runs the teacher in every step, and its losses cannot leave out padding.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from export.distillation.aims import SPANS, Aims, ScaledLoss
from export.distillation.losses import DistillationLoss, Layers, Logits, Vectors
from export.distillation.teacher_outputs import teacher_outputs
from export.tasks.base.teacher_labels import label_texts
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.finetuning.recipes import Recipe, find_recipe
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.tasks.base.fitting import fit_recipe
from keras_bert.tasks.base.task import Task, is_pair_of_xy
from keras_bert.tasks.base.training_method import Combined, Losses, TrainingMethod
from keras_bert.tasks.similarity.pooling import OUTPUT as VECTOR_OUTPUT
from keras_bert.text.token_labels import TokenVectors
from keras_bert.text.tokenized_texts import TokenizedTexts


def distill(
    teacher: Task | Sequence[Task],
    student: Task,
    x: Any,
    y: Any = None,
    *,
    losses: Sequence[DistillationLoss] | None = None,
    label_weight: float = 0.5,
    validation_data: Any = None,
    recipe: str | Recipe = "standard",
    metric: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
    columns: dict[str, Any] | None = None,
    callbacks: Sequence[keras.callbacks.Callback] | None = None,
    method: TrainingMethod | None = None,
    verbose: int | str = "auto",
    **changes: Any,
) -> FinetuneReport:
    """Train a student on the outputs of its teacher.

    Args:
        teacher: A fine-tuned task, or several of one kind whose logits are averaged (their layers are not).
        student: A task of the same kind and labels, such as `make_student` gives; it is trained in place.
        x, y: Examples in any form that `student.fit` takes; with `label_weight=0` also inputs of `predict`, such as a
            plain list of strings.
        losses: What to take from the teacher: `Logits`, `Hidden`, `Embeddings`, `Relations`, `Attention`, and for
            sentence vectors `Vectors`; `None` is `Logits()`, or `Vectors()` for a `SentenceEmbedder`.
        label_weight: The weight of the examples' own labels; with 0, labels are not needed.
        validation_data: As for `fit`: it decides which weights to keep.
        recipe: As for `fit`.
        metric: As for `fit`.
        cache: A directory for the teacher's outputs; a second run with the same texts reads them there.
        directory: As for `fit`: where the state is kept, so that an interrupted run can continue.
        columns, callbacks, verbose: As for `fit`.
        method: Another `TrainingMethod` to train with at the same time, such as pruning.
        changes: Settings of the recipe to change, e.g. `learning_rate=3e-4, epochs=10`.

    Returns:
        The report of the training, as `fit` gives it.

    Example:
        ```python
        student = make_student(teacher, num_layers=3)
        distill(teacher, student, any_texts, label_weight=0, losses=[Relations(heads=12)])  # the general stage
        print(distill(teacher, student, train, validation_data=dev, losses=[Logits(2.0), Relations(heads=12)]))

        more = keras_bert.augment(texts, proposer=proposer, seed=1)  # the task stage, on many more texts
        distill(teacher, student, more.texts, label_weight=0, validation_data=dev)
        ```
    """
    teachers = [teacher] if isinstance(teacher, Task) else list(teacher)
    validation = None
    if validation_data is not None:
        given = validation_data if is_pair_of_xy(validation_data) else (validation_data, None)
        validation = student.prepare(*given, **(columns or {}))
    distillation, data = plan_distillation(
        teachers,
        student,
        x,
        y,
        losses=losses,
        label_weight=label_weight,
        columns=columns,
        cache=cache,
        verbose=verbose not in (0, "0"),
    )
    return fit_recipe(
        student,
        data,
        validation,
        find_recipe(recipe, **changes),
        metric=metric,
        method=distillation if method is None else Combined((method, distillation)),
        directory=directory,
        callbacks=callbacks or (),
        verbose=verbose,
    )


class Distillation(TrainingMethod):
    """Training on a teacher's outputs beside the labels.

    Args:
        aims: The outputs and losses that follow the teacher.
        label_weight: The weight of the task's own losses.
        data: The data without the teacher's outputs.
    """

    def __init__(self, aims: Aims, label_weight: float, data: PreparedData):
        self.aims, self.label_weight, self.data = aims, label_weight, data

    def layer_names(self) -> tuple[str, ...]:
        return tuple(self.aims.projections)

    def change_training_model(self, model: keras.Model, encoder: keras.Model) -> keras.Model:
        return self.aims.extend(model, encoder)

    def losses(self, own: Losses) -> Losses:
        scaled = {name: ScaledLoss(loss, self.label_weight) for name, loss in own.items()}
        return {**scaled, **self.aims.keras_losses()}

    def sample(self, train: PreparedData) -> PreparedData:
        return self.data.first_rows(256)


def plan_distillation(
    teachers: Sequence[Task],
    student: Task,
    x: Any,
    y: Any = None,
    *,
    losses: Sequence[DistillationLoss] | None = None,
    label_weight: float = 0.5,
    columns: dict[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> tuple[Distillation, PreparedData]:
    """Compute the teachers' outputs, and give what `fit` needs to train a student on them.

    Args: As for `distill`.

    Returns:
        The training method, and the data with the teachers' outputs beside the labels.
    """
    losses = [_default_loss(student)] if losses is None else list(losses)
    _check(teachers, student, losses, label_weight)
    columns = columns or {}
    if not label_weight:
        x, y, columns = label_texts(teachers[0], x, y, **columns)
    data = student.prepare(x, y, **columns)
    if label_weight:
        student.check_training(data)
    else:  # without the task's own check: all texts may have the same label
        Task.check_training(student, data)
    ready = student.for_data(data)
    aims = Aims(teachers[0], ready, losses)
    targets = _targets(teachers, aims, (x, y, columns), data, cache, verbose)
    labelled = replace(data, labels={**ready.targets(data.labels), **targets})
    return Distillation(aims, label_weight, data), labelled


def _default_loss(student: Task) -> Logits | Vectors:
    return Vectors() if VECTOR_OUTPUT in student.model.output else Logits()


def _check(teachers: Sequence[Task], student: Task, losses: Sequence[DistillationLoss], label_weight: float) -> None:
    if not teachers:
        raise ValueError("There is no teacher; expected a fine-tuned task, or several.")
    for teacher in teachers:
        if teacher.name != student.name or teacher.labels != student.labels:
            raise ValueError(
                f"The teacher is for {teacher.name} with the labels {teacher.labels}, the student for {student.name} "
                f"with {student.labels}; expected the same task and labels: make the student with make_student."
            )
    if not losses and not label_weight:
        raise ValueError(
            "There is nothing to learn: there are no losses, and label_weight=0. Pass losses, or a larger label_weight."
        )
    unknown = [loss for loss in losses if not isinstance(loss, Logits | Vectors | Layers)]
    if unknown:
        raise TypeError(
            f"Got the loss {unknown[0]!r}; expected Logits, Vectors, Hidden, Embeddings, Relations or Attention."
        )


# === The teacher's outputs ===


def _targets(
    teachers: Sequence[Task],
    aims: Aims,
    given: tuple[Any, Any, dict[str, Any]],
    data: PreparedData,
    cache: str | os.PathLike[str] | None,
    verbose: bool,
) -> dict[str, Any]:
    """The teacher's outputs as labels, with a row for each row or group of the student's data."""
    x, y, columns = given
    found: dict[str, list[np.ndarray]] = {}
    for teacher in teachers:
        tokenized = teacher.prepare(x, y, **columns).tokenized
        _check_aligned(tokenized, data.tokenized, aims)
        model = aims.teacher_model(teacher)
        names = tuple(name for name in model.output if aims.is_by_token(name))
        outputs = teacher_outputs(teacher, model, tokenized, token_outputs=names, cache=cache, verbose=verbose)
        for name, values in outputs.items():
            found.setdefault(name, []).append(values)
    splits = np.concatenate([[0], np.cumsum(data.tokenized.lengths)])
    targets: dict[str, Any] = {}
    for name, values in found.items():
        if len({part.shape[-1] for part in values}) > 1:
            raise ValueError(
                f"The teachers' {name} have the widths {[part.shape[-1] for part in values]}; expected the same width."
            )
        mean = values[0] if len(values) == 1 else np.mean([np.asarray(part, np.float32) for part in values], axis=0)
        if aims.losses[name][1] == SPANS:
            mean = np.concatenate([mean, np.ones((len(mean), 1), mean.dtype)], axis=1)
        if aims.is_by_token(name):
            targets[name] = TokenVectors(np.asarray(mean), splits)
        else:
            targets[name] = _by_group(np.asarray(mean), aims.student, data)
    return targets


def _by_group(values: np.ndarray, student: Task, data: PreparedData) -> Any:
    """Arrange `[texts, …]` as a row for each group, if texts train in groups."""
    return student.group_targets(values, data) if student.trains_groups else values


def _check_aligned(theirs: TokenizedTexts, ours: TokenizedTexts, aims: Aims) -> None:
    if len(theirs) != len(ours):
        raise ValueError(
            f"The teacher reads the texts as {len(theirs):,} rows, the student as {len(ours):,}; give both the same "
            "sequence_length."
        )
    by_token = [name for name in aims.losses if aims.is_by_token(name)]
    if by_token and not np.array_equal(theirs.lengths, ours.lengths):
        rows = np.flatnonzero(theirs.lengths != ours.lengths)
        raise ValueError(
            f"Teacher and student split {len(rows):,} of {len(ours):,} texts into different tokens (the first is text "
            f"{rows[0]}), so {', '.join(by_token)} cannot be compared token by token. Give both the same vocabulary, "
            "or use only Logits."
        )
