"""Turn what users pass to `fit`, `evaluate` or `predict` into examples.

Takes texts, pairs, a `tf.data.Dataset`, rows or a path; gives `TextRows`. All tasks accept the same forms.
"""

import os
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.data.examples import Dropped, Example, LabelValue, TextRows, collect_rows
from keras_bert.data.labelled_texts import read_rows


def as_rows(x: Any, y: Any = None, *, numeric: bool = False, **columns: Any) -> TextRows:
    """Make examples from texts and labels, a dataset, a file, or rows that are already read.

    Args:
        x: Strings; pairs of strings; a dataset of `(text, label)` or `((text, pair), label)`, batched or not; the path
            of a TSV, CSV or JSONL file; `TextRows` or a list of `Example`.
        y: The labels, if `x` is strings or pairs.
        numeric: Whether the labels of a file are numbers.
        columns: Arguments of `read_rows`, for a file.

    Example:
        >>> as_rows(["a fine film"], ["good"]).labels
        ['good']
    """
    if isinstance(x, (str, os.PathLike)):
        return read_rows(x, numeric=numeric, **columns)
    if columns:
        raise ValueError(f"columns={columns} are for files, and x is a {type(x).__name__}; leave them out.")
    if isinstance(x, tf.data.Dataset):
        if y is not None:
            raise ValueError("y is given, but a tf.data.Dataset has its own labels; pass only x.")
        x, y = _from_dataset(x)
    if isinstance(x, TextRows):
        return x
    x = list(x)
    if x and all(isinstance(item, Example) for item in x):
        return collect_rows(TextRows, x)
    labels = [None] * len(x) if y is None else [_label(value) for value in y]
    if len(labels) != len(x):
        raise ValueError(f"There are {len(x):,} texts and {len(labels):,} labels; expected one label for each text.")
    return _kept([_example(item, label, row) for row, (item, label) in enumerate(zip(x, labels, strict=True), 1)])


def _example(item: Any, label: LabelValue | None, row: int) -> Example:
    if isinstance(item, (str, bytes)):
        return Example(_text(item), None, label, row)
    if isinstance(item, (tuple, list)) and len(item) == 2 and all(isinstance(part, (str, bytes)) for part in item):
        return Example(_text(item[0]), _text(item[1]), label, row)
    raise TypeError(f"Text {row} is {item!r}; expected a string, or a pair of strings.")


def _kept(examples: list[Example]) -> TextRows:
    """Drop and report empty texts, as in files."""
    found = [example if example.text.strip() else Dropped("empty text", "", example.row) for example in examples]
    return collect_rows(
        TextRows, found, nothing=f"All {len(examples):,} texts are empty; expected at least one with words."
    )


def _from_dataset(dataset: tf.data.Dataset) -> tuple[list[Any], list[Any]]:
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError("The dataset is infinite; leave out repeat(): fit() repeats it as often as needed.")
    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) != 2:
        raise ValueError(f"The dataset yields {spec}; expected (text, label) or ((text, pair), label).")
    parts = tf.nest.flatten(spec[0])
    if not all(part.dtype == tf.string for part in parts) or len(parts) > 2:
        raise ValueError(
            f"The dataset's inputs are {spec[0]}; expected texts, or pairs of texts. For token ids use task.model.fit."
        )
    if parts[0].shape.rank:
        dataset = dataset.unbatch()
    texts, labels = [], []
    for inputs, label in dataset.as_numpy_iterator():
        inputs = tf.nest.flatten(inputs)
        texts.append(inputs[0] if len(inputs) == 1 else tuple(inputs))
        labels.append(label)
    return texts, labels


def _text(value: str | bytes) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _label(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, np.ndarray):
        return tuple(_label(item) for item in value.tolist()) if value.ndim else _label(value.item())
    if isinstance(value, (tuple, list, set, frozenset)):
        return tuple(_label(item) for item in value)
    return value.item() if isinstance(value, np.generic) else value
