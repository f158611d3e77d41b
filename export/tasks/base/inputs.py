"""Read a task's examples from data in any form, and build the reader that turns them into rows."""

from typing import Any

from export.tasks.base.examples import Examples
from export.tasks.base.reader import Reader
from export.tasks.base.registry import find_export


def read_examples(task: Any, x: Any = None, y: Any = None, **columns: Any) -> Examples:
    """Read examples of a task.

    Args:
        task: The task.
        x: Inputs of `task.predict`, or labelled data in any form that `task.evaluate` takes; `None` takes a few
            built-in texts of several kinds.
        y: The labels, where `x` is inputs.
        columns: Columns of a file, as for `task.evaluate`.

    Example:
        >>> read_examples(classifier, ["a fine film"], ["good"]).inputs  # doctest: +SKIP
        ['a fine film']
    """
    return find_export(task.name).read_examples(task, x, y, **columns)


def task_reader(task: Any, sequence_length: int) -> Reader:
    """Build the reader of a task for rows of that many tokens, with the task's own tokenizer.

    Example:
        >>> task_reader(classifier, 32).prepare(["a fine film"]).tokenized.lengths  # doctest: +SKIP
        array([5])
    """
    from export.file.metadata import task_settings  # not installed on a device

    return find_export(task.name).reader(
        task.tokenizer,
        sequence_length=sequence_length,
        labels=task.labels,
        kind=getattr(task, "kind", None),
        settings=task_settings(task),
    )
