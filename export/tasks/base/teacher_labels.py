"""Label texts with the answers of a teacher.

Takes inputs of a task's `predict` (plain strings for a classifier); gives data for its `fit`. Unlabelled texts can then
be used like labelled ones, and a score on them says how often the student agrees with its teacher.
`ExportedTask.label_texts` turns answers into labels.
"""

from typing import Any

from export.tasks.base.inputs import read_examples
from export.tasks.base.registry import find_export
from keras_bert.tasks.base.task import Task


def label_texts(teacher: Task, x: Any, y: Any = None, **columns: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Give labelled data as it is; label other data with the teacher's answers.

    Args:
        teacher: A trained task.
        x, y: Labelled data in any form that `teacher.fit` takes; or inputs of `teacher.predict`.
        columns: Columns of a file.

    Returns:
        x, y and columns for `fit`.

    Example:
        ```python
        x, y, columns = label_texts(classifier, ["a fine film", "what a bore"])  # y: ["positive", "negative"]
        ```
    """
    examples = read_examples(teacher, x, y, **columns)
    if examples.labelled is not None:
        return x, y, columns
    if not examples.inputs:
        raise ValueError("Got no texts; expected at least one for the teacher to label.")
    labels_of = find_export(teacher.name).label_texts
    if labels_of is None:
        raise ValueError(
            f"The examples have no labels, and the task {teacher.name!r} cannot label them; pass examples with labels, "
            "or register the task with label_texts=."
        )
    return *labels_of(teacher, examples.inputs), {}
