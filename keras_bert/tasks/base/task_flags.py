"""Command-line flags of tasks, and reading labelled texts by them.

A `TaskFlag` is a value that is added to an `argparse` parser later. Flags of several tasks are defined here once.
"""

import re
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.model.config import POOLINGS

if TYPE_CHECKING:
    from keras_bert.data.labelled_texts import TextRows


@dataclass(frozen=True)
class TaskFlag:
    """A command-line flag of some tasks. If it is not given, the argument is `None`; for a switch, `False`.

    Args:
        name: Such as `--negative-label`; the argument is then `negative_label`.
        help: The text for `--help`.
        type: A function from the typed word to the value.
        choices: The values that are allowed.
        metavar: The name of the value in `--help`; several for several values.
        nargs: The number of values, as for `argparse`.
        is_switch: Whether the flag takes no value.

    Example:
        >>> TaskFlag("--negative-label", metavar="LABEL").dest
        'negative_label'
    """

    name: str
    help: str = ""
    type: Callable[[str], Any] = str
    choices: tuple[Any, ...] | None = None
    metavar: str | tuple[str, ...] | None = None
    nargs: int | str | None = None
    is_switch: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"--[a-z][a-z0-9-]*", self.name):
            raise ValueError(f"name={self.name!r}: expected a flag of lower-case words, such as '--negative-label'.")

    @property
    def dest(self) -> str:
        """The name of the argument."""
        return self.name.removeprefix("--").replace("-", "_")

    def add_to(self, group: Any, *, owners: Sequence[str] = ()) -> None:
        """Add the flag to a parser or a group of its arguments; the help names the tasks in `owners`."""
        text = f"{', '.join(owners)}: {self.help}" if owners else self.help
        if self.is_switch:
            group.add_argument(self.name, action="store_true", help=text)
            return
        options = {"type": self.type, "choices": self.choices, "metavar": self.metavar, "nargs": self.nargs}
        given = {name: value for name, value in options.items() if value is not None and value is not str}
        group.add_argument(self.name, help=text, **given)


# === Flags of several tasks ===

TEXT = TaskFlag("--text", help="column of the text, a name or a number (default: text)")
PAIR = TaskFlag("--pair", help="column of the second text, if there is one")
LABEL = TaskFlag("--label", help="column of the label (default: label)")
LABEL_SEPARATOR = TaskFlag(
    "--label-separator", metavar="CHARACTER", help="separator between the labels of a row with several"
)
GLUE = TaskFlag(
    "--glue", metavar="TASK", help="read official GLUE files instead, such as SST-2; DATA is their directory"
)
POOLING = TaskFlag(
    "--pooling",
    choices=POOLINGS,
    help="what a classifier reads: the first token or the mean of all (default: what suits the model)",
)


# === Reading ===


def read_labelled(
    arguments: Namespace, path: str | Path, split: str, task: Any = None, *, numeric: bool = False
) -> "TextRows":
    """Read the rows of a file; with `--glue`, of a split of a GLUE task.

    Args:
        arguments: The parsed arguments, with the data flags.
        path: The file, or the directory of a GLUE task.
        split: `"train"` or `"dev"`, for GLUE.
        task: The task that the rows are for, or `None`. With the kind `"regression"`, labels are numbers.
        numeric: Whether labels are numbers in any case.
    """
    from keras_bert.data.labelled_texts import read_rows

    if getattr(arguments, "glue", None):
        from keras_bert.data.glue import read_glue

        return read_glue(arguments.glue, path, split)
    columns = read_columns(arguments, "text", "pair", "label")
    numeric = numeric or getattr(task, "kind", None) == "regression"
    return read_rows(path, numeric=numeric, label_separator=getattr(arguments, "label_separator", None), **columns)


def read_columns(arguments: Namespace, *names: str) -> dict[str, Any]:
    """Return the given columns by name, with numbers as `int`. Columns that were not given are left out.

    Example:
        >>> read_columns(Namespace(text="sentence", label="3", pair=None), "text", "label", "pair")
        {'text': 'sentence', 'label': 3}
    """
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name, None) is not None}
    return {name: int(column) if column.isdigit() else column for name, column in given.items()}


def is_given(arguments: Namespace, dest: str) -> bool:
    """Whether a flag was given.

    Example:
        >>> is_given(Namespace(head=None), "head")
        False
    """
    value = getattr(arguments, dest, None)
    return value is not None and value is not False  # 0 and '' count as given
