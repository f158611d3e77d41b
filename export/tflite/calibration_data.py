"""Turn calibration data into rows of model inputs: texts in any form, or model inputs as they are."""

import itertools
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from export.quantization.statistics import MAX_ROWS, rows_of, token_rows
from export.tasks.base.inputs import read_examples, task_reader
from export.tasks.base.registry import find_export
from keras_bert.tasks.base.task import Task


def calibration_rows(task_or_model: Any, data: Any, sequence_length: int | None) -> list[dict[str, np.ndarray]]:
    """Give rows `[1, T]` of model inputs, at most `MAX_ROWS`.

    Args:
        task_or_model: A task, or a model, which takes only model inputs.
        data: Batches or rows of model inputs (a `tf.data.Dataset` or any iterable, with labels or without); or, for a
            task, texts: a list of its inputs, labelled data in any form that `task.evaluate` takes, or a
            `tf.data.Dataset` of strings, with labels or without.
        sequence_length: The most tokens of a row of texts; `None` takes the task's.

    Example:
        >>> rows = calibration_rows(classifier, ["a fine film"], 16)  # doctest: +SKIP
    """
    if isinstance(data, tf.data.Dataset):
        if _is_text(spec := data.element_spec):
            return _text_rows(task_or_model, _strings(data, spec, task_or_model), sequence_length)
        return list(rows_of(data))
    if isinstance(data, str | os.PathLike):
        return _text_rows(task_or_model, data, sequence_length)
    if isinstance(data, Iterable) and not isinstance(data, dict):
        data, first = _peek(data)
        if first is not None and not _is_model_inputs(first):
            return _text_rows(task_or_model, data, sequence_length)
    return list(rows_of(data))


def _text_rows(task: Any, data: Any, sequence_length: int | None) -> list[dict[str, np.ndarray]]:
    if not isinstance(task, Task):
        raise ValueError(
            "The calibration data has texts, but a model has no tokenizer; pass the task, or model inputs."
        )
    inputs = read_examples(task, data).inputs[:MAX_ROWS]
    reader = task_reader(task, min(sequence_length or task.sequence_length, task.sequence_length))
    return list(rows_of(token_rows(reader.prepare(inputs).tokenized)))


def _peek(data: Any) -> tuple[Any, Any]:
    """The data (a list only as long as it is used) and its first item; `None` if there is none."""
    if isinstance(data, list | tuple):
        data = data[:MAX_ROWS]
        return data, data[0] if data else None
    if hasattr(data, "__getitem__"):  # rows that a task has read, an array
        return data, data[0] if len(data) else None
    items = iter(data)
    start = list(itertools.islice(items, 1))
    if start and not _is_model_inputs(start[0]):
        return [*start, *itertools.islice(items, MAX_ROWS - 1)], start[0]
    return itertools.chain(start, items), start[0] if start else None


def _is_model_inputs(item: Any) -> bool:
    return isinstance(item[0] if isinstance(item, tuple) and item else item, dict)


# === Datasets of texts ===


def _is_text(spec: Any) -> bool:
    """Whether the elements, or the inputs before their labels, are strings."""
    parts = tf.nest.flatten(spec[0] if isinstance(spec, tuple) else spec)
    return bool(parts) and not isinstance(spec, dict) and all(part.dtype == tf.string for part in parts)


def _strings(dataset: tf.data.Dataset, spec: Any, task: Any) -> list[str | tuple[str, ...]]:
    """The inputs of a dataset as Python strings, or pairs of them."""
    pairs_alone = isinstance(task, Task) and find_export(task.name).reader.pairs_alone
    are_pairs = pairs_alone and len(tf.nest.flatten(spec)) == 2
    if isinstance(spec, tuple) and not are_pairs:
        dataset = dataset.map(lambda inputs, *labels: inputs)
    if tf.nest.flatten(dataset.element_spec)[0].shape.rank:
        dataset = dataset.unbatch()
    texts: list[str | tuple[str, ...]] = []
    for element in dataset.take(MAX_ROWS).as_numpy_iterator():
        parts = [part.decode("utf-8") for part in tf.nest.flatten(element)]
        texts.append(parts[0] if len(parts) == 1 else tuple(parts))
    return texts
