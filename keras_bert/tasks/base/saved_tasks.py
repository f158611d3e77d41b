"""Open saved tasks of any kind, and read and write their settings file.

A saved directory has only the task's name. Which class that is, and which module is imported, is decided by the
registry (`tasks/base/registry.py`).
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


def load_task(directory_or_name: str | os.PathLike[str]) -> "Task":
    """Open a saved task of any kind: one of the library's, or one registered with `register_task`.

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


def read_settings(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the settings that `Task.save` wrote."""
    directory = Path(directory).expanduser()
    finish_writing(directory)
    path = directory / SETTINGS
    if not path.is_file():
        raise FileNotFoundError(
            f"{directory} has no {SETTINGS}, so it was not written by a task's save(). To fine-tune from a plain model "
            "directory, use from_pretrained."
        )
    try:
        settings = json.loads(path.read_text(encoding="utf-8"), parse_int=_whole_number)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} cannot be read ({error}); copy the directory again, or save the task again."
        ) from error
    if not isinstance(settings, dict) or not isinstance(settings.get("task"), str):
        raise ValueError(f"{path} does not name a task; expected what a task's save() writes.")
    return settings


def _whole_number(digits: str) -> int:
    if len(digits) > 20:  # more than 64 bits have; no float may hold it
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def write_settings(directory: str | os.PathLike[str], settings: dict[str, Any]) -> None:
    """Write the settings of a task beside its model. The file is written completely or not at all."""
    write_whole(Path(directory) / SETTINGS, json.dumps(settings, indent=2, ensure_ascii=False) + "\n")
