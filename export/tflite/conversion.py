"""Convert a task or a model to a `.tflite` file, which needs neither Keras nor this library.

Takes a task, or a functional model with the three inputs of the encoder. The file has one signature for each sequence
length, or one for all lengths; signatures share their weights. It has only built-in ops. TensorFlow's converter makes
the float graph; the recipes rewrite that file (`tflite/quantized_matrices.py`, `tflite/quantized_tables.py`), because
this keeps more of the model's accuracy than the converter's own quantization.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from export.file.contents import parse, serialize
from export.file.editor import drop_unused
from export.file.metadata import add_metadata, describe_task
from export.file.ops import audit_ops
from export.quantization.learned_scales import learned_ranges
from export.quantization.matrices import name_matrices
from export.quantization.statistics import collect_statistics
from export.recipes import Recipe, find_recipe
from export.tasks.base.float_model import in_float32
from export.tasks.base.registry import find_export
from export.tasks.base.tensorflow_process import on_tensorflow
from export.tflite.calibration_data import calibration_rows
from export.tflite.conversion_check import check_conversion
from export.tflite.float_graph import FloatGraph, float_file, model_and_lengths
from export.tflite.matrix_recipes import quantize_matrices
from export.tflite.passes.delegate import fit_delegate
from export.tflite.passes.dense import join_dense_layers
from export.tflite.passes.first_token import keep_first_token
from export.tflite.passes.norms import shorten_norms
from export.tflite.passes.positions import drop_positions
from export.tflite.quantized_tables import quantize_tables
from keras_bert.system.atomic_files import write_whole
from keras_bert.tasks.base.quantization_ranges import LearnedRanges
from keras_bert.tasks.base.task import Task


@dataclass(frozen=True)
class Artifact:
    """A written file; `lengths` is empty if the length is dynamic."""

    path: Path
    recipe: str
    lengths: tuple[int, ...]
    num_bytes: int

    def __str__(self) -> str:
        lengths = "lengths " + "/".join(map(str, self.lengths)) if self.lengths else "any length"
        return f"{self.path}  {self.recipe}  {lengths}  {self.num_bytes / 1e6:.1f} MB"


@on_tensorflow()
def convert(
    task_or_model: Task | keras.Model,
    path: str | Path,
    *,
    recipe: str | Recipe = "dynamic_int8",
    lengths: int | Sequence[int] | str | None = "auto",
    calibration: Iterable[Any] | str | os.PathLike[str] | None = None,
    num_beams: int | None = None,
    check: bool = True,
    graph: FloatGraph | None = None,
) -> Artifact:
    """Write a model as a TFLite file, batch 1, after a check that it gives the model's outputs.

    Args:
        task_or_model: A task, whose file has its vocabulary, labels and settings inside, and outputs for apps:
            `probabilities` of a `TextClassifier`, `token_logits` of an `EntityTagger`, `start_logits` and `end_logits`
            of a `QuestionAnswerer`. Or a functional model that takes `token_ids, segment_ids, padding_mask` and gives
            outputs by name, which become the outputs of the file. A `Seq2Seq` becomes two graphs, `read_source` and
            `next_token`; `lengths` are then those of its sources, and cannot be dynamic.
        path: The `.tflite` file to write; it is replaced in one step.
        recipe: A name in `RECIPES`, or a `Recipe`: `"float32"`, `"float16"`, `"dynamic_int8"`, `"static_int8"`,
            `"static_int16x8"`, `"weight_int4"`, `"all_int4"`.
        lengths: One or several sequence lengths T, each a signature `length_T`; a text runs with the shortest that it
            fits. Or `None` or `"dynamic"`: one signature `dynamic`, whose inputs `[1, length]` are resized at run time,
            up to the task's `sequence_length`. `"auto"` is 128, for questions 384, or the task's own length if that is
            shorter.
        calibration: For recipes with calibration: batches or rows of model inputs (a `tf.data.Dataset` or any iterable,
            with labels or without); or, for a task, texts: a list of inputs, labelled data in any form that
            `task.evaluate` takes, or a `tf.data.Dataset` of strings. The first 256 rows are used. A task that
            `train_quantized` trained for the recipe needs none.
        num_beams: For a `Seq2Seq`: adds a graph that runs this many beams at once.
        check: Whether to raise an error, and write nothing, if the outputs differ from the model's by more than the
            recipe's tolerance. A few rows are compared, from the calibration data or built-in texts. `export.verify`
            compares answers and scores on your own data.
        graph: The result of `trace_float_graph` for the same, unchanged task or model; its `lengths` are used.

    Example:
        >>> artifact = convert(task, "model.tflite", lengths=(32, 128))  # doctest: +SKIP
        >>> print(artifact)  # doctest: +SKIP
        model.tflite  dynamic_int8  lengths 32/128  23.4 MB
    """
    recipe, path = find_recipe(recipe), Path(path).expanduser()
    task_or_model = in_float32(task_or_model)
    if isinstance(task_or_model, Task) and find_export(task_or_model.name).writes:
        options = {"lengths": lengths, "num_beams": num_beams, "check": check}
        return _convert_writer(task_or_model, path, recipe, calibration, options)
    if num_beams is not None:
        raise ValueError(
            f"Got num_beams={num_beams!r}, which is for tasks that write; {type(task_or_model).__name__} does not."
        )
    model, found = (graph.model, graph.lengths) if graph else model_and_lengths(task_or_model, lengths)
    learned = learned_ranges(task_or_model, recipe) if isinstance(task_or_model, Task) else None
    if recipe.calibration == "needed" and calibration is None and learned is None:
        raise ValueError(
            f"The recipe {recipe.name!r} needs calibration data; pass calibration= with some hundred texts or batches "
            "like those of the model's users, train the task for it with train_quantized, or use "
            "recipe='dynamic_int8'."
        )
    if calibration is not None:
        calibration = calibration_rows(task_or_model, calibration, max(found, default=None))
    longest = task_or_model.sequence_length if isinstance(task_or_model, Task) else None
    content = graph.content if graph else float_file(model, found)
    content = rewrite(content, recipe, calibration, model=model, learned=learned, longest=longest)
    audit_ops(content).check()
    if isinstance(task_or_model, Task):
        content = describe_file(content, task_or_model, Path(path).stem, recipe)
    if check:
        check_conversion(task_or_model, model, content, recipe, calibration)
    return Artifact(write_whole(path, content), recipe.name, found, len(content))


def _convert_writer(task: Any, path: Path, recipe: Recipe, calibration: Any, options: dict[str, Any]) -> Artifact:
    from export.tflite.generation import convert_writer  # it imports this module

    if calibration is not None:
        raise ValueError("Got calibration=, which tasks that write do not use; leave it out.")
    return convert_writer(task, path, recipe=recipe, **options)


def describe_file(content: bytes, task: Task, name: str, recipe: Recipe) -> bytes:
    """Add a task's vocabulary, labels and settings to its file."""
    described = describe_task(task)
    described["settings"] = {**described["settings"], "recipe": recipe.name}
    return add_metadata(content, name=name, output_notes=find_export(task.name).output_notes, **described)


