"""What the commands that read labelled texts share: their flags, and the rows that these describe.

Takes parsed arguments, gives `Rows`. A room of its own because `finetune` and `evaluate` must read the same file in the
same way.
"""

from pathlib import Path


def add_data_arguments(group) -> None:
    """The flags that say which columns of a file count."""
    group.add_argument("--text", help="column of the text, a name or a number (default: text)")
    group.add_argument("--pair", help="column of the second text, where there is one")
    group.add_argument("--label", help="column of the label (default: label)")
    group.add_argument("--label-separator", metavar="CHARACTER", help="between the labels of a row with several")
    group.add_argument(
        "--glue", metavar="TASK", help="read official GLUE files instead, such as SST-2; DATA is their directory"
    )


def read_labelled(arguments, path: str | Path, split: str, *, numeric: bool = False):
    """The rows of a file, or of a split of a GLUE task."""
    from keras_bert.tasks.glue import read_glue
    from keras_bert.tasks.rows import read_rows

    if arguments.glue:
        return read_glue(arguments.glue, path, split)
    columns = read_columns(arguments, "text", "pair", "label")
    return read_rows(path, numeric=numeric, label_separator=arguments.label_separator, **columns)


def read_columns(arguments, *names: str) -> dict:
    """The columns that were named, as numbers where they are numbers; those that were not are left out."""
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    return {name: int(column) if column.isdigit() else column for name, column in given.items()}
