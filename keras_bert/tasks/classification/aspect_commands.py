"""Aspect-based sentiment on the command line."""

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

from keras_bert.tasks.base.held_out import hold_out_classes
from keras_bert.tasks.base.registry import TaskEntry, register_task
from keras_bert.tasks.base.task_flags import LABEL, PAIR, POOLING, TEXT, TaskFlag, read_columns

ASPECTS = TaskFlag(
    "--aspects", choices=("terms", "categories"), help="what to read from SemEval's XML (default: terms)"
)


def read_aspect_rows(arguments: Namespace, path: str | Path, split: str, task: Any = None) -> Any:
    """Read sentences with an aspect and a polarity: SemEval's files, or tables with a column for the aspect."""
    from keras_bert.tasks.classification.aspect_files import read_aspects

    columns = read_columns(arguments, "text", "pair", "label")
    return read_aspects(path, kind=arguments.aspects or "terms", **columns)


register_task(
    TaskEntry(
        "aspect",
        "keras_bert.tasks.classification.aspect:AspectClassifier",
        read=read_aspect_rows,
        hold_out=partial(hold_out_classes, key=lambda row: row.text, noun="sentences"),
        data_flags=(TEXT, PAIR, LABEL, ASPECTS),
        flags=(POOLING,),
    )
)
