"""What the commands that read files share: their flags, the rows that these describe, and plain lines.

Takes parsed arguments, gives `TextRows`: `finetune` and `evaluate` must read the same file in the same way, and so
must `predict` and `generate`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_bert.cli.output import note


def add_data_arguments(group) -> None:
    """The flags that say which columns of a file count."""
    group.add_argument("--text", help="column of the text, a name or a number (default: text)")
    group.add_argument("--pair", help="column of the second text, where there is one")
    group.add_argument("--label", help="column of the label (default: label)")
    group.add_argument("--label-separator", metavar="CHARACTER", help="between the labels of a row with several")
    group.add_argument(
        "--glue", metavar="TASK", help="read official GLUE files instead, such as SST-2; DATA is their directory"
    )
    group.add_argument("--aspects", choices=("terms", "categories"), help="which of SemEval's XML (default: terms)")


def read_labelled(arguments, path: str | Path, split: str, *, numeric: bool = False):
    """The rows of a file, or of a split of a GLUE task."""
    from keras_bert.data.glue import read_glue
    from keras_bert.data.labelled_texts import read_rows

    if arguments.glue:
        return read_glue(arguments.glue, path, split)
    columns = read_columns(arguments, "text", "pair", "label")
    return read_rows(path, numeric=numeric, label_separator=arguments.label_separator, **columns)


def read_columns(arguments, *names: str) -> dict:
    """The columns that were named, as numbers where they are numbers; those that were not are left out."""
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    return {name: int(column) if column.isdigit() else column for name, column in given.items()}


def read_lines(path: Path) -> list[str]:
    """The lines of a file, blank ones too. A line ends at a newline alone: U+2028 and others stand within texts."""
    lines = path.read_bytes().decode("utf-8-sig").split("\n")
    lines = [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]
    blank = [str(number) for number, line in enumerate(lines, 1) if not line.strip()]
    if blank and len(blank) < len(lines):
        shown = ", ".join(blank[:10]) + (f" and {len(blank) - 10:,} more" if len(blank) > 10 else "")
        note(f"line{'s' * (len(blank) > 1)} {shown} of {path}: blank, so without an answer (null in JSON).")
    return lines


def answer_filled(texts: Sequence, ask: Callable[[list], Sequence]) -> list[Any]:
    """The answers to texts, and None for those that are blank: as many as there are texts.

    Example:
        >>> answer_filled(["a", "", "b"], lambda texts: [text.upper() for text in texts])
        ['A', None, 'B']
    """
    answers = iter(ask([text for text in texts if not is_blank(text)]))
    return [None if is_blank(text) else next(answers) for text in texts]


def is_blank(text: Any) -> bool:
    """Whether this is a line with nothing in it."""
    return isinstance(text, str) and not text.strip()