# === Rewriting ===


def rewrite(
    content: bytes,
    recipe: Recipe,
    calibration: Iterable[Any] | None = None,
    *,
    model: keras.Model | None = None,
    learned: LearnedRanges | None = None,
    longest: int | None = None,
) -> bytes:
    """Turn the converter's float file into the file of a recipe.

    Args:
        content: The float file.
        recipe: The recipe.
        calibration: Model inputs, as `convert` takes them.
        model: The Keras model; needed if the recipe has exceptions, or with `learned`.
        learned: The ranges that the task learned, instead of calibration.
        longest: The most tokens of a row, if they are fewer than the model's positions.
    """
    file = parse(content)
    fit_delegate(file)
    if longest is not None:
        drop_positions(file, longest)
    join_dense_layers(file)
    shorten_norms(file)
    drop_unused(file)
    statistics = None
    if calibration is not None and recipe.calibration != "unused" and learned is None:
        statistics = collect_statistics(serialize(file), calibration)
    named = name_matrices(file, model) if model is not None and (recipe.exceptions or learned is not None) else None
    quantize_matrices(file, recipe, statistics, named=named, learned=learned)
    if recipe.tables != "float32":
        quantize_tables(file, int(recipe.tables.removeprefix("int")))
    keep_first_token(file)
    return serialize(file)
