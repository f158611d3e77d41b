"""Read contexts with choices from SWAG's CSV, JSONL or Python lists.

Takes a path or values; gives `ChoiceRows`, a sequence of `ChoiceQuestion` with `.report`. Choices may be in one column
each or in a list, and the right one may be given by its number or by its text.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keras_bert.data.examples import Rows, collect_rows
from keras_bert.data.named_records import BadRow, NamedRecord, check_text, make_examples, read_named
from keras_bert.data.tables import file_list, find_format

_NUMBERED = re.compile(r"(?:ending|choice)[_-]?(\d+)")


@dataclass(frozen=True)
class ChoiceQuestion:
    """A context, its choices, and the index of the right one, from 0; `None` if it is unknown."""

    context: str
    choices: tuple[str, ...]
    label: int | None = None
    row: int = 0


@dataclass(frozen=True)
class ChoiceRows(Rows[ChoiceQuestion]):
    """Questions with choices.

    Example:
        >>> rows = as_choices([("He ran to the bus.", ["It had left.", "It sang."])], [0])
        >>> rows[0].choices[rows[0].label]
        'It had left.'
    """

    @property
    def questions(self) -> tuple[ChoiceQuestion, ...]:
        """All questions."""
        return self.examples


def read_choices(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    context: str | None = None,
    label: str | None = "label",
    strict: bool = False,
) -> ChoiceRows:
    """Read contexts with choices, and report every row that cannot be used.

    A table has a column for each choice: `ending0`, `ending1` … or `choice0`, `choice1` …. In SWAG's files `sent1` is
    the context, and `sent2`, the beginning of all endings, is put before each of them (without these, `startphrase`
    is the context). JSON has a list `choices`. If a row has fewer choices than others, its last cells are empty.

    Args:
        paths: One file or several: `.csv`, `.tsv`, `.jsonl`, `.json`, each also with `.gz`.
        context: The column of the context; `None` is `context`, or SWAG's.
        label: The column of the right choice: its number from 0, or its text; `None` reads questions without answers.
            In a table, labels are numbers if all of them can be.
        strict: Whether to raise an error at the first bad row instead of reporting it.

    Example:
        >>> rows = read_choices("swag/val.csv")  # doctest: +SKIP
        >>> print(rows.report)  # doctest: +SKIP
        20,006 rows read, 20,006 kept, 0 dropped
    """
    files = file_list(paths)
    records = read_named(files)
    names = {name for record in records for name in record.cells if isinstance(name, str)}
    wanted = [name for name in (context, label) if name is not None]
    missing = [name for name in wanted if name not in names]
    if missing and names:
        raise ValueError(
            f"{', '.join(files)} has no column {missing[0]!r}; it has {', '.join(map(repr, sorted(names)))}. Pass one "
            "of these as context= or label= (label=None if there is none)."
        )

    if label is not None:
        of_files = ([record for record in records if record.path == path] for path in dict.fromkeys(files))
        records = [record for part in of_files for record in _settle_labels(part, label, context)]

    def make(cells: dict[Any, Any], line: int) -> ChoiceQuestion:
        before, choices = _context(cells, context), _choices(cells, context)
        answer = None if label is None else cells.get(label)
        if label is not None and (answer is None or answer == ""):
            raise BadRow("missing label")
        return _question(before, choices, answer, line)

    return collect_rows(ChoiceRows, make_examples(records, make), files, strict=strict)


def as_choices(x: Any, y: Any = None, **columns: Any) -> ChoiceRows:
    """Make rows of questions from a file or from contexts with lists of choices; `ChoiceRows` stay as they are.

    Args:
        x: A path; `ChoiceRows`; a list of `ChoiceQuestion`, or of `(context, [choice, …])`.
        y: The right choice of each: its number from 0, or its text.
        columns: Arguments of `read_choices`, for a file.
    """
    if isinstance(x, str | os.PathLike):
        return read_choices(x, **columns)
    if columns:
        raise ValueError(f"columns={columns} are for files, and x is a {type(x).__name__}; leave them out.")
    if isinstance(x, ChoiceRows):
        return x
    x = list(x)
    if x and all(isinstance(item, ChoiceQuestion) for item in x):
        return collect_rows(ChoiceRows, x)
    labels = [None] * len(x) if y is None else list(y)
    if len(labels) != len(x):
        raise ValueError(f"There are {len(x):,} questions and {len(labels):,} answers; expected one for each.")
    questions = []
    for row, (item, label) in enumerate(zip(x, labels, strict=True), 1):
        if not is_question(item):
            raise TypeError(f"Question {row} is {str(item)[:60]!r}; expected (context, [choice, choice, …]).")
        try:
            questions.append(_question(item[0], tuple(item[1]), label, row))
        except BadRow as error:
            raise ValueError(f"Question {row} ({item[0][:40]!r}): {error}.") from None
    nothing = "There are no questions; expected at least one with its choices."
    return collect_rows(ChoiceRows, questions, nothing=nothing)


def is_question(item: Any) -> bool:
    """Whether a value is a context with its choices."""
    is_pair = isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], str)
    return is_pair and isinstance(item[1], tuple | list) and all(isinstance(choice, str) for choice in item[1])


def _context(cells: Mapping[Any, Any], column: str | None) -> Any:
    names = ("context", "sent1", "startphrase") if column is None else (column,)
    for name in names:
        if name in cells:
            return cells[name]
    raise BadRow(f"no key {names[0]!r}")


def _settle_labels(records: list[NamedRecord], label: str, context: str | None) -> list[NamedRecord]:
    """The rows of one file; in a table, labels become numbers if all of them can be.

    Choices may be numbers too. Labels are then texts of choices if some label is not the number of a choice.
    """
    if not records or find_format(records[0].path) not in ("csv", "tsv"):
        return records
    read = [_read_label(record.cells, label, context) for record in records]
    labels = [reading for reading in read if reading is not None]
    if all(reading.number is not None for reading in labels):
        return [
            record if reading is None else replace(record, cells={**record.cells, label: reading.number})
            for record, reading in zip(records, read, strict=True)
        ]
    if all(reading.text is not None for reading in labels) or not all(reading.is_numeric for reading in labels):
        return records
    fault = "label is the number of one choice and the text of another"
    return [
        replace(record, problem=fault) if reading is not None and reading.is_unclear else record
        for record, reading in zip(records, read, strict=True)
    ]


@dataclass(frozen=True)
class _Label:
    """A label in both meanings: as the number of a choice and as the text of a choice."""

    is_numeric: bool
    number: int | None
    text: int | None

    @property
    def is_unclear(self) -> bool:
        return None not in (self.number, self.text) and self.number != self.text


def _read_label(cells: Mapping[Any, Any], label: str, context: str | None) -> _Label | None:
    answer = cells.get(label, "").strip()
    try:
        choices = _choices(cells, context)
    except BadRow:
        return None
    if not answer:
        return None
    is_numeric = re.fullmatch("[0-9]{1,9}", answer) is not None
    number = int(answer) if is_numeric and int(answer) < len(choices) else None
    return _Label(is_numeric, number, choices.index(answer) if answer in choices else None)


def _choices(cells: Mapping[Any, Any], context: str | None) -> tuple[str, ...]:
    """The choices of a row; for SWAG with their common beginning."""
    beginning = cells.get("sent2", "") if context is None and "sent1" in cells else ""
    return tuple(f"{beginning} {choice}".strip() for choice in _check_choices(_find_choices(cells)))


def _find_choices(cells: Mapping[Any, Any]) -> list[Any]:
    if "choices" in cells:
        if not isinstance(cells["choices"], list):
            raise BadRow("choices is not a list")
        return cells["choices"]
    numbered = {name: _NUMBERED.fullmatch(name) for name in cells if isinstance(name, str)}
    places = sorted((int(match[1]), name) for name, match in numbered.items() if match)
    if not places:
        raise BadRow("no choices: neither a list nor columns ending0, ending1 …")
    choices = [cells[name] for _, name in places]
    while choices and isinstance(choices[-1], str) and not choices[-1].strip():
        choices.pop()
    return choices


def _check_choices(choices: Sequence[Any]) -> tuple[str, ...]:
    if len(choices) < 2:
        raise BadRow("fewer than two choices")
    return tuple(check_text(f"choice {number}", choice) for number, choice in enumerate(choices))


def _question(context: Any, choices: Sequence[Any], label: Any, row: int) -> ChoiceQuestion:
    context, choices = check_text("context", context), _check_choices(choices)
    return ChoiceQuestion(context, choices, None if label is None else _place(label, choices), row)


def _place(label: Any, choices: tuple[str, ...]) -> int:
    if isinstance(label, str) and label in choices:
        if choices.count(label) > 1:
            raise BadRow("the right choice is among the choices twice; give its number")
        return choices.index(label)
    try:
        number = int(label)
    except (TypeError, ValueError, OverflowError):
        raise BadRow("label is neither a choice nor the number of one") from None
    if isinstance(label, bool) or not 0 <= number < len(choices) or number != float(label):
        raise BadRow("label is not the number of a choice")
    return number
