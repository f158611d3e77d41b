"""Register tasks for export with `register_export`, and find them by name with `find_export`.

The module of a built-in task is imported when the task is asked for, so that a device loads only the task it runs.
"""

import sys
from dataclasses import dataclass
from importlib import import_module

from export.tasks.base.definition import ExportedTask

# The module of each built-in task, in `export.tasks`.
_BUILT_IN = {
    "aspect": "aspect",
    "classification": "classification",
    "intent_slots": "intent_slots",
    "multiple_choice": "multiple_choice",
    "question_answering": "question_answering",
    "relation": "relation",
    "seq2seq": "generation",
    "similarity": "similarity",
    "tagging": "tagging",
}


@dataclass(frozen=True)
class _Registration:
    task: ExportedTask
    module: str  # that registers it

    @property
    def home(self) -> str:
        reader = self.task.reader
        return f"{self.module}, with the reader {reader.__module__}.{reader.__qualname__}"


_REGISTERED: dict[str, _Registration] = {}


def register_export(task: ExportedTask) -> ExportedTask:
    """Make a task known to `convert`, `load`, `verify`, `save_serving` and `deploy`.

    Call it in a module that imports neither TensorFlow nor Keras: a program that loads the task's file imports that
    module first.

    Args:
        task: The task to register. A name that is taken raises an error, but a module may be loaded again.

    Returns:
        The same task.

    Example:
        ```python
        export.register_export(export.ExportedTask(name="tone", reader=ToneReader))
        ```
    """
    if not isinstance(task, ExportedTask):
        raise TypeError(f"Got {type(task).__name__}; expected an export.ExportedTask.")
    registration = _Registration(task, sys._getframe(1).f_globals["__name__"])
    if (home := _taken_by(registration)) is not None:
        raise ValueError(
            f"The task {task.name!r} is registered already, by {home}; this one is of {registration.home}. Choose "
            "another name."
        )
    _REGISTERED[task.name] = registration
    return task


def find_export(name: str) -> ExportedTask:
    """Find a registered task by name, or raise an error that lists those there are.

    Example:
        >>> find_export("classification").reader.__name__
        'LabelReader'
    """
    if name not in _REGISTERED and name in _BUILT_IN:
        import_module(_module(name))
    if name not in _REGISTERED:
        raise ValueError(
            f"The task {name!r} is not registered for export; expected one of {', '.join(exported_tasks())}. To export "
            "your own task, call export.register_export(export.ExportedTask(…)), or import the module that does so."
        )
    return _REGISTERED[name].task


def exported_tasks() -> tuple[str, ...]:
    """The names of all tasks that can be exported, in alphabetical order.

    Example:
        >>> "tagging" in exported_tasks()
        True
    """
    return tuple(sorted({*_BUILT_IN, *_REGISTERED}))


def registering_module(name: str) -> str | None:
    """The module that a program imports before it loads files of a task; `None` for built-in tasks.

    Example:
        >>> registering_module("tagging")
    """
    if name in _BUILT_IN:
        return None
    find_export(name)
    return _REGISTERED[name].module


def _module(name: str) -> str:
    return f"export.tasks.{_BUILT_IN[name]}"


def _taken_by(new: _Registration) -> str | None:
    """The place of another task with that name; `None` if there is none, or if its module is loaded again."""
    name = new.task.name
    if name in _BUILT_IN and new.module != _module(name):
        return _module(name)
    known = _REGISTERED.get(name)
    return None if known is None or known.task is new.task or known.home == new.home else known.home
