"""Convert between what quantization-aware training learned and the numbers of each matrix in a file.

Takes the ranges that a task keeps (`task.quantization`) and gives the integers, scales and factors of its matrices.
Also checks that the ranges belong to the task's weights and to the recipe.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from export.quantization.matrices import NamedMatrix, dense_layers
from export.quantization.rounding import bits_of, round_to_scales, round_weights
from export.quantization.static_plan import StaticLayer
from export.recipes import Recipe
from keras_bert.model.weights import to_numpy
from keras_bert.tasks.base.quantization_ranges import LearnedRanges
from keras_bert.tasks.base.task import Task


@dataclass(frozen=True)
class StaticNumbers:
    """The numbers of a product with integer inputs and outputs; as in `StaticLayer`, without the matrix."""

    input_factors: np.ndarray | None
    input_scale: tuple[float, int]
    output_factors: np.ndarray | None
    output_scale: tuple[float, int]


@dataclass(frozen=True)
class DynamicNumbers:
    """How the matrix of a dynamic product is stored; with 8 bits, the scales follow from the weights."""

    bits: int
    scales: np.ndarray | None = None


Numbers = StaticNumbers | DynamicNumbers

# === In a task ===


def pack_numbers(numbers: Mapping[str, Numbers], recipe: Recipe, model: keras.Model) -> LearnedRanges:
    """Store the numbers of matrices, by the path of their layers, in the form that a task keeps."""
    arrays = {}
    for name, one in numbers.items():
        if isinstance(one, DynamicNumbers):
            if one.scales is not None:
                arrays[f"{name}/weight_scales"] = np.asarray(one.scales, "float32")
            continue
        for side in ("input", "output"):
            scale, zero_point = getattr(one, f"{side}_scale")
            arrays[f"{name}/{side}_scale"] = np.array([scale], "float32")
            arrays[f"{name}/{side}_zero_point"] = np.array([zero_point], "int32")
            if (factors := getattr(one, f"{side}_factors")) is not None:
                arrays[f"{name}/{side}_factors"] = np.asarray(factors, "float32")
    return LearnedRanges(recipe.name, arrays, weights_checksum(model), dict(recipe.exceptions))


def weights_checksum(model: keras.Model) -> int:
    """A checksum that changes when a matrix does."""
    checksum = 0
    for _, layer in sorted(dense_layers(model).items()):
        checksum = zlib.crc32(np.ascontiguousarray(to_numpy(layer.kernel), "<f4").tobytes(), checksum)
    return checksum


def learned_ranges(task: Task, recipe: Recipe) -> LearnedRanges | None:
    """The ranges that a task learned for a recipe; `None` if it was trained for another, or for none."""
    ranges = task.quantization
    if ranges is None or (ranges.recipe, dict(ranges.exceptions)) != (recipe.name, dict(recipe.exceptions)):
        return None
    if ranges.weights != weights_checksum(task.model):
        raise ValueError(
            f"This {type(task).__name__} was trained for {ranges.recipe}, and its weights have changed since; train it "
            "again with train_quantized, or set task.quantization = None to convert it without the learned ranges."
        )
    return ranges


# === In a file ===


def unpack_static(ranges: LearnedRanges, matrix: NamedMatrix) -> StaticLayer:
    """The static product of a file, from the numbers that its layer learned."""
    numbers = static_numbers(ranges, matrix.name)
    # The converter's factor joins the output factors, so that the integers are those of the layer.
    own = StaticLayer.from_weights(matrix.weights, *_fields(numbers))
    factors = np.float32(1) if own.output_factors is None else own.output_factors
    width = len(own.integers)
    output_factors = (
        None if own.output_factors is None and matrix.factor == 1 else np.full(width, matrix.factor) * factors
    )
    return StaticLayer(
        own.integers, own.scales, own.input_factors, own.input_scale, output_factors, own.output_scale, 8
    )


def unpack_dynamic(ranges: LearnedRanges, matrix: NamedMatrix, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """The integers and scales of a matrix of a file, from the numbers that its layer learned."""
    scales = ranges.arrays.get(f"{matrix.name}/weight_scales")
    if bits_of(matrix.weights, bits) == 8:
        integers, scales = round_weights(matrix.weights, 8)
    elif scales is None:
        raise ValueError(f"{ranges.recipe} was learned without {matrix.name}; train it again with train_quantized.")
    else:
        integers = round_to_scales(matrix.weights, scales, bits)
    return integers, scales * np.float32(matrix.factor)


def static_numbers(ranges: LearnedRanges, name: str) -> StaticNumbers:
    """The numbers that a layer learned."""
    arrays = ranges.arrays
    values: dict[str, Any] = {}
    for side in ("input", "output"):
        if f"{name}/{side}_scale" not in arrays:
            raise ValueError(f"{ranges.recipe} was learned without {name}; train it again with train_quantized.")
        scale, zero_point = (arrays[f"{name}/{side}_{part}"][0] for part in ("scale", "zero_point"))
        values[f"{side}_scale"] = (float(scale), int(zero_point))
        values[f"{side}_factors"] = arrays.get(f"{name}/{side}_factors")
    return StaticNumbers(**values)


def _fields(numbers: StaticNumbers) -> tuple[Any, ...]:
    return numbers.input_factors, numbers.input_scale, numbers.output_factors, numbers.output_scale
