"""Read labelled texts from TSV, CSV, JSONL and JSON files.

`read_rows` takes paths and the names of the columns; it gives `TextRows`, whose `.report` names every row that was not
used. The module also exports the classes of `data/examples.py` and the functions of `data/label_statistics.py`.
"""

import ast
import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from keras_bert.data.examples import Dropped, Example, LabelValue, RowReport, Rows, TextRows, collect_rows, found_in
from keras_bert.data.label_statistics import LabelSummary, class_weights, describe_labels, stratified_split
from keras_bert.data.tables import Record, file_list, find_format, read_records

__all__ = [
    "Dropped",
    "Example",
    "LabelSummary",
    "RowReport",
    "Rows",
    "TextRows",
    "class_weights",
    "describe_labels",
    "read_rows",
    "stratified_split",
]

Column = str | int

_SURROGATE = re.compile("[\ud800-\udfff]")

# A list as Python prints it, of strings and numbers only. NumPy prints strings without commas between them, which
# Python would read as one string.
_ESCAPE = r"""\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4})"""
_ITEM = rf"""(?:'(?:[^'\\\n\0]|{_ESCAPE})*'|"(?:[^"\\\n\0]|{_ESCAPE})*"|[+-]?\d+(?:\.\d*)?)"""
_ITEMS = rf"\s*{_ITEM}\s*(?:,\s*{_ITEM}\s*)*"
_PYTHON_LIST = re.compile(rf"\[(?:\s*|{_ITEMS},?\s*)\]|\((?=[^,]*,){_ITEMS},?\s*\)")
_BROKEN_LIST = "label is a broken list"


# === Reading ===


def read_rows(
    path_or_paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    text: Column = "text",
    pair: Column | None = None,
    label: Column | None = "label",
    header: bool | str = "auto",
    format: str | None = None,
    delimiter: str | None = None,
    label_separator: str | None = None,
    numeric: bool = False,
    allowed_labels: Collection[str] | None = None,
    keep_empty: bool = False,
    strict: bool = False,
) -> TextRows:
    """Read examples, and report every row that cannot be used.

    Args:
        path_or_paths: One file or several: `.tsv` or `.txt` (tabs, no quoting), `.csv`, `.jsonl`, `.json`, and each of
            these with `.gz`.
        text: The column of the text: its name in the header (or its key), or its number from 0.
        pair: The column of the second text, if there is one.
        label: The column of the label; `None` reads texts without labels.
        header: True, False, or `"auto"`: the first line is a header if any column is given by name. With only numbers
            `"auto"` takes the first line as data.
        format: `"tsv"`, `"csv"`, `"jsonl"` or `"json"`; `None` decides by the file's ending.
        delimiter: The delimiter of a CSV file, if it is not a comma.
        label_separator: The separator between the labels of one row (`"|"`): labels are then tuples, and an empty cell
            is a row without labels. A label that is a list, as JSON or Python writes it, gives a tuple without this.
        numeric: Whether labels are numbers (regression).
        allowed_labels: The labels that may occur; a row with another one is dropped and reported.
        keep_empty: Whether to keep rows with an empty text, for files in which every row needs an answer.
        strict: Whether to raise an error at the first bad row instead of reporting it.

    Example:
        >>> rows = read_rows("SST-2/train.tsv", text="sentence")  # doctest: +SKIP
        >>> print(rows.report)  # doctest: +SKIP
        67,349 rows read, 67,349 kept, 0 dropped
    """
    if numeric and (label_separator is not None or allowed_labels is not None):
        raise ValueError("numeric=True reads one number per row; leave out label_separator and allowed_labels.")
    if label_separator == "":
        raise ValueError('label_separator="" separates nothing; pass the character between labels, such as "|".')
    columns = _Columns(text, pair, label)
    label_reader = _LabelReader(label_separator, numeric, None if allowed_labels is None else frozenset(allowed_labels))
    files = file_list(path_or_paths)

    def examples(path: str) -> Iterator[tuple[int, Example | str]]:
        records = read_records(path, format=format, delimiter=delimiter)
        width, cells_at = None, columns.asked
        if find_format(path, format) in ("tsv", "csv") and columns.with_header(header):
            width, cells_at = columns.locate(next(records, None), path)
        for record in records:
            yield record.line, _example(record, cells_at, width, label_reader, keep_empty)

    found = _of_one_kind([(path, one) for path in files for one in found_in(path, examples(path))])
    if not strict:
        _check_lists(found)
    return collect_rows(TextRows, found, files, strict=strict)


def _of_one_kind(found: list[tuple[str, Example | Dropped]]) -> list[Example | Dropped]:
    """If some labels are lists, all must be: a plain one among them is more likely a broken list than a class."""
    if not any(isinstance(one, Example) and isinstance(one.label, tuple) for _, one in found):
        return [one for _, one in found]
    return [
        Dropped("label is no list, as in other rows", path, one.row)
        if isinstance(one, Example) and isinstance(one.label, str)
        else one
        for path, one in found
    ]


def _check_lists(found: list[Example | Dropped]) -> None:
    """Raise an error if most lists are broken: the file then writes lists in another form."""
    broken = [one for one in found if isinstance(one, Dropped) and one.reason == _BROKEN_LIST]
    if len(broken) > sum(
        isinstance(one, Example) and isinstance(one.label, tuple) and one.label != () for one in found
    ):
        raise ValueError(
            f"{broken[0].path}, line {broken[0].line}: the label looks like a list and cannot be read as one, as in "
            f"{len(broken):,} rows; expected ['a', 'b'], with quotes and commas, or a|b with label_separator='|'."
        )


# === Columns ===


