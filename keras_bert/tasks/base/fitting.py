"""How a task is fitted: by a recipe, or after `compile` by plain `model.fit`.

Takes a task, prepared data and a recipe; the task's model has the trained weights afterwards.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from keras_bert.batching.prepared_data import PreparedData
from keras_bert.batching.training import training_batches
from keras_bert.finetuning.best_weights import Score
from keras_bert.finetuning.recipes import Recipe
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.finetuning.run import finetune
from keras_bert.finetuning.run_identity import example_parts
from keras_bert.finetuning.trained_parts import is_head
from keras_bert.model.encoder import with_example_starts
from keras_bert.model.weights import copy_weights
from keras_bert.system.progress import fit_verbosity
from keras_bert.tasks.base.definition import Batches
from keras_bert.tasks.base.training_method import TrainingMethod

if TYPE_CHECKING:
    from keras_bert.tasks.base.task import Task


def fit_recipe(
    task: "Task",
    train: PreparedData,
    validation: PreparedData | None,
    recipe: Recipe,
    *,
    metric: str | None = None,
    method: TrainingMethod | None = None,
    directory: str | os.PathLike[str] | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: int | str = "auto",
) -> FinetuneReport:
    """Train a task by a recipe.

    Args:
        task: The task; its model has the new weights afterwards.
        train: What to train on.
        validation: What decides which weights to keep.
        recipe: How.
        metric: The measure; `None` is what suits the data.
        method: How the training differs from the task's own.
        directory, callbacks, verbose: As for `Task.fit`.
    """
    method = TrainingMethod() if method is None else method
    recipe = recipe.for_width(task.config.hidden_dim)
    # Without validation data the first rows of the training data still show whether a run has degenerated.
    sample = method.sample(train) if validation is None else validation
    metric = metric or task.metric_for(sample)
    task.begin_fit(train, validation, metric)
    # Rows of the token table that no training text needs would get no gradient: they stay out of the training.
    table = train.tokenized.used_ids() if recipe.trains == "all" and not task.trains_all_tokens else None
    batches, steps = task_batches(task, train, recipe.batch_size, packed=packs_rows(task), table=table)
    source = method.weights_model(task)
    plain = method.change_model(task.build_from_config(task.config))

    def outputs_of(model: keras.Model, data: PreparedData) -> dict[str, np.ndarray]:
        copy_weights(source, plain)  # for the rows of the table that do not train
        copy_weights(model, plain, table_rows=table)
        return task.outputs(data.tokenized, plain) | task.extra_state(model)

    def measure(model: keras.Model) -> Score:
        return method.score(task.score(outputs_of(model, sample), sample, metric), method.state(model))

    def build(seed: int) -> keras.Model:
        model, few = fresh_model(task, recipe, seed, table, method), sample.first_rows(16)
        task.check_metric(outputs_of(model, few), few, metric)
        return model

    added = (*task.training_layers, *method.layer_names())
    model, report = finetune(
        build,
        batches,
        recipe if validation is not None else replace(recipe, patience=None, evaluations=1),
        loss=method.losses(task.training_losses()),
        steps_per_epoch=steps,
        measure=measure,
        metric=metric if validation is not None else f"training_{metric}",
        chooses=validation is not None,
        directory=directory,
        depends_on=lambda: (
            example_parts("training", train)
            | example_parts("validation", validation)
            | {"sequence_length": task.sequence_length}
        ),
        added_layers=added,
        callbacks=callbacks,
        verbose=verbose,
    )
    copy_weights(model, source, table_rows=table)
    task.keep_extra_state(task.extra_state(model))
    task.fresh_heads, task.quantization = False, None
    task.end_fit(train, validation, metric, report=report, outputs=lambda data: outputs_of(model, data))
    task.forget_graph()  # lets go of the model that was trained
    return replace(report, notes=train.notes + (validation.notes if validation is not None else ()))


def fit_compiled(
    task: "Task",
    train: PreparedData,
    validation: PreparedData | None,
    *,
    epochs: int = 1,
    batch_size: int = 32,
    seed: int = 0,
    callbacks: Sequence[keras.callbacks.Callback] | None = None,
    verbose: int | str = "auto",
) -> keras.callbacks.History:
    """Train a compiled task by plain `model.fit`."""
    metric = task.metric_for(train)
    task.begin_fit(train, validation, metric)
    batches, steps = task_batches(task, train, batch_size)
    checks = None if validation is None else task_batches(task, validation, batch_size)[0](None, 0, 1)
    history = task.model.fit(
        batches(seed, 0, epochs),
        steps_per_epoch=steps,
        epochs=epochs,
        validation_data=checks,
        callbacks=callbacks,
        shuffle=False,
        verbose=fit_verbosity(verbose),
    )
    task.end_fit(train, validation, metric)
    return history


def task_batches(
    task: "Task", data: PreparedData, batch_size: int, *, packed: bool = False, table: np.ndarray | None = None
) -> tuple[Batches, int]:
    """Give a function from seed, epoch and number of epochs to batches, and how many an epoch has."""
    batches, steps = training_batches(
        data,
        task.targets(data.labels),
        batch_size=batch_size,
        sequence_length=task.sequence_length,
        hidden_dim=task.config.hidden_dim,
        packed=packed,
        table=table,
    )
    return task.change_batches(batches, data, batch_size=batch_size, steps=steps, packed=packed), steps


def packs_rows(task: "Task") -> bool:
    """Whether a task trains with several texts in a row here."""
    # Under tf.distribute each device would get a part of the rows, and places that are in the others' parts. JAX's
    # devices compute on the whole batch.
    several = keras.backend.backend() == "tensorflow" and tf.distribute.has_strategy()
    if task.trains_groups and several:
        raise ValueError(
            f"{type(task).__name__} trains on groups of texts, on one device; call fit() outside of the "
            f"{type(tf.distribute.get_strategy()).__name__}'s scope, or use JAX."
        )
    return (task.trains_packed or task.trains_groups) and not several


def fresh_model(
    task: "Task", recipe: Recipe, seed: int, table: np.ndarray | None = None, method: TrainingMethod | None = None
) -> keras.Model:
    """Make a new model to train, with the weights of the task; heads that never trained are drawn by the seed."""
    method = TrainingMethod() if method is None else method
    changes = {"dropout": recipe.dropout, "attention_dropout": recipe.attention_dropout}
    changes["vocabulary_size"] = None if table is None else len(table)
    config = task.config.replace(**{name: value for name, value in changes.items() if value is not None})
    packed = packs_rows(task)
    encoder = task.build_encoder(config, packed=packed, seed=seed)
    encoder = with_example_starts(encoder) if packed else encoder
    dropout = recipe.classifier_dropout
    model = task.build_training_model(encoder, classifier_dropout=dropout, seed=seed, table=table)
    model = method.change_training_model(model, encoder)
    copy_weights(
        method.weights_model(task),
        model,
        skip=is_head if task.fresh_heads else lambda path: False,
        allow_missing=bool(task.training_layers or method.layer_names()),
        table_rows=table,
    )
    task.set_start_weights(model)
    return model
