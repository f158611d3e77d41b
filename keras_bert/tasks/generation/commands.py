"""Text generation on the command line."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from keras_bert.tasks.base.held_out import hold_out_tenth
from keras_bert.tasks.base.registry import TaskEntry, register_task
from keras_bert.tasks.base.task_flags import LABEL, TEXT, TaskFlag, read_columns

TARGET_LENGTH = TaskFlag(
    "--target-length", type=int, help="maximum number of tokens to write (default: a quarter of the row, at most 64)"
)
LABEL_SMOOTHING = TaskFlag("--label-smoothing", type=float, help="0.1 is usual (default: 0)")


def read_text_pairs(arguments: Namespace, path: str | Path, split: str, task: Any = None) -> Any:
    """Read sources with their targets; `--text` and `--label` name the two columns."""
    from keras_bert.tasks.generation.files import read_generation

    names = {"text": "source", "label": "target"}
    return read_generation(path, **{names[name]: column for name, column in read_columns(arguments, *names).items()})


register_task(
    TaskEntry(
        "seq2seq",
        "keras_bert.tasks.generation.task:Seq2Seq",
        read=read_text_pairs,
        hold_out=hold_out_tenth,
        data_flags=(TEXT, LABEL),
        flags=(TARGET_LENGTH,),
        fit_flags=(LABEL_SMOOTHING,),
    )
)
