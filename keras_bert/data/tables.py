"""Read TSV, CSV, JSONL and JSON files into records with line numbers.

Takes a path; gives a `Record` for every row, with the reason for a broken one. What the columns mean is decided
elsewhere, for example in `data/labelled_texts.py`. Bytes that are not UTF-8 become lone surrogates, so that only the
rows that contain them are dropped.
"""

import csv
import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUFFIXES = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
}
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Record:
    """One row of a file: its cells by position or by name, or the reason why it has none."""

    line: int  # of its first line, from 1; in a `.json` file the number of the entry
    cells: list[Any] | dict[str, Any] | None
    problem: str | None = None


def file_list(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Turn one path or several into a tuple of strings. Raises an error if there are none.

    Example:
        >>> file_list("train.tsv")
        ('train.tsv',)
    """
    files = tuple(os.fspath(path) for path in ([paths] if isinstance(paths, str | os.PathLike) else paths))
    if not files:
        raise ValueError("There is no file to read; pass at least one path.")
    return files


def find_format(path: str | os.PathLike[str], format: str | None = None) -> str:
    """Find the format of a file: the given one, or the one that its ending names.

    Args:
        path: The file. A final `.gz` is ignored, and `.txt` is read as TSV.
        format: `"tsv"`, `"csv"`, `"jsonl"` or `"json"`; `None` decides by the ending.

    Example:
        >>> find_format("reviews.csv.gz")
        'csv'
    """
    known = sorted(set(SUFFIXES.values()))
    if format is not None:
        if format not in known:
            raise ValueError(f"format={format!r}: expected one of {', '.join(map(repr, known))}.")
        return format
    path = Path(path)
    suffix = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    if suffix not in SUFFIXES:
        if not path.exists():  # often a mistyped folder: an ending would not help
            raise FileNotFoundError(f"{path} does not exist; expected a file or a folder.")
        endings = ", ".join(SUFFIXES)
        raise ValueError(f"{path} does not end in one of {endings} (also with .gz); pass format=, one of {known}.")
    return SUFFIXES[suffix]


def read_records(
    path: str | os.PathLike[str], *, format: str | None = None, delimiter: str | None = None
) -> Iterator[Record]:
    """Read all rows of a file, including the header.

    Args:
        path: A file, gzipped or not.
        format: See `find_format`.
        delimiter: The delimiter of a CSV file, if it is not a comma. A TSV file has tabs and no quoting:
            a file with tabs and quotes is `format="csv", delimiter="\\t"`.

    Example:
        >>> [record.cells for record in read_records("two_columns.tsv")]  # doctest: +SKIP
        [['sentence', 'label'], ['a fine film', '1']]
    """
    format = find_format(path, format)
    if delimiter is not None and format != "csv":
        raise ValueError(f"delimiter={delimiter!r} is for CSV files and {path} is read as {format}; pass format='csv'.")
    content = _read_text(path)
    if format == "json":
        return _json_records(content, path)
    lines = content.rstrip("\r\n").split("\n")  # not splitlines(), which also breaks at U+2028 and others within texts
    if format == "csv":
        return _csv_records(lines, delimiter or ",")
    return _line_records(lines, _tsv_cells if format == "tsv" else _json_cells)


def _read_text(path: str | os.PathLike[str]) -> str:
    opened = gzip.open if os.fspath(path).lower().endswith(".gz") else open
    try:
        with opened(path, "rb") as file:
            content = file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a complete gzip file ({error}); download or compress it again.") from error
    if content.startswith(_UTF16_MARKS):
        raise ValueError(f"{path} is UTF-16; save it as UTF-8.")
    return content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="surrogateescape")


# === Formats ===


def _line_records(lines: list[str], parse: Callable[[str], list[Any] | dict[str, Any] | None]) -> Iterator[Record]:
    for number, line in enumerate(lines, start=1):
        line = line.removesuffix("\r")
        if not line.strip(" "):
            if len(lines) > 1:  # otherwise the file is empty
                yield Record(number, None, "blank line")
            continue
        cells = parse(line)
        yield Record(number, cells, None if cells is not None else "not a JSON object")


def _tsv_cells(line: str) -> list[str]:
    return line.split("\t")


def _json_cells(line: str) -> list[Any] | dict[str, Any] | None:
    try:
        cells = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cells if isinstance(cells, list | dict) else None


def _csv_records(lines: list[str], delimiter: str) -> Iterator[Record]:
    start = 0
    while start < len(lines):
        # Strict: with a quote that is never closed, the rest of the file would become one long text.
        reader = csv.reader((line + "\n" for line in lines[start:]), delimiter=delimiter, strict=True)
        done = 0
        try:
            for cells in reader:
                first, done = start + done + 1, reader.line_num
                if cells:
                    yield Record(first, [cell.replace("\r\n", "\n") for cell in cells])
                elif len(lines) > 1:
                    yield Record(first, None, "blank line")
            return
        except csv.Error as error:
            reason = "text too long for CSV" if "field larger" in str(error) else "broken quoting"
            yield Record(start + done + 1, None, reason)
            start += done + 1


def _json_records(content: str, path: str | os.PathLike[str]) -> Iterator[Record]:
    try:
        entries = json.loads(content)
    except ValueError as error:
        raise ValueError(
            f"{path} is not a JSON document ({error}); a file with an object per line is format='jsonl'."
        ) from None
    if isinstance(entries, dict):
        entries = list(entries.values())
    if not isinstance(entries, list):
        raise ValueError(f"{path} contains a JSON {type(entries).__name__}; expected a list or a dictionary of rows.")
    for number, entry in enumerate(entries, start=1):
        is_row = isinstance(entry, list | dict)
        yield Record(number, entry if is_row else None, None if is_row else "not a JSON object")
