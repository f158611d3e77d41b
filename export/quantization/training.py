"""Train a fine-tuned task with the rounding of its quantized file.

`train_quantized` fine-tunes any task once more, as `Task.fit` does, or with a teacher as `distill` does. The model in
training, and the model that is scored, compute with the integers of the file (`quantization/training_model.py`),
starting from post-training quantization (`quantization/plan.py`). The result is an ordinary task whose weights are the
rounded ones of the file. The learned ranges are kept in `task.quantization`, in its saved directory, and for `convert`.
Needs the extra `quantize`.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from export.distillation.losses import DistillationLoss, Logits
from export.distillation.training import distill
from export.quantization.learned_scales import pack_numbers
from export.quantization.matrices import dense_layers
from export.quantization.rounding import SMALLEST_TABLE, round_rows, row_scales
from export.quantization.statistics import MAX_ROWS, token_rows
from export.recipes import Recipe, find_recipe
from export.tasks.base.tensorflow_process import on_tensorflow
from keras_bert.finetuning.recipes import Recipe as TrainingRecipe
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.model.encoder import encoder_config
from keras_bert.model.weights import copy_weights, to_numpy
from keras_bert.tasks.base.task import Task
from keras_bert.tasks.base.training_method import TrainingMethod
from keras_bert.text.tokenized_texts import TokenizedTexts

if TYPE_CHECKING:
    from export.quantization.plan import QuantizationPlan


@on_tensorflow(trains="task")
def train_quantized(
    task: Task,
    x: Any,
    y: Any = None,
    *,
    quantization: str | Recipe = "static_int8",
    validation_data: Any = None,
    teacher: Task | Sequence[Task] | None = None,
    losses: Sequence[DistillationLoss] = (Logits(),),
    label_weight: float = 0.5,
    recipe: str | TrainingRecipe = "standard",
    metric: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
    columns: dict[str, Any] | None = None,
    callbacks: Sequence[keras.callbacks.Callback] | None = None,
    verbose: int | str = "auto",
    **changes: Any,
) -> FinetuneReport:
    """Fine-tune a task for its quantized file.

    Args:
        task: A fine-tuned task of any kind; it is trained in place.
        x, y: Examples in any form that `task.fit` takes. The first ranges come from some of them.
        quantization: The recipe of the file: `"static_int8"`, `"dynamic_int8"`, `"weight_int4"`, `"all_int4"`, or a
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
    """Copy what a quantized model has learned to a task: rounded weights, and their ranges.

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
        frozen_table: Round the token table to 4 bits now and keep it fixed, while the other weights adapt to it. A row
            is seldom trained, and would move less than a step of 4 bits.
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


def _check(task: Any, quantization: Recipe) -> None:
    if not isinstance(task, Task):
        wrapped = getattr(task, "task", None)
        hint = f"; train its .task, a {type(wrapped).__name__}" if isinstance(wrapped, Task) else ""
        raise ValueError(f"Expected a task, such as a TextClassifier; got {type(task).__name__}{hint}.")
    from export.quantization.plan import check_simulated

    check_simulated(quantization)
    if task.is_compiled:
        raise ValueError("The task is compiled, which replaces a recipe; load or build it again without compile().")
    if task.fresh_heads:
        raise ValueError(
            f"The heads of this {type(task).__name__} are untrained, so the ranges it needs are not known; call fit() "
            "first."
        )


def _sample(tokenized: TokenizedTexts) -> TokenizedTexts:
    """Take rows from the whole data, which may be sorted."""
    rows = np.unique(np.linspace(0, len(tokenized) - 1, MAX_ROWS).astype(int))
    return tokenized.take(rows)


def _round_weights(model: keras.Model, kernels: dict[str, np.ndarray], quantization: Recipe) -> None:
    """Give a float model the weights of its file, so that only the rounding of activations differs.

    Rounding them again gives the same integers. The position table has int8 rows in files for any length and is a float
    constant in files for fixed lengths; once rounded, it is the same in both.
    """
    layers = dense_layers(model)
    for name, kernel in kernels.items():
        layers[name].kernel.assign(kernel)
    _round_table(model.get_layer("token_embedding").embeddings, 4 if quantization.tables == "int4" else 8)
    if encoder_config(model).position != "sinusoidal":
        _round_table(model.get_layer("embeddings").position, 8)


def _round_table(table: keras.Variable, bits: int) -> None:
    values = to_numpy(table)
    if values.size >= SMALLEST_TABLE:
        table.assign(round_rows(values, row_scales(values, bits), bits))
