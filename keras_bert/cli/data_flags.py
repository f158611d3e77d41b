"""Add the flags of all tasks to commands, and check which of them a task takes."""

from argparse import Namespace
from typing import Any

from keras_bert.tasks.base.registry import find_task, registered_tasks
from keras_bert.tasks.base.task_flags import TaskFlag, is_given


def add_data_arguments(group: Any) -> None:
    """Add the flags for reading labelled data to a command, or to a group of its arguments."""
    add_flags(group, "data_flags")


def add_flags(group: Any, *fields: str, name_tasks: bool = False) -> None:
    """Add the flags of all tasks to a command, or to a group of its arguments; each once.

    Args:
        group: A parser, or a group of its arguments.
        fields: Fields of `TaskEntry`: `"data_flags"`, `"flags"`, `"fit_flags"`.
        name_tasks: Whether the help of a flag names the tasks that take it.
    """
    taken = {action.dest for action in group._actions}
    first: dict[str, tuple[str, TaskFlag]] = {}
    for entry in registered_tasks().values():
        for flag in (flag for field in fields for flag in getattr(entry, field)):
            owner, known = first.setdefault(flag.dest, (entry.name, flag))
            if known != flag:
                raise ValueError(
                    f"The tasks {owner!r} and {entry.name!r} define the flag {flag.name} differently; expected one "
                    "definition for both, or another name."
                )
            if flag.dest in taken:
                raise ValueError(
                    f"The flag {flag.name} of the task {entry.name!r} is an argument of the command itself; give it "
                    "another name."
                )
    for _, flag in first.values():
        flag.add_to(group, owners=tasks_with(flag.dest) if name_tasks else ())


def tasks_with(dest: str) -> tuple[str, ...]:
    """The names of the tasks that take a flag.

    Example:
        >>> tasks_with("head")
        ('tagging',)
    """
    return tuple(name for name, entry in registered_tasks().items() if dest in {flag.dest for flag in entry.all_flags})


def check_flags(arguments: Namespace, task: str) -> None:
    """Raise an error if a flag is given that belongs to other tasks.

    Example:
        >>> check_flags(Namespace(head="crf"), "tagging")
    """
    own = {flag.dest for flag in find_task(task).all_flags}
    others = {flag.dest: flag.name for entry in registered_tasks().values() for flag in entry.all_flags}
    for dest, flag in sorted(others.items()):
        if dest not in own and is_given(arguments, dest):
            raise ValueError(f"{flag} is for --task {', '.join(tasks_with(dest))}, not for {task}; leave it out.")
