"""Which tasks can be exported: `register_export` adds one, `find_export` finds it by its name.

Modules of built-in tasks are imported when their task is asked for: a device has one task, and a cold start no time for
the others.
"""

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
_REGISTERED: dict[str, ExportedTask] = {}


def register_export(task: ExportedTask) -> ExportedTask:
    """Make a task known to `convert`, `load`, `verify`, `save_serving` and `deploy`.

    Call it where the reader is defined, in a module that imports neither TensorFlow nor Keras: whoever loads the task's
    file imports that module first.

    Args:
        task: What `export` has to know of it. A name that is taken is an error, but a module may be loaded again.

    Returns:
        The same task.

    Example:
        ```python
        export.register_export(export.ExportedTask(name="tone", reader=ToneReader))
        ```
    """
    if not isinstance(task, ExportedTask):
        raise TypeError(f"Got {type(task).__name__}; expected an export.ExportedTask.")
    if (home := _taken_by(task)) is not None:
        raise ValueError(
            f"The task {task.name!r} is registered already, by {home}; this one is {_home(task)}. Choose another name."
        )
    _REGISTERED[task.name] = task
    return task


def find_export(name: str) -> ExportedTask:
    """What `export` knows of a task; an error that names those that there are.

    Example:
        >>> find_export("classification").reader.__name__
        'LabelReader'
    """
    if name not in _REGISTERED and name in _BUILT_IN:
        import_module(_module(name))
    if name not in _REGISTERED:
        raise ValueError(
            f"The task {name!r} is not registered for export; these are: {', '.join(exported_tasks())}. To export a "
            "task of your own, call export.register_export(export.ExportedTask(…)), or import the module that does."
        )
    return _REGISTERED[name]


def exported_tasks() -> tuple[str, ...]:
    """The names of all tasks that can be exported, in order.

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
    return None if name in _BUILT_IN else find_export(name).reader.__module__


def _module(name):
    return f"export.tasks.{_BUILT_IN[name]}"


def _taken_by(task):
    """Where another task of that name is; `None` where there is none, or where a module is loaded again."""
    if task.name in _BUILT_IN and task.reader.__module__ != _module(task.name):
        return _module(task.name)
    known = _REGISTERED.get(task.name)
    return None if known is None or known is task or _home(known) == _home(task) else _home(known)


def _home(task):
    """Where a task is defined: its reader speaks for it."""
    return f"{task.reader.__module__}.{task.reader.__qualname__}"
