"""Text classification on the command line: reads the data and finds the kind of its labels."""

import math
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_bert.system.notes import note
from keras_bert.tasks.base.answers import likeliest_words, plain_labels
from keras_bert.tasks.base.registry import TaskEntry, label_names, register_task
from keras_bert.tasks.base.task_flags import (
    GLUE,
    LABEL,
    LABEL_SEPARATOR,
    PAIR,
    POOLING,
    TEXT,
    TaskFlag,
    read_labelled,
)

KIND = TaskFlag(
    "--kind",
    choices=("single_label", "multi_label", "regression"),
    help="kind of the labels (default: found from the data; numbers with fractions are regression)",
)
WINDOWS = TaskFlag("--windows", is_switch=True, help="read longer texts in windows instead of cutting them")


def read_classes(arguments: Namespace, path: str | Path, split: str, task: Any = None) -> Any:
    """Read texts with classes or numbers: what the task takes, what `--kind` says, or what the labels look like."""
    if task is not None:
        return read_labelled(arguments, path, split, task)
    rows = read_labelled(arguments, path, split, numeric=arguments.kind == "regression")
    if arguments.kind is None and not arguments.glue and find_kind(arguments, rows) == "regression":
        note("the labels are numbers with fractions, so this is regression; --kind single_label reads them as classes.")
        return read_labelled(arguments, path, split, numeric=True)
    return rows


def find_kind(arguments: Namespace, rows: Any) -> str:
    """Find the kind of labels: by `--kind`, by the GLUE task, or by what the labels look like."""
    if arguments.kind is not None:
        return arguments.kind
    if arguments.glue:
        from keras_bert.data.glue import glue_task

        return "regression" if glue_task(arguments.glue).kind == "regression" else "single_label"
    if any(isinstance(example.label, tuple) for example in rows):
        return "multi_label"
    return "regression" if _are_scores(example.label for example in rows) else "single_label"


def _are_scores(labels: Iterable[Any]) -> bool:
    """Whether all labels are numbers and some have a fraction: these are scores, not classes."""
    try:
        numbers = [float(label) for label in labels]
    except (TypeError, ValueError):
        return False
    return all(map(math.isfinite, numbers)) and not all(number.is_integer() for number in numbers)


def make_classifier(arguments: Namespace, train: Any) -> Any:
    """Make an untrained classifier for the labels of the data."""
    from keras_bert.tasks.classification.task import TextClassifier

    kind = find_kind(arguments, train)
    return TextClassifier.from_pretrained(
        arguments.model,
        labels=None if kind == "regression" else label_names(train),
        kind=kind,
        pooling=arguments.pooling,
        sequence_length=arguments.sequence_length,
        long_texts="windows" if arguments.windows else "cut",
    )


register_task(
    TaskEntry(
        "classification",
        "keras_bert.tasks.classification.task:TextClassifier",
        read=read_classes,
        make=make_classifier,
        plain=plain_labels,
        words=likeliest_words,
        data_flags=(TEXT, PAIR, LABEL, LABEL_SEPARATOR, GLUE),
        flags=(KIND, POOLING, WINDOWS),
    )
)
