"""Plan the quantization of a model's dense layers, from a recipe and rows of data.

The numbers are those of post-training quantization: factors and ranges of static products
(`quantization/static_plan.py`), scales of int4, and the weights that round to the integers of GPTQ
(`quantization/rounding.py`). Quantization-aware training begins with them, and mixed precision measures their cost.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from export.quantization.learned_scales import DynamicNumbers, Numbers, StaticNumbers, static_numbers
from export.quantization.matrices import dense_layers
from export.quantization.rounding import bits_of, round_matrix
from export.quantization.static_plan import plan_static
from export.quantization.training_model import observe
from export.recipes import RECIPES, Recipe, find_recipe
from keras_bert.model.weights import to_numpy
from keras_bert.tasks.base.task import Task


@dataclass(frozen=True)
class QuantizationPlan:
    """How the dense layers of a model are quantized.

    Args:
        numbers: The numbers of each layer, by path; a layer without numbers stays float.
        kernels: The kernels to begin with, by path: the nearest weights that round to the best integers.
    """

    numbers: dict[str, Numbers]
    kernels: dict[str, np.ndarray]

    def begin(self, model: keras.Model) -> None:
        """Assign these kernels to a model."""
        layers = dense_layers(model)
        for name, kernel in self.kernels.items():
            layers[name].kernel.assign(kernel)


def plan_quantization(
    model: keras.Model, recipe: Recipe, rows: Iterable[Any], *, static_vectors: bool = True
) -> QuantizationPlan:
    """Plan the quantization of a model.

    Args:
        model: A float model to use up: its layers are replaced by ones that record statistics.
        recipe: The recipe of its file.
        rows: Batches or rows of model inputs.
        static_vectors: Whether products on a single vector (pooler, classifier) are static in a static recipe. Files
            of post-training quantization have them dynamic.
    """
    check_simulated(recipe)
    weights = {name: np.ascontiguousarray(to_numpy(layer.kernel).T) for name, layer in dense_layers(model).items()}
    statistics, vectors = observe(model, rows)
    rules = {name: recipe.of_matrix(name) for name in weights}
    are_static = [
        name for name, rule in rules.items() if rule.activations == "int8" and (static_vectors or name not in vectors)
    ]
    static = plan_static({name: weights[name] for name in are_static}, statistics)
    numbers: dict[str, Numbers] = {}
    kernels = {}
    for name, rule in rules.items():
        if name in static:
            layer = static[name]
            numbers[name] = StaticNumbers(
                layer.input_factors, layer.input_scale, layer.output_factors, layer.output_scale
            )
        elif rule.activations != "float32":
            bits = bits_of(weights[name], 4 if rule.weights == "int4" else 8)
            integers, scales = round_matrix(weights[name], bits, statistics[name])
            numbers[name] = DynamicNumbers(bits, None if bits == 8 else scales)
            if bits < 8:
                kernels[name] = _near(weights[name], integers, scales, bits).T
    return QuantizationPlan(numbers, kernels)


def learned_plan(task: Task, recipe: Recipe | None = None) -> QuantizationPlan:
    """The plan that a task was trained with. `QuantizedTraining` with it gives the outputs of the task's file.

    Args:
        task: A task that `train_quantized` trained.
        recipe: The recipe; needed if it was your own.
    """
    ranges = task.quantization
    if ranges is None:
        raise ValueError(f"This {type(task).__name__} was not trained for quantization; use train_quantized first.")
    recipe = recipe or replace(find_recipe(ranges.recipe), exceptions=ranges.exceptions)
    numbers: dict[str, Numbers] = {}
    for name in dense_layers(task.model):
        rule = recipe.of_matrix(name)
        if rule.activations == "int8":
            numbers[name] = static_numbers(ranges, name)
        elif rule.activations == "dynamic":
            scales = ranges.arrays.get(f"{name}/weight_scales")
            numbers[name] = DynamicNumbers(8 if scales is None else 4, scales)
    return QuantizationPlan(numbers, {})


def check_simulated(recipe: Recipe) -> None:
    """Raise an error for a recipe that has nothing to train, or cannot be computed in Keras."""
    rules = [recipe, *(RECIPES[name] for name in recipe.exceptions.values())]
    if recipe.activations == "float32" or any(rule.activations == "int16" for rule in rules):
        raise ValueError(
            f"The recipe {recipe.name!r} has no products of int8 or int4 matrices that could be trained; expected "
            "'static_int8', 'dynamic_int8' or 'weight_int4', or a recipe like them."
        )


def _near(weights: np.ndarray, integers: np.ndarray, scales: np.ndarray, bits: int) -> np.ndarray:
    """The nearest weights that round to the integers, with a small margin."""
    top, scales, integers = 2 ** (bits - 1) - 1, scales[:, None], integers.astype(np.float64)
    low = np.where(integers == -top, -np.inf, (integers - 0.49) * scales)  # everything beyond the end rounds to it
    high = np.where(integers == top, np.inf, (integers + 0.49) * scales)
    return np.clip(weights, low, high).astype(np.float32)
