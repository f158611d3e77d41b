"""Make the float TFLite graph of a model with TensorFlow's converter; every recipe starts from it."""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from export.tasks.base.app_model import app_model
from export.tasks.base.float_model import in_float32
from export.tasks.base.inputs import task_reader
from export.tasks.base.registry import find_export
from keras_bert.model.encoder import INPUT_NAMES, encoder_config
from keras_bert.tasks.base.task import Task

DYNAMIC = "dynamic"  # the signature of a file for all lengths


@dataclass(frozen=True)
class FloatGraph:
    """The float graph of a model for some lengths, from `trace_float_graph`; files of all recipes are made from it.

    Args:
        model: The traced model: a task's model with the outputs of its file, or a functional model.
        lengths: The sequence lengths; empty if the length is dynamic.
        content: The converter's file.
    """

    model: keras.Model
    lengths: tuple[int, ...]
    content: bytes


def trace_float_graph(
    task_or_model: Task | keras.Model, lengths: int | Sequence[int] | str | None = "auto"
) -> FloatGraph:
    """Run the converter once, for several recipes.

    Args:
        task_or_model, lengths: As for `convert`; a `Seq2Seq` has two graphs and cannot be traced here.

    Example:
        ```python
        graph = trace_float_graph(classifier, "dynamic")
        for recipe in ("dynamic_int8", "weight_int4"):
            export.convert(classifier, f"{recipe}.tflite", recipe=recipe, graph=graph)
        ```
    """
    model, found = model_and_lengths(in_float32(task_or_model), lengths)
    return FloatGraph(model, found, float_file(model, found))


def model_and_lengths(
    task_or_model: Task | keras.Model, lengths: int | Sequence[int] | str | None
) -> tuple[keras.Model, tuple[int, ...]]:
    """The model with the outputs of its file, and the lengths; raises an error if they do not fit together."""
    model = app_model(task_or_model) if isinstance(task_or_model, Task) else task_or_model
    _check_model(model)
    found = _check_lengths(_choose_lengths(task_or_model, lengths), encoder_config(model).max_sequence_length)
    if isinstance(task_or_model, Task):
        _check_reading(task_or_model, max(found, default=task_or_model.sequence_length))
    return model, found


def _check_model(model: Any) -> None:
    if isinstance(wrapped := getattr(model, "task", None), Task):
        raise ValueError(
            f"{type(model).__name__} has no model of its own; convert its .task, a {type(wrapped).__name__}."
        )
    if not isinstance(model, keras.Model) or not isinstance(model.output, dict):
        raise ValueError(f"Expected a task or a functional model with outputs by name; got {type(model).__name__}.")
    inputs = [tensor.name for tensor in model.inputs]
    if set(inputs) != set(INPUT_NAMES):
        raise ValueError(
            f"The model takes {inputs}; expected {', '.join(INPUT_NAMES)}, as in bert_encoder and bert_model."
        )


def _choose_lengths(
    task_or_model: Task | keras.Model, lengths: int | Sequence[int] | str | None
) -> int | Sequence[int] | str | None:
    if not isinstance(lengths, str) or lengths != "auto":
        return lengths
    if isinstance(task_or_model, Task):
        return min(find_export(task_or_model.name).length, task_or_model.sequence_length)
    return min(128, encoder_config(task_or_model).max_sequence_length)


def _check_lengths(lengths: int | Sequence[int] | str | None, limit: int) -> tuple[int, ...]:
    if lengths is None or (isinstance(lengths, str) and lengths == DYNAMIC):
        return ()
    found = whole_numbers(lengths)
    if not found or min(found) < 3 or max(found) > limit:
        raise ValueError(
            f"Got lengths={lengths!r}; expected one or more sequence lengths from 3 to {limit}, the model's positions, "
            "or 'dynamic'."
        )
    return tuple(sorted(set(found)))


def whole_numbers(values: Any) -> tuple[int, ...] | None:
    """One or several whole numbers, also of NumPy, as a tuple; `None` for anything else.

    Example:
        >>> whole_numbers(16), whole_numbers([32, 128]), whole_numbers("short"), whole_numbers(1.5)
        ((16,), (32, 128), None, None)
    """
    values = np.atleast_1d(np.asarray(values))
    return tuple(values.tolist()) if values.ndim == 1 and values.dtype.kind in "iu" else None


def _check_reading(task: Task, longest: int) -> None:
    """Raise an error if rows of this length are too short for the task's settings."""
    task_reader(task, min(longest, task.sequence_length))


def float_file(model: keras.Model, lengths: Sequence[int]) -> bytes:
    """Make the converter's file, with a signature for each length."""
    archive = keras.export.ExportArchive()
    archive.track(model)
    keys: dict[str, int | None] = {f"length_{length}": length for length in lengths} or {DYNAMIC: None}
    for key, length in keys.items():
        spec = {name: tf.TensorSpec((1, length), tf.int32, name=name) for name in INPUT_NAMES}
        archive.add_endpoint(key, lambda inputs: model(inputs, training=False), input_signature=[spec])
    return convert_saved_model(archive, list(keys))


def convert_saved_model(
    archive: keras.export.ExportArchive, keys: list[str], *, allow_custom_ops: bool = False
) -> bytes:
    """Convert by way of a SavedModel, where variables become constants; the file has a signature for each key."""
    with tempfile.TemporaryDirectory() as directory:
        archive.write_out(directory, verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(directory, signature_keys=keys)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        converter.allow_custom_ops = allow_custom_ops
        return _run_converter(converter)


def _run_converter(converter: Any) -> bytes:
    try:
        return converter.convert()
    except Exception as error:  # the converter's own exception class moves between versions
        if ops := sorted(set(re.findall(r"\b(?:Flex\w+|tf\.\w+)(?= \{| op |\()", str(error)))):
            raise ValueError(
                f"The model needs {', '.join(ops)}, which LiteRT does not build in; "
                "replace the layer that uses it with one of built-in ops."
            ) from error
        raise
