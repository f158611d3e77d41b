"""Inputs of a task → rows of tokens, and what a file gives for them → answers: NumPy alone, for it runs on the device.

A file for each kind of answer; `find_reader` has one for every task that can be exported. A room of its own because the
device, the checks and the calibration must read texts in the same way, each with a tokenizer of its own. A reader is
loaded when it is asked for: a device has one task, and a cold start no time for the others.
"""

from importlib import import_module

from export.runtime.readers.reader import Reader

# Where each task's reader is.
_HOMES = {
    "aspect": ("labels", "AspectReader"),
    "classification": ("labels", "LabelReader"),
    "intent_slots": ("commands", "CommandReader"),
    "multiple_choice": ("choices", "ChoiceReader"),
    "question_answering": ("spans", "SpanReader"),
    "relation": ("relations", "RelationReader"),
    "seq2seq": ("sources", "SourceReader"),
    "similarity": ("vectors", "VectorReader"),
    "tagging": ("entities", "EntityReader"),
}
TASKS = tuple(_HOMES)

__all__ = ["TASKS", "Reader", "find_reader"]


def find_reader(task: str) -> type[Reader]:
    """The reader of a task; an error that names those that there are.

    Example:
        >>> find_reader("classification").__name__
        'LabelReader'
    """
    if task not in _HOMES:
        raise ValueError(f"The task {task!r} has no reader; these have: {', '.join(TASKS)}.")
    module, name = _HOMES[task]
    return getattr(import_module(f"export.runtime.readers.{module}"), name)
