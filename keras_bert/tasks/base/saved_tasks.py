"""Which task a directory holds: its settings file, and `load_task`, which finds the class by itself.

Takes a directory that `Task.save` wrote, gives the task. A room of its own because it knows all tasks by name without
importing them: a new task is a row in `TASKS`.
"""

import json
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from keras_bert.checkpoint.files import finish_writing
from keras_bert.checkpoint.hub import find_directory
from keras_bert.system.atomic_files import write_whole

if TYPE_CHECKING:
    from keras_bert.tasks.base.task import Task

SETTINGS = "keras_bert_task.json"
# Where each task lives; `load_task` imports what it needs and nothing else.
TASKS = {
    "aspect": "keras_bert.tasks.classification.aspect:AspectClassifier",
    "classification": "keras_bert.tasks.classification.task:TextClassifier",
    "intent_slots": "keras_bert.tasks.intent_slots.task:IntentSlots",
    "multiple_choice": "keras_bert.tasks.multiple_choice.task:MultipleChoice",
    "question_answering": "keras_bert.tasks.question_answering.task:QuestionAnswerer",
    "relation": "keras_bert.tasks.relation.task:RelationClassifier",
    "seq2seq": "keras_bert.tasks.generation.task:Seq2Seq",
    "similarity": "keras_bert.tasks.similarity.task:SentenceEmbedder",
    "tagging": "keras_bert.tasks.tagging.task:EntityTagger",
    "zero_shot": "keras_bert.tasks.zero_shot:ZeroShotClassifier",
}


def load_task(directory_or_name: str | os.PathLike) -> "Task":
    """Open a saved task of whichever kind.

    Example:
        ```python
        task = keras_bert.load_task("sentiment")
        task.predict(["What a lovely film!"])
        ```
    """
    directory = find_directory(directory_or_name)
    name = read_settings(directory)["task"]
    if name not in TASKS:
        raise ValueError(f"{directory} holds the task {name!r}; this version knows {', '.join(TASKS)}.")
    module, _, cls = TASKS[name].partition(":")
    return getattr(import_module(module), cls).load(directory)


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
