"""What the commands of `export` share: numbers and texts from the command line.

A room of its own because `export`, `verify` and `benchmark` must read the same words in the same way. Columns are given
as for `finetune`, so that the file which a model was measured on is read the same again.
"""

from pathlib import Path

from export.tasks.base.registry import find_export
from keras_bert.tasks.base.registry import find_task
from keras_bert.tasks.base.task_flags import read_columns


def read_lengths(words: str) -> tuple[int, ...] | str | None:
    """`"32,128"` → (32, 128); `"dynamic"` → None; `"auto"` as it is."""
    if words == "auto":
        return words
    if words == "dynamic":
        return None
    try:
        return tuple(int(word) for word in words.split(","))
    except ValueError:
        raise ValueError(f"--lengths {words!r}: expected numbers with commas between, or dynamic.") from None


def read_texts(path: str, task) -> list:
    """Inputs without labels, one a line; a tab stands before the second text of a pair, a context, or a choice."""
    lines = [line for line in Path(path).read_text(encoding="utf-8").split("\n") if line.strip()]
    if not lines:
        raise ValueError(f"{path} has no texts; expected one a line.")
    inputs = [find_export(task.name).reader.from_line(line) for line in lines]
    if len(set(map(type, inputs))) > 1:
        raise ValueError(f"{path} has a tab in some lines and none in others; expected pairs of texts, or texts alone.")
    return inputs


def read_examples(arguments, path: str, task):
    """What a file is made or verified with: the lines of a .txt file, or labelled data as `finetune` takes it."""
    if Path(path).suffix == ".txt":
        return read_texts(path, task)
    return find_task(task.name).read(arguments, path, "dev", task)


def read_calibration(arguments, path: str, task):
    """Texts like those of the app: as `read_examples`, but a table of texts needs no labels."""
    if Path(path).suffix == ".txt" or not find_export(task.name).plain_rows or arguments.glue:
        return read_examples(arguments, path, task)
    from keras_bert.data.labelled_texts import read_rows

    return read_rows(path, label=None, **read_columns(arguments, "text", "pair")).inputs
