"""Read files with any number of columns into records by column name.

Takes TSV, CSV, JSONL or JSON paths; gives a `NamedRecord` for every row, with the reason for a broken one. For tasks
that have more columns than the text, pair and label of `data/labelled_texts.py`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from keras_bert.data.examples import Dropped
from keras_bert.data.tables import Record, find_format, read_records

T = TypeVar("T")

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class NamedRecord:
    """A row: its cells by name (and, in tables, by number), or the reason why it has none."""

    path: str
    line: int
    cells: dict[Any, Any]
    problem: str | None = None


class BadRow(Exception):
    """Why a row cannot be used."""


def read_named(files: Iterable[str], *, header: bool = True) -> list[NamedRecord]:
    """Read all rows of some files.

    Args:
        files: From `file_list`: `.tsv`, `.txt`, `.csv`, `.jsonl`, `.json`, each also with `.gz`.
        header: Whether the first line of a table names its columns; otherwise they have only numbers, from 0.

    Example:
        >>> read_named(["stories.csv"])[0].cells["ending0"]  # doctest: +SKIP
        'goes home.'
    """
    return [record for path in files for record in _read_file(path, header)]


def make_examples(records: Iterable[NamedRecord], make: Callable[[dict[Any, Any], int], T]) -> Iterator[T | Dropped]:
    """Make an example of each record, for `collect_rows`. A record for which `make` raises `BadRow` is dropped.

    Args:
        records: From `read_named`.
        make: Takes cells and the line, gives an example.
    """
    for record in records:
        try:
            if record.problem is not None:
                raise BadRow(record.problem)
            yield make(record.cells, record.line)
        except BadRow as error:
            yield Dropped(str(error), record.path, record.line)


def check_text(name: str, text: object, *, empty: bool = False) -> str:
    """Return a text; raise `BadRow` if it is not a string, is empty, or is not valid UTF-8."""
    if not isinstance(text, str):
        raise BadRow(f"{name} is no string")
    if not empty and not text.strip():
        raise BadRow(f"empty {name}")
    if _SURROGATE.search(text):
        raise BadRow("invalid UTF-8")
    return text


def _read_file(path: str, header: bool) -> Iterator[NamedRecord]:
    records, names = read_records(path), None
    is_table = find_format(path) in ("tsv", "csv")
    if is_table and header:
        first = next(records, None)
        if first is None or first.cells is None:
            raise ValueError(f"{path} has no header: it is empty, or its first line is blank or broken.")
        names = [str(name).strip() for name in first.cells]
        if twice := sorted(name for name, count in Counter(names).items() if name and count > 1):
            raise ValueError(
                f"{path} has more than one column named {', '.join(twice[:8])}; give each a different name."
            )
    for record in records:
        yield _named(path, record, names, is_table)


def _named(path: str, record: Record, names: list[str] | None, is_table: bool) -> NamedRecord:
    if record.problem is not None:
        return NamedRecord(path, record.line, {}, record.problem)
    if not is_table:
        if not isinstance(record.cells, dict):
            return NamedRecord(path, record.line, {}, "not a JSON object")
        return NamedRecord(path, record.line, record.cells)
    row = list(record.cells or ())
    cells: dict[Any, Any] = dict(enumerate(row))
    if names is None:
        return NamedRecord(path, record.line, cells)
    # More filled cells than the header names: a text contains the delimiter, and the cells after it would be shifted.
    if any(cell.strip() for cell in row[len(names) :]):
        return NamedRecord(path, record.line, {}, "too many columns")
    if len(row) < len(names):
        return NamedRecord(path, record.line, {}, "too few columns")
    return NamedRecord(path, record.line, cells | dict(zip(names, row, strict=False)))
