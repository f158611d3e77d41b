"""A fine-tuned task and its data → the same task, trained with the rounding of its quantized file.

`train_quantized` fine-tunes any task once more, as `Task.fit` would (recipes, packed rows, resume and all) or, with a
teacher, as `distill` would; the model that trains and the one that is measured compute with the integers that the file
will have (`quantization/training_model.py`), beginning where post-training quantization ends (`quantization/plan.py`).
The result is an ordinary task: its weights are the rounded ones of the file, and the ranges that they belong to are
kept beside them, in memory (`task.quantization`), in its saved directory, and for `convert`. Needs the extra
`quantize`.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from export.distillation.losses import Logits
from export.distillation.training import distill
from export.quantization.learned_scales import pack_numbers
from export.quantization.matrices import dense_layers
from export.quantization.rounding import SMALLEST_TABLE, round_rows, row_scales
from export.quantization.statistics import MAX_ROWS, token_rows
from export.recipes import Recipe, find_recipe
from keras_bert.finetuning.recipes import Recipe as TrainingRecipe
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.model.encoder import encoder_config
from keras_bert.model.weights import copy_weights, to_numpy
from keras_bert.tasks.base.task import Task
from keras_bert.tasks.base.training_method import TrainingMethod

if TYPE_CHECKING:
    from export.quantization.plan import QuantizationPlan


def train_quantized(
    task: Task,
    x: Any,
    y: Any = None,
    *,
    quantization: str | Recipe = "static_int8",
    validation_data: Any = None,
    teacher: Task | Sequence[Task] | None = None,
    losses: Sequence = (Logits(),),
    label_weight: float = 0.5,
    recipe: str | TrainingRecipe = "standard",
    metric: str | None = None,
    cache: str | os.PathLike | None = None,
    directory: str | os.PathLike | None = None,
    columns: dict | None = None,
    callbacks: Sequence[keras.callbacks.Callback] | None = None,
    verbose: int | str = "auto",
    **changes: Any,
) -> FinetuneReport:
    """Fine-tune a task for its quantized file.

    Args:
        task: A fine-tuned task of any kind; it is trained in place.
        x, y: Examples in any form that `task.fit` takes. The ranges begin with what 256 of them show.
        quantization: What the file is to be: `"static_int8"`, `"dynamic_int8"`, `"weight_int4"`, `"all_int4"`, or a
            `Recipe` with exceptions, as `choose_precision` gives it.
        validation_data: As for `fit`: it decides which weights to keep, measured with the rounding.
        teacher: A task, or several, to learn from at the same time; the task itself before quantization is a good one.
        losses, label_weight, cache: With a teacher: as for `distill`.
        recipe, metric, directory, columns, callbacks, verbose: As for `fit`.
        changes: Settings of the recipe to change, e.g. `learning_rate=1e-5, epochs=1`.

    Returns:
        The report of the training, as `fit` gives it.

    Example:
        ```python
        export.train_quantized(classifier, train, validation_data=dev, quantization="static_int8", epochs=1)
        export.convert(classifier, "model.tflite", recipe="static_int8")  # needs no calibration
        ```
    """
    quantization = find_recipe(quantization)
    _check(task, quantization)
    from export.quantization.plan import plan_quantization

    data = task.prepare(x, y, **(columns or {}))
    task.check_training(data)
    plain = task.build_from_config(task.config)
    copy_weights(task.model, plain)
    plan = plan_quantization(plain, quantization, token_rows(_sample(data.tokenized)))
    method = QuantizedTraining(task, plan, frozen_table=quantization.tables == "int4")
    options: dict[str, Any] = {
        "validation_data": validation_data,
        "recipe": recipe,
        "metric": metric,
        "directory": directory,
        "columns": columns,
        "callbacks": callbacks,
        "method": method,
        "verbose": verbose,
        **changes,
    }
    if teacher is None:
        report = task.fit(x, y, **options)
    else:
        report = distill(teacher, task, x, y, losses=losses, label_weight=label_weight, cache=cache, **options)
    keep_learned(task, method.model, quantization)
    return report


def keep_learned(task: Task, model: keras.Model, quantization: Recipe) -> None:
    """Give a task what a quantized model has learned: rounded weights, and the ranges that belong to them.

    Args:
        task: The task.
        model: The model of a `QuantizedTraining` of this task.
        quantization: The recipe that it was trained for.
    """
    from export.quantization.training_model import learned_numbers, rounded_kernels

    copy_weights(model, task.model)
    _round_weights(task.model, rounded_kernels(model), quantization)
    task.quantization = pack_numbers(learned_numbers(model), quantization, task.model)


class QuantizedTraining(TrainingMethod):
    """Training with the rounding of a quantized file.

    Args:
        task: The task.
        plan: A `QuantizationPlan` for its model.
        frozen_table: Round the token table to 4 bits now, and leave it so: the rest learns to live with it. A row is
            seldom trained, and a step of 4 bits is wider than all that it would move.
    """

    def __init__(self, task: Task, plan: "QuantizationPlan", *, frozen_table: bool = False):
        table_size = task.config.vocabulary_size * task.config.table_dim
        self._numbers = plan.numbers
        self._options: dict[str, Any] = {"table_size": table_size, "frozen_table": frozen_table}
        self.model = self.change_model(task.build_from_config(task.config))
        copy_weights(task.model, self.model, allow_missing=True)
        if frozen_table:
            _round_table(self.model.get_layer("token_embedding").embeddings, 4)
        plan.begin(self.model)

    def weights_model(self, task: Task) -> keras.Model:
        return self.model

    def change_model(self, model: keras.Model) -> keras.Model:
        from export.quantization.training_model import quantize_layers

        return quantize_layers(model, self._numbers, **self._options)

    def change_training_model(self, model: keras.Model, encoder: keras.Model) -> keras.Model:
        return self.change_model(model)


def _check(task, quantization):
    if not isinstance(task, Task):
        wrapped = getattr(task, "task", None)
        hint = f"; train what it wraps, its .task, a {type(wrapped).__name__}" if isinstance(wrapped, Task) else ""
        raise ValueError(f"Expected a task, such as a TextClassifier; got {type(task).__name__}{hint}.")
    from export.quantization.plan import check_simulated

    check_simulated(quantization)
    if task.is_compiled:
        raise ValueError("The task is compiled, which replaces a recipe; load or make it again without compile().")
    if task.fresh_heads:
        raise ValueError(
            f"The heads of this {type(task).__name__} are untrained, so nothing shows which ranges it needs; fit() it "
            "first."
        )


def _sample(tokenized):
    """Some rows from everywhere: data may be sorted."""
    rows = np.unique(np.linspace(0, len(tokenized) - 1, MAX_ROWS).astype(int))
    return tokenized.take(rows)


def _round_weights(model, kernels, quantization):
    """Give a float model the weights that its file will have, so that its answers are the file's but for activations.

    Rounding them once more gives the same integers. The position table is a table of int8 rows in files for any length
    and a float constant in those for fixed lengths: on the grid, it is the same in both.
    """
    layers = dense_layers(model)
    for name, kernel in kernels.items():
        layers[name].kernel.assign(kernel)
    _round_table(model.get_layer("token_embedding").embeddings, 4 if quantization.tables == "int4" else 8)
    if encoder_config(model).position != "sinusoidal":
        _round_table(model.get_layer("embeddings").position, 8)


def _round_table(table, bits):
    values = to_numpy(table)
    if values.size >= SMALLEST_TABLE:
        table.assign(round_rows(values, row_scales(values, bits), bits))
