"""Read lengths and texts from the command line, for all commands of `export`.

Columns are given as for `finetune`, so that the same file is read in the same way again.
"""

import argparse
from pathlib import Path
from typing import Any

from export.tasks.base.registry import find_export
from keras_bert.tasks.base.registry import find_task
from keras_bert.tasks.base.task_flags import read_columns


def read_lengths(words: str) -> tuple[int, ...] | str | None:
    """Read `"32,128"` as (32, 128), `"dynamic"` as None, and `"auto"` as it is."""
    if words == "auto":
        return words
    if words == "dynamic":
        return None
    try:
        return tuple(int(word) for word in words.split(","))
    except ValueError:
        raise ValueError(f"Got --lengths {words!r}; expected numbers separated by commas, or dynamic.") from None


def read_texts(path: str, task: Any) -> list[Any]:
    """Read inputs without labels, one per line; a tab separates the second text of a pair, a context, or a choice."""
    lines = [line for line in Path(path).read_text(encoding="utf-8").split("\n") if line.strip()]
    if not lines:
        raise ValueError(f"{path} has no texts; expected one per line.")
    inputs = [find_export(task.name).reader.from_line(line) for line in lines]
    if len(set(map(type, inputs))) > 1:
        raise ValueError(
            f"{path} has a tab in some lines and none in others; expected only pairs of texts, or only texts."
        )
    return inputs


def read_examples(arguments: argparse.Namespace, path: str, task: Any) -> Any:
    """Read data to make or verify a file with: the lines of a .txt file, or labelled data as for `finetune`."""
    if Path(path).suffix == ".txt":
        return read_texts(path, task)
    return find_task(task.name).read(arguments, path, "dev", task)


def read_calibration(arguments: argparse.Namespace, path: str, task: Any) -> Any:
    """Read texts to calibrate with: as `read_examples`, but a table of texts needs no labels."""
    if Path(path).suffix == ".txt" or not find_export(task.name).plain_rows or arguments.glue:
        return read_examples(arguments, path, task)
    from keras_bert.data.labelled_texts import read_rows

    return read_rows(path, label=None, **read_columns(arguments, "text", "pair")).inputs
