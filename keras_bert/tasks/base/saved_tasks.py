"""Which task a directory holds: its settings file, and `load_task`, which finds the class by itself.

Takes a directory that `Task.save` wrote, gives the task. A directory says the task's name and no more: which class that
is, and which module is imported, the registry says (`tasks/base/registry.py`).
"""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.checkpoint.files import finish_writing
from keras_bert.checkpoint.hub import find_directory
from keras_bert.system.atomic_files import write_whole
from keras_bert.tasks.base.registry import find_task

if TYPE_CHECKING:
    from keras_bert.tasks.base.task import Task

SETTINGS = "keras_bert_task.json"


def load_task(directory_or_name: str | os.PathLike) -> "Task":
    """Open a saved task of whichever kind: one of the library's, or one that `register_task` has made known.

    Example:
        ```python
        task = keras_bert.load_task("sentiment")
        task.predict(["What a lovely film!"])
        ```
    """
    directory = find_directory(directory_or_name)
    name: Any = read_settings(directory).get("task")
    try:
        entry = find_task(name)
    except ValueError as error:
        raise ValueError(f"{directory} was not opened. {error}") from None
    return entry.load_class().load(directory)


def read_settings(directory: str | os.PathLike) -> dict:
    """The settings that `Task.save` wrote."""
    directory = Path(directory).expanduser()
    finish_writing(directory)
    path = directory / SETTINGS
    if not path.is_file():
        raise FileNotFoundError(
            f"{directory} has no {SETTINGS}: it was not written by a task's save(). To fine-tune from a plain model "
            "directory, use from_pretrained."
        )
    return json.loads(path.read_text(encoding="utf-8"))


def write_settings(directory: str | os.PathLike, settings: dict) -> None:
    """Write the settings of a task beside its model, whole or not at all."""
    write_whole(Path(directory) / SETTINGS, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
