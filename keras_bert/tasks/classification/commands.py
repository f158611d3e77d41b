"""Classification on the command line: files of texts and labels, and which kind of labels they have."""

import math

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
    help="what labels are (default: found from them; numbers with fractions are regression)",
)
WINDOWS = TaskFlag("--windows", is_switch=True, help="read longer texts in windows instead of cutting them")


def read_classes(arguments, path, split, task=None):
    """Texts with classes, or with numbers: as the task takes them, as the user says, or as they look."""
    if task is not None:
        return read_labelled(arguments, path, split, task)
    rows = read_labelled(arguments, path, split, numeric=arguments.kind == "regression")
    if arguments.kind is None and not arguments.glue and find_kind(arguments, rows) == "regression":
        note("the labels are numbers with fractions, so this is regression; --kind single_label makes classes of them.")
        return read_labelled(arguments, path, split, numeric=True)
    return rows


def find_kind(arguments, rows) -> str:
    """Which kind of labels there are: as the user says, as GLUE says, or as the labels look."""
    if arguments.kind is not None:
        return arguments.kind
    if arguments.glue:
        from keras_bert.data.glue import glue_task

        return "regression" if glue_task(arguments.glue).kind == "regression" else "single_label"
    if any(isinstance(example.label, tuple) for example in rows):
        return "multi_label"
    return "regression" if _are_scores(example.label for example in rows) else "single_label"


def _are_scores(labels):
    """Whether all labels are numbers and some have a fraction, as scores do and the numbers of classes do not."""
    try:
        numbers = [float(label) for label in labels]
    except (TypeError, ValueError):
        return False
    return all(map(math.isfinite, numbers)) and not all(number.is_integer() for number in numbers)


def make_classifier(arguments, train):
    """An untrained classifier for the labels of the data."""
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
