"""Multiple choice on the command line: contexts and their choices, separated by tabs."""

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

from keras_bert.tasks.base.answers import likeliest_words
from keras_bert.tasks.base.held_out import hold_out_tenth
from keras_bert.tasks.base.registry import TaskEntry, register_task
from keras_bert.tasks.base.task_flags import LABEL, TEXT, read_columns


def read_choice_rows(arguments: Namespace, path: str | Path, split: str, task: Any = None) -> Any:
    """Read contexts with their choices."""
    from keras_bert.tasks.multiple_choice.files import read_choices

    columns = read_columns(arguments, "text", "label")
    return read_choices(path, **({"context": columns.pop("text")} if "text" in columns else {}), **columns)


def choose(task: Any, texts: list[Any]) -> Any:
    """Rank the choices of each line."""
    if any(isinstance(text, str) for text in texts):
        raise ValueError(
            "A line has no choices; expected --input FILE with a context and its choices, separated by tabs."
        )
    return task.predict([(context, choices.split("\t")) for context, choices in texts])


register_task(
    TaskEntry(
        "multiple_choice",
        "keras_bert.tasks.multiple_choice.task:MultipleChoice",
        read=read_choice_rows,
        hold_out=partial(hold_out_tenth, key=lambda row: row.context, noun="contexts"),
        ask=choose,
        words=likeliest_words,
        data_flags=(TEXT, LABEL),
    )
)
