"""Compiles the step of a fine-tuning for accelerators that are not there; see `training/ahead_of_time.py`."""

from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_bert.batching.replicas import assumed_replicas
from keras_bert.finetuning.layerwise_adamw import finetuning_optimizer
from keras_bert.finetuning.recipes import Recipe, find_recipe
from keras_bert.finetuning.trained_parts import choose_trained
from keras_bert.tasks.base.fitting import fresh_model, packs_rows, task_batches
from keras_bert.training.ahead_of_time import CompiledStep, compile_step
from keras_bert.training.chips import Target
from keras_bert.training.training_model import TrainingModel

if TYPE_CHECKING:
    from keras_bert.tasks.base.task import Task


def compile_fit(
    task: "Task", x: Any, y: Any = None, *, target: Target, recipe: str | Recipe = "standard", **changes: Any
) -> tuple[CompiledStep, int]:
    """Compile the step that `task.fit` would take for some chips, on the JAX backend; give it and the number of steps.

    Args:
        task: The task.
        x, y: The examples, in any form that `fit` takes: their lengths decide the shape of a batch.
        target: The chips.
        recipe: How to train.
        changes: Settings of the recipe to change, and `columns` of a file.

    Example:
        ```python
        step, steps = compile_fit(classifier, "train.tsv", target=read_target("v5e:2x2"), epochs=2)
        print(step.describe(steps))
        ```
    """
    train = task.prepare(x, y, **changes.pop("columns", {}))
    recipe = find_recipe(recipe, **changes).for_width(task.config.hidden_dim)
    task.begin_fit(train, None, task.metric_for(train))
    table = train.tokenized.used_ids() if recipe.trains == "all" and not task.trains_all_tokens else None
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(target.chip.precision)
    try:
        with assumed_replicas(target.count):
            batches, each = task_batches(task, train, recipe.batch_size, packed=packs_rows(task), table=table)
            data = next(batches(recipe.seeds[0], 0, 1).as_numpy_iterator())
        model = fresh_model(task, recipe, recipe.seeds[0], table)
        choose_trained(model, recipe)
        steps = max(round(recipe.epochs * each), recipe.steps or 0, 1)
        trained = TrainingModel.from_model(model)
        optimizer = finetuning_optimizer(
            recipe.learning_rate or 2e-5, steps, clip_norm=recipe.clip_norm, layer_decay=recipe.layer_decay
        )
        trained.compile(optimizer, loss=task.training_losses(), jit_compile=True)
        return compile_step(trained, keras.tree.map_structure(np.asarray, data), target), steps
    finally:
        keras.config.set_dtype_policy(before)
