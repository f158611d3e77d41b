"""Read sources and targets for text generation.

Takes TSV, CSV or JSONL files, two parallel files, or Python values; gives `GenerationRows`, a sequence of
`GenerationExample` with `.report`. A source may be several texts, such as the turns of a dialogue.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from keras_bert.data.examples import Rows, collect_rows
from keras_bert.data.named_records import BadRow, NamedRecord, check_text, make_examples, read_named
from keras_bert.data.tables import file_list, read_records

Source = str | tuple[str, ...]


@dataclass(frozen=True)
class GenerationExample:
    """A source, as a text or a tuple of turns, and the target; `None` if it is unknown."""

    source: Source
    target: str | None = None
    row: int = 0


@dataclass(frozen=True)
class GenerationRows(Rows[GenerationExample]):
    """Sources with targets.

    Example:
        >>> rows = as_generation_rows([("a dog", "ein Hund")])
        >>> rows[0].target, rows.sources
        ('ein Hund', ['a dog'])
    """

    @property
    def sources(self) -> list[Source]:
        """The source of every row: a text, or a tuple of texts."""
        return [example.source for example in self.examples]

    @property
    def targets(self) -> list[str | None]:
        """The target of every row; `None` if there is none."""
        return [example.target for example in self.examples]


def read_generation(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    source: str | int = "source",
    target: str | int | None = "target",
    strict: bool = False,
) -> GenerationRows:
    """Read sources with targets, and report every row that cannot be used.

    Args:
        paths: One file or several: `.tsv`, `.txt`, `.csv`, `.jsonl`, `.json`, each also with `.gz`. In JSON a source
            may be a list of texts, such as the turns of a dialogue.
        source: The column of the source, by name, or by number from 0 for a table without a header.
        target: The column of the target; `None` reads only sources.
        strict: Whether to raise an error at the first bad row instead of reporting it.

    Example:
        >>> rows = read_generation("cmn.txt", source=0, target=1)  # doctest: +SKIP
        >>> print(rows.report)  # doctest: +SKIP
        26,388 rows read, 26,388 kept, 0 dropped
    """
    files, columns = file_list(paths), [column for column in (source, target) if column is not None]
    records = read_named(files, header=any(isinstance(column, str) for column in columns))
    names = {name for record in records for name in record.cells}
    missing = [column for column in columns if column not in names]
    if missing and names:
        listed = ", ".join(map(repr, sorted(names, key=str)))
        raise ValueError(
            f"{', '.join(files)} has no column {missing[0]!r}; it has {listed}. Pass two of these as source= and "
            "target= (target=None if there is none)."
        )

    def make(cells: dict[Any, Any], line: int) -> GenerationExample:
        absent = [column for column in columns if column not in cells]
        if absent:
            raise BadRow(f"no column {absent[0]!r}")
        return _example(cells[source], None if target is None else cells[target], line)

    return collect_rows(GenerationRows, make_examples(records, make), files, strict=strict)


def read_parallel(source_path: str | os.PathLike[str], target_path: str | os.PathLike[str]) -> GenerationRows:
    """Read two parallel files: lines with the same number belong together.

    Args:
        source_path: The sources, one per line; also with `.gz`.
        target_path: The targets, as many lines; also with `.gz`.

    Example:
        >>> rows = read_parallel("train.en.gz", "train.de.gz")  # doctest: +SKIP
    """
    files = file_list((source_path, target_path))
    sides = [{record.line: record.cells for record in read_records(path, format="tsv")} for path in files]
    counts = [max(side, default=0) for side in sides]
    if counts[0] != counts[1]:
        raise ValueError(
            f"{files[0]} has {counts[0]:,} lines and {files[1]} has {counts[1]:,}; expected a target for each source."
        )
    records = [
        NamedRecord(files[0], line, {side: "\t".join(sides[side].get(line) or [""]) for side in (0, 1)})
        for line in range(1, counts[0] + 1)
    ]
    found = make_examples(records, lambda cells, line: _example(cells[0], cells[1], line))
    return collect_rows(GenerationRows, found, files)


def as_generation_rows(x: Any, y: Any = None, **columns: Any) -> GenerationRows:
    """Make rows of sources and targets from a file or from values; `GenerationRows` stay as they are.

    Args:
        x: A path; `GenerationRows`; a list of `GenerationExample`, of `(source, target)`, or of sources; a
            `tf.data.Dataset` of `(source, target)`. A source is a text or a list of texts.
        y: The targets, if `x` is sources.
        columns: Arguments of `read_generation`, for a file.
    """
    if isinstance(x, str | os.PathLike):
        return read_generation(x, **columns)
    if columns:
        raise ValueError(f"columns={columns} are for files, and x is a {type(x).__name__}; leave them out.")
    if isinstance(x, GenerationRows):
        return x
    if hasattr(x, "as_numpy_iterator"):
        x = _from_dataset(x)
    x = list(x)
    if x and all(isinstance(item, GenerationExample) for item in x):
        return collect_rows(GenerationRows, x)
    if y is None:
        x, y = _split_pairs(x)
    y = list(y)
    if len(y) != len(x):
        raise ValueError(f"There are {len(x):,} sources and {len(y):,} targets; expected one for each.")
    if not x:
        raise ValueError("There are no sources; expected at least one with its target.")
    pairs = enumerate(zip(x, y, strict=True), 1)
    records = [NamedRecord("", row, {"source": source, "target": target}) for row, (source, target) in pairs]
    found = make_examples(records, lambda cells, row: _example(cells["source"], cells["target"], row))
    return collect_rows(GenerationRows, found, ("the values",))


def as_source(source: Any, row: int) -> Source:
    """Check a source: a text, or a list of texts. Raises an error if it is empty.

    Example:
        >>> as_source(["Hello!", "Who is there?"], 1)
        ('Hello!', 'Who is there?')
    """
    try:
        return _check_source(source)
    except BadRow as error:
        raise ValueError(f"Text {row}: {error}; expected a text, or a list of texts.") from None


def _example(source: Any, target: Any, row: int) -> GenerationExample:
    return GenerationExample(_check_source(source), None if target is None else check_text("target", target), row)


def _check_source(source: Any) -> Source:
    if isinstance(source, str):
        return check_text("source", source)
    if not isinstance(source, list | tuple) or not source:
        raise BadRow("source is neither a text nor a list of texts")
    turns = tuple(check_text("source", turn, empty=True) for turn in source)
    if not any(turn.strip() for turn in turns):
        raise BadRow("empty source")
    return turns


def _split_pairs(items: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Split `(source, target)` pairs into sources and targets."""
    if any(isinstance(item, str) for item in items):
        raise ValueError("There are sources but no targets; pass the targets as y, or pairs of (source, target).")
    odd = [item for item in items if not (isinstance(item, list | tuple) and len(item) == 2)]
    if odd:
        raise TypeError(f"{str(odd[0])[:60]!r} is not an example; expected (source, target).")
    return [item[0] for item in items], [item[1] for item in items]


def _from_dataset(dataset: Any) -> list[tuple[Any, Any]]:
    def text(value: Any) -> str | list[str]:
        return value.decode("utf-8") if isinstance(value, bytes) else [part.decode("utf-8") for part in value.tolist()]

    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) != 2:
        raise ValueError(f"The dataset yields {spec}; expected (source, target).")
    if spec[1].shape.rank:
        dataset = dataset.unbatch()
    return [(text(source), text(target)) for source, target in dataset.as_numpy_iterator()]
