"""Read marked texts with relations from SemEval's and TACRED's files, tables and lists.

Takes paths, or texts and labels as `fit` takes them; gives `RelationRows`, a sequence of `RelationExample` with
`.report`.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from keras_bert.data.examples import RowReport, Rows, collect_rows, found_in
from keras_bert.data.tables import Record, file_list, find_format, read_records
from keras_bert.tasks.relation.marked_text import MarkedText, as_marked, is_marked_form, make_marked, parse_tags

Column = str | int
Columns = Mapping[str, Column | None]

_NUMBERED = re.compile(r"\s*(\d+)\s+(.*\S)\s*")
_QUOTED = re.compile('"(.*)"')
_TACRED_ENDS = ("subj_start", "subj_end", "obj_start", "obj_end")
# TACRED writes brackets as treebanks do; models were pretrained with plain ones.
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}

# === Values ===


@dataclass(frozen=True)
class RelationExample:
    """A marked text and the relation between its entities."""

    text: MarkedText
    label: str | None = None
    row: int = 0  # the line in its file, from 1


@dataclass(frozen=True)
class RelationRows(Rows[RelationExample]):
    """Marked texts with relations.

    Example:
        >>> rows = as_relation_rows(["A <e1>lid</e1> of a <e2>jar</e2>."], ["Component-Whole(e1,e2)"])
        >>> rows[0].text.entities, rows.label_names
        (('lid', 'jar'), ['Component-Whole(e1,e2)'])
    """

    @property
    def texts(self) -> list[MarkedText]:
        """The text of every row, as `predict` takes it."""
        return [example.text for example in self.examples]

    @property
    def labels(self) -> list[str | None]:
        """The label of every row; `None` if there is none."""
        return [example.label for example in self.examples]

    @property
    def label_names(self) -> list[str]:
        """The relations that occur, sorted, for `RelationClassifier.from_pretrained(labels=…)`."""
        return sorted({label for label in self.labels if label is not None})


# === Files ===


def read_relations(
    path_or_paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    text: Column = "text",
    label: Column | None = "label",
    first: Column = "first",
    second: Column = "second",
    keys: str | os.PathLike[str] | None = None,
    format: str | None = None,
    allowed_labels: Collection[str] | None = None,
    strict: bool = False,
) -> RelationRows:
    """Read marked texts with relations, and report every row that cannot be used.

    SemEval-2010's files have a number and a quoted text, then the relation on the next line, then a comment; the
    relations may also come from a file of keys. TSV, CSV and JSONL have one text per row: with `<e1>` and `<e2>` around
    the entities, or a plain text and two more columns with the offsets, `4 9` (in JSON `[4, 9]`). TACRED's JSON has
    words (`token`), the first and last word of both entities (`subj_start`, `subj_end`, `obj_start`, `obj_end`) and a
    `relation`: the subject is the first entity, and the words are joined by spaces.

    Args:
        path_or_paths: One file or several: SemEval's `.txt`, `.tsv`, `.csv`, `.jsonl`, `.json`, gzipped or not.
        text: The column of the text: its name in the header (or its key), or its number from 0.
        label: The column of the relation; `None` reads texts without relations.
        first, second: The columns of the offsets, if the file has them.
        keys: For SemEval's files without relations: a file with a number and a relation per line.
        format: `"semeval"`, `"tsv"`, `"csv"`, `"jsonl"` or `"json"`; `None` decides by the ending. A `.txt` file whose
            first line is a number and a quoted text is SemEval's.
        allowed_labels: The relations that may occur; a row with another one is dropped and reported.
        strict: Whether to raise an error at the first bad row instead of reporting it.

    Example:
        >>> rows = read_relations("TRAIN_FILE.TXT")  # doctest: +SKIP
        >>> print(rows.report)  # doctest: +SKIP
        8,000 rows read, 8,000 kept, 0 dropped
    """
    files = file_list(path_or_paths)
    known = None if keys is None else _read_keys(keys)
    allowed = None if allowed_labels is None else frozenset(allowed_labels)

    def examples(path: str) -> Iterator[tuple[int, RelationExample | str]]:
        if _is_semeval(path, format):
            found = _semeval(path, known, has_labels=label is not None)
        else:
            found = _table(path, format, {"text": text, "label": label, "first": first, "second": second})
        for line, one in found:
            is_unknown = isinstance(one, RelationExample) and allowed is not None and one.label not in allowed
            yield line, "unknown label" if is_unknown else one

    found = (one for path in files for one in found_in(path, examples(path)))
    return collect_rows(RelationRows, found, files, strict=strict)


# === SemEval ===


def _is_semeval(path: str, format: str | None) -> bool:
    if format is not None:
        return format == "semeval"
    if not path.lower().removesuffix(".gz").endswith(".txt"):
        return False
    first = next((record for record in read_records(path, format="tsv") if record.cells), None)
    return first is not None and _sentence(first) is not None


def _semeval(
    path: str, keys: Mapping[int, str] | None, *, has_labels: bool
) -> Iterator[tuple[int, RelationExample | str]]:
    """Read blocks of a number and a quoted text, a relation, and a comment."""
    blocks: list[tuple[int, int, str, list[str]]] = []  # line, number, sentence, relations
    for record in read_records(path, format="tsv"):
        if record.cells is None:
            continue
        if (sentence := _sentence(record)) is not None:
            blocks.append((record.line, *sentence, []))
            continue
        line = "\t".join(record.cells).strip()
        if not blocks:
            yield record.line, "no number and quoted text"
        elif line and not line.startswith("Comment"):
            blocks[-1][-1].append(line)
    labelled = has_labels and (keys is not None or any(lines for *_, lines in blocks))
    for place, number, text, lines in blocks:
        lines = lines or ([keys[number]] if keys is not None and number in keys else [])
        if labelled and len(lines) != 1:
            yield place, "missing label" if not lines else "more than one label"
            continue
        marked = parse_tags(text)
        label = lines[0] if labelled else None
        yield place, marked if isinstance(marked, str) else RelationExample(marked, label, place)


def _sentence(record: Record) -> tuple[int, str] | None:
    """The number and the text of a line that starts a block."""
    number, *rest = record.cells or [""]
    quoted = _QUOTED.fullmatch("\t".join(rest).strip())
    return (int(number), quoted.group(1)) if quoted and re.fullmatch("[0-9]+", number.strip()) else None


def _read_keys(path: str | os.PathLike[str]) -> dict[int, str]:
    keys: dict[int, str] = {}
    for record in read_records(path, format="tsv"):
        found = None if record.cells is None else _NUMBERED.fullmatch("\t".join(record.cells))
        if found is None or int(found.group(1)) in keys:
            problem = "no number and relation" if found is None else f"number {found.group(1)} once more"
            raise ValueError(f"{path}, line {record.line}: {problem}; expected one line per text, '8001\\tOther'.")
        keys[int(found.group(1))] = found.group(2)
    return keys


# === Tables ===


def _table(path: str, format: str | None, columns: Columns) -> Iterator[tuple[int, RelationExample | str]]:
    records = read_records(path, format=format)
    if find_format(path, format) in ("tsv", "csv") and any(isinstance(columns[key], str) for key in ("text", "label")):
        columns = _locate(next(records, None), columns, path)
    for record in records:
        yield record.line, record.problem or _row(record, columns)


def _locate(header: Record | None, columns: Columns, path: str) -> Columns:
    """The columns as numbers; those of the offsets may be missing."""
    if header is None or header.cells is None:
        raise ValueError(f"{path} has no header: it is empty, or its first line is blank or broken.")
    names = [str(name).strip() for name in header.cells]
    for key in ("text", "label"):
        name = columns[key]
        if isinstance(name, str) and names.count(name) != 1:
            raise ValueError(
                f"{path} has {names.count(name) or 'no'} columns named {name!r}; its first line is {names}. Pass "
                f"{key}= one of these, or numbers from 0 for a file without a header."
            )
    numbers = {name: index for index, name in enumerate(names)}
    return {key: numbers.get(name) if isinstance(name, str) else name for key, name in columns.items()}


def _row(record: Record, columns: Columns) -> RelationExample | str:
    if isinstance(record.cells, dict) and "token" in record.cells and columns["text"] not in record.cells:
        return _tacred_row(record.cells, columns["label"], record.line)
    cells = {key: _cell(record.cells, column) for key, column in columns.items()}
    text, label = cells["text"], cells["label"]
    if text is None:
        return "too few columns" if isinstance(record.cells, list) else f"no key {columns['text']!r}"
    if not isinstance(text, str):
        return "text is no string"
    spans = cells["first"], cells["second"]
    marked = parse_tags(text) if spans == (None, None) else make_marked(text, *spans)
    return _labelled(marked, label, record.line, has_label=columns["label"] is not None)


def _tacred_row(cells: dict[Any, Any], column: Column | None, line: int) -> RelationExample | str:
    """A row with words, and the first and the last word of both entities."""
    words = cells["token"]
    ends: list[Any] = [cells.get(name) for name in _TACRED_ENDS]
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return "token is no list of words"
    if not all(type(end) is int for end in ends):
        return "an entity is no (start, end)"
    if not all(0 <= end < len(words) for end in ends):
        return "an entity lies outside of the text"
    words = [str(_BRACKETS.get(word, word)) for word in words]
    starts = [0, *accumulate(len(word) + 1 for word in words)]
    spans = [(starts[begin], starts[last + 1] - 1) for begin, last in (ends[:2], ends[2:])]
    label = cells.get("relation" if column == "label" and column not in cells else column)
    return _labelled(make_marked(" ".join(words), *spans), label, line, has_label=column is not None)


def _labelled(marked: MarkedText | str, label: Any, line: int, *, has_label: bool) -> RelationExample | str:
    if has_label and (not isinstance(label, str | int) or not str(label).strip()):
        return "missing label"
    if isinstance(marked, str):
        return marked
    return RelationExample(marked, None if label is None else str(label).strip(), line)


def _cell(cells: Any, column: Column | None) -> Any:
    """The value in a column, or `None`."""
    if isinstance(cells, dict):
        return cells.get(column)
    return cells[column] if isinstance(column, int) and column < len(cells) else None


# === Lists ===


def as_relation_rows(x: Any, y: Any = None, **columns: Any) -> RelationRows:
    """Make rows from marked texts and relations, or from a file; `RelationRows` stay as they are.

    Args:
        x: Marked texts in any form of `as_marked`; the path of a file; `RelationRows`, or a list of `RelationExample`.
        y: The relation of each text.
        columns: Arguments of `read_relations`, for a file.

    Example:
        >>> as_relation_rows([("a lid of a jar", (2, 5), (11, 14))], ["part"])[0].label
        'part'
    """
    if isinstance(x, os.PathLike) or (isinstance(x, str) and isinstance(parse_tags(x), str)):
        return read_relations(x, **columns)
    if columns:
        raise ValueError(f"columns={columns} are for files, and x is a {type(x).__name__}; leave them out.")
    if isinstance(x, RelationRows):
        return x
    if is_marked_form(x):
        raise TypeError(f"x is one text, {str(x)[:40]!r}; expected a list of texts, or the path of a file.")
    x = list(x)
    if x and all(isinstance(item, RelationExample) for item in x):
        return collect_rows(RelationRows, x)
    labels = [None] * len(x) if y is None else [None if label is None else str(label) for label in y]
    if len(labels) != len(x):
        raise ValueError(f"There are {len(x):,} texts and {len(labels):,} labels; expected one label for each text.")
    examples = [RelationExample(marked_or_error(item, row), None, row) for row, item in enumerate(x, 1)]
    examples = tuple(replace(example, label=label) for example, label in zip(examples, labels, strict=True))
    return RelationRows(examples, RowReport((), len(examples), len(examples)))


def marked_or_error(item: Any, number: int) -> MarkedText:
    """Return a marked text, or raise an error that says what is wrong.

    Example:
        >>> marked_or_error("<e1>a</e1> <e2>b</e2>", 1).text
        'a b'
    """
    marked = as_marked(item)
    if isinstance(marked, str):
        raise ValueError(
            f"Text {number} ({str(item)[:60]!r}): {marked}. Expected '… <e1>one</e1> … <e2>other</e2> …', or "
            "(text, (start, end), (start, end))."
        )
    return marked