@dataclass(frozen=True)
class _Columns:
    text: Column
    pair: Column | None
    label: Column | None

    def __post_init__(self) -> None:
        for role, column in (("text", self.text), ("pair", self.pair), ("label", self.label)):
            is_column = isinstance(column, str | int) and not isinstance(column, bool)
            if (column is None and role == "text") or not (column is None or is_column):
                raise TypeError(f"{role}={column!r} is not a column; pass its name, or its number from 0.")
            if is_column and isinstance(column, int) and column < 0:
                raise ValueError(f"{role}={column} is not a column; numbers count from 0.")

    @property
    def asked(self) -> tuple[Column, Column | None, Column | None]:
        return self.text, self.pair, self.label

    def with_header(self, header: bool | str) -> bool:
        if header not in (True, False, "auto"):
            raise ValueError(f"header={header!r}: expected True, False or 'auto'.")
        names = [column for column in self.asked if isinstance(column, str)]
        if header is False and names:
            raise ValueError(
                f"header=False: the columns have no names, but {names} are asked for; pass numbers from 0."
            )
        return bool(names) if header == "auto" else bool(header)

    def locate(self, first: Record | None, path: str) -> tuple[int, tuple[Column | None, ...]]:
        """How wide the table is, and the columns as numbers."""
        if first is None or first.cells is None:
            raise ValueError(f"{path} has no header: it is empty, or its first line is blank or broken.")
        names = [str(name).strip() for name in first.cells]
        for role, column in zip(("text", "pair", "label"), self.asked, strict=True):
            if isinstance(column, str) and names.count(column) != 1:
                found = f"{names.count(column)} columns" if column in names else "no column"
                unlabelled = ", label=None for a file without labels" if role == "label" else ""
                raise ValueError(
                    f"{path} has {found} named {column!r}; its first line reads {names}. Pass {role}= one of these"
                    f"{unlabelled}, or numbers from 0 for a file without a header."
                )
        return len(names), tuple(names.index(column) if isinstance(column, str) else column for column in self.asked)


# === Rows ===


def _example(
    record: Record,
    cells_at: tuple[Column | None, ...],
    width: int | None,
    read_label: Callable[[object], tuple[LabelValue | None, str | None]],
    keep_empty: bool,
) -> Example | str:
    """The example of a record, or the reason why there is none."""
    if record.problem:
        return record.problem
    # More filled cells than the header names: a text contains the delimiter, and the cells after it would be shifted.
    if width is not None and isinstance(record.cells, list) and any(str(cell).strip() for cell in record.cells[width:]):
        return "too many columns"
    try:
        cells: Any = record.cells
        text, pair, label = (None if column is None else cells[column] for column in cells_at)
    except (IndexError, KeyError, TypeError):
        return _lacking(record, cells_at)
    if not isinstance(text, str) or not (pair is None or isinstance(pair, str)):
        return "text is no string"
    if not keep_empty and not text.strip():
        return "empty text"
    if not keep_empty and cells_at[1] is not None and not (pair or "").strip():
        return "empty pair"
    reason = None
    if cells_at[2] is not None:
        label, reason = read_label(label)
    if any(_SURROGATE.search(value) for value in (text, pair, *_strings(label)) if value is not None):
        return "invalid UTF-8"
    return reason or Example(text, pair, label, record.line)


def _lacking(record: Record, cells_at: tuple[Column | None, ...]) -> str:
    if isinstance(record.cells, list):
        return "too few columns"
    lacking = [column for column in cells_at if column is not None and column not in (record.cells or ())]
    return "missing label" if lacking == [cells_at[2]] else f"no key {lacking[0]!r}"


def _strings(label: object) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else (label,) if isinstance(label, str) else ()


@dataclass(frozen=True)
class _LabelReader:
    separator: str | None
    numeric: bool
    allowed: frozenset[str] | None

    def __call__(self, value: object) -> tuple[LabelValue | None, str | None]:
        """The label, and the reason why it cannot be used."""
        if value is None or (isinstance(value, str) and not value.strip() and self.separator is None):
            return None, "missing label"
        if self.numeric:
            return self._number(value)
        if isinstance(value, dict):
            return None, "label is no string, number or list"
        label = self._classes(value)
        if label is None:
            return None, _BROKEN_LIST
        unknown = self.allowed is not None and not self.allowed.issuperset(_strings(label))
        return label, "unknown label" if unknown else None

    def _classes(self, value: object) -> str | tuple[str, ...] | None:
        """A class, or several; `None` for what looks like a list but cannot be read as one."""
        if isinstance(value, str):
            value = _parse_list(value.strip())
            if isinstance(value, str) and self.separator is not None:
                return tuple(dict.fromkeys(part.strip() for part in value.split(self.separator) if part.strip()))
        if isinstance(value, list):
            return tuple(dict.fromkeys(_word(part) for part in value))
        return None if value is None else _word(value)

    @staticmethod
    def _number(value: Any) -> tuple[float | None, str | None]:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            return None, "label is no number"
        return (number, None) if math.isfinite(number) else (None, "label is no number")


def _parse_list(cell: str) -> str | list[Any] | None:
    """The list in a cell, or the cell if it is not a list (a class such as [other]), or `None` for a broken list."""
    if cell.startswith("["):
        try:
            return json.loads(cell)
        except (ValueError, RecursionError):
            pass
    if _PYTHON_LIST.fullmatch(cell):
        items = re.findall(_ITEM, cell)
        return [ast.literal_eval(item) if item[0] in "'\"" else item for item in items]
    is_broken = cell.startswith("[") and cell.endswith("]") and (cell.startswith("[[") or set(cell) & set("\"',"))
    return None if is_broken else cell


def _word(value: object) -> str:
    """A JSON value as the name of a class: `true` and `1` are read as they are written in the file."""
    return value.strip() if isinstance(value, str) else json.dumps(value)
