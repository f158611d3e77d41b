"""Intents and slots on the command line."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from keras_bert.tasks.base.held_out import hold_out_tenth
from keras_bert.tasks.base.registry import TaskEntry, register_task
from keras_bert.tasks.base.task_flags import POOLING


def read_command_rows(arguments: Namespace, path: str | Path, split: str, task: Any = None) -> Any:
    """Read commands with their intents and slots."""
    from keras_bert.tasks.intent_slots.files import read_commands

    return read_commands(path)


def make_assistant(arguments: Namespace, train: Any) -> Any:
    """Make an untrained task for the intents and slots of the data."""
    from keras_bert.tasks.intent_slots.task import IntentSlots

    options = {"pooling": arguments.pooling, "sequence_length": arguments.sequence_length}
    return IntentSlots.from_pretrained(arguments.model, intents=train.intents, slots=train.entity_kinds, **options)


register_task(
    TaskEntry(
        "intent_slots",
        "keras_bert.tasks.intent_slots.task:IntentSlots",
        read=read_command_rows,
        make=make_assistant,
        hold_out=hold_out_tenth,
        sequence_length=64,
        data_flags=(),
        flags=(POOLING,),
    )
)
