"""Apply a recipe to the matrices of a float file.

Most matrices follow the recipe, its exceptions another one. The numbers come from statistics of the user's data, or
from quantization-aware training. `tflite/quantized_matrices.py` does the rewriting.
"""

from collections.abc import Mapping

from export.file.parsed import TFLiteFile
from export.quantization.learned_scales import unpack_dynamic, unpack_static
from export.quantization.matrices import NamedMatrix
from export.quantization.static_plan import plan_static
from export.quantization.statistics import LayerStatistics
from export.recipes import Recipe
from export.tflite.quantized_matrices import (
    matrix_buffers,
    products_over_tokens,
    quantize_dynamic,
    quantize_static,
    store_float16,
)
from keras_bert.tasks.base.quantization_ranges import LearnedRanges


def quantize_matrices(
    file: TFLiteFile,
    recipe: Recipe,
    statistics: Mapping[int, LayerStatistics] | None = None,
    *,
    named: Mapping[int, NamedMatrix] | None = None,
    learned: LearnedRanges | None = None,
) -> None:
    """Rewrite the matrices of a parsed float file in place.

    Args:
        file: The parsed file.
        recipe: The recipe.
        statistics: The statistics of each matrix product, by the matrix's buffer.
        named: The layers of the matrices, by buffer; needed if the recipe has exceptions, or with `learned`.
        learned: The ranges that the task learned.
    """
    named = named or {}
    _check_names(file, recipe, named, learned)
    for rule, buffers in _buffers_by_recipe(file, recipe, named):
        bits = 8 if rule.weights == "int8" else 4
        if rule.activations in ("int8", "int16"):
            if learned is not None:
                layers = {buffer: unpack_static(learned, named[buffer]) for buffer in buffers}
            else:
                matrices = products_over_tokens(file, buffers)
                layers = plan_static(
                    matrices, statistics or {}, activation_bits=8 if rule.activations == "int8" else 16
                )
            quantize_static(file, layers)
            quantize_dynamic(file, 8, only=buffers)
        elif rule.activations == "dynamic":
            known = {} if learned is None else {key: unpack_dynamic(learned, named[key], bits) for key in buffers}
            quantize_dynamic(file, bits, statistics, only=buffers, learned=known)
        elif rule.weights == "float16":
            store_float16(file, buffers)


def _buffers_by_recipe(
    file: TFLiteFile, recipe: Recipe, named: Mapping[int, NamedMatrix]
) -> list[tuple[Recipe, set[int]]]:
    """Each recipe that matrices follow, with the matrices' buffers."""
    groups: dict[str, tuple[Recipe, set[int]]] = {}
    for buffer in matrix_buffers(file):
        rule = recipe.of_matrix(named[buffer].name if buffer in named else None)
        groups.setdefault("" if rule is recipe else rule.name, (rule, set()))[1].add(buffer)
    return list(groups.values())


def _check_names(
    file: TFLiteFile, recipe: Recipe, named: Mapping[int, NamedMatrix], learned: LearnedRanges | None
) -> None:
    names = [matrix.name for matrix in named.values()]
    if unknown := sorted(set(recipe.exceptions) - set(names)):
        raise ValueError(
            f"Got exceptions for {', '.join(unknown)}, which the file does not have; it has "
            f"{', '.join(sorted(names)) or 'no names'}."
        )
    strange = set(matrix_buffers(file)) - set(named) if learned is not None else ()
    if strange:
        raise ValueError(
            f"There are {len(strange)} matrices in the file that are not layers of the task, so their learned ranges "
            "are not known; set task.quantization = None to convert it without them."
        )
