"""Rows of examples, and the report of what was read: what all file readers return.

`Rows` is a sequence of examples with a `RowReport`; every task has a subclass of it with its own properties.
`collect_rows` makes one from what a reader found: examples, and a `Dropped` for each row that cannot be used. `Example`
and `TextRows` are for labelled texts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
R = TypeVar("R", bound="Rows[Any]")

_LINES_SHOWN = 10

# === What was read ===


@dataclass(frozen=True)
class Dropped:
    """A row that was not used.

    Args:
        reason: Why.
        path: Its file; `""` without a file.
        line: The line in its file, from 1.
        place: Where it is in a document without lines, such as `data[0].paragraphs[2]`.
    """

    reason: str
    path: str
    line: int
    place: str = ""

    def error(self, what: str = "row") -> ValueError:
        """The error that a reader raises with `strict=True`."""
        place = self.place or f"line {self.line}"
        return ValueError(
            f"{self.path}, {place}: {self.reason}; fix the {what}, or pass strict=False to leave it out and have it "
            "reported."
        )


@dataclass(frozen=True)
class RowReport:
    """How many rows were read and kept, and which were dropped and why; prints as a short text."""

    files: tuple[str, ...]
    read: int
    kept: int
    dropped: tuple[Dropped, ...] = ()

    @property
    def reasons(self) -> dict[str, int]:
        """How many rows were dropped for each reason, the most frequent first."""
        counts: dict[str, int] = {}
        for drop in self.dropped:
            counts[drop.reason] = counts.get(drop.reason, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {**asdict(self), "reasons": self.reasons}

    def __str__(self) -> str:
        lines = [f"{self.read:,} rows read, {self.kept:,} kept, {len(self.dropped):,} dropped"]
        for reason, count in self.reasons.items():
            places = [drop for drop in self.dropped if drop.reason == reason][:_LINES_SHOWN]
            named = [f"{drop.path}:{drop.line}" if len(self.files) > 1 else str(drop.line) for drop in places]
            more = f" and {count - len(places):,} more" if count > len(places) else ""
            lines.append(f"  {reason}: {count:,} (line {', '.join(named)}{more})")
        return "\n".join(lines)


# === Rows ===


@dataclass(frozen=True)
class Rows(Sequence[T], Generic[T]):
    """Examples in order, and the report of what was read. A slice is a tuple of examples.

    Example:
        >>> rows = Rows(("a", "b"), RowReport((), 3, 2))
        >>> rows[0], len(rows), rows[:1], rows.report.read
        ('a', 2, ('a',), 3)
    """

    examples: tuple[T, ...]
    report: RowReport

    def __len__(self) -> int:
        return len(self.examples)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self.examples[index]


def collect_rows(
    make: Callable[[tuple[T, ...], RowReport], R],
    found: Iterable[T | Dropped],
    files: Iterable[str] = (),
    *,
    what: str = "row",
    strict: bool = False,
    nothing: str | None = None,
) -> R:
    """Keep the examples, and report the rows that were dropped. Raises an error if no example is left.

    Args:
        make: Takes the examples and their report, gives the rows; usually a subclass of `Rows`.
        found: An example, or a `Dropped`, for each row.
        files: What was read, for the report.
        what: What a row is called in errors.
        strict: Whether to raise an error at the first bad row instead of reporting it.
        nothing: The error message if no example is left; the default names the files and shows the report.

    Example:
        >>> rows = collect_rows(Rows, ["a", Dropped("empty text", "b.tsv", 2)], ["b.tsv"])
        >>> rows.examples, str(rows.report).splitlines()[0]
        (('a',), '2 rows read, 1 kept, 1 dropped')
    """
    kept: list[T] = []
    dropped: list[Dropped] = []
    for one in found:
        if not isinstance(one, Dropped):
            kept.append(one)
            continue
        if strict:
            raise one.error(what)
        dropped.append(one)
    files = tuple(files)
    rows = make(tuple(kept), RowReport(files, len(kept) + len(dropped), len(kept), tuple(dropped)))
    if not kept:
        raise ValueError(nothing or f"No usable {what} in {', '.join(files)}; {rows.report}")
    return rows


def found_in(path: str, rows: Iterable[tuple[int, T | str]]) -> Iterator[T | Dropped]:
    """Turn what was found on each line, an example or the reason why there is none, into what `collect_rows` takes.

    Example:
        >>> list(found_in("a.tsv", [(2, "empty text")]))
        [Dropped(reason='empty text', path='a.tsv', line=2, place='')]
    """
    for line, found in rows:
        yield Dropped(found, path, line) if isinstance(found, str) else found


# === Labelled texts ===

LabelValue = str | float | tuple[str, ...]


@dataclass(frozen=True)
class Example:
    """A text, optionally a second one, and its label: a class, a number, or a tuple of classes."""

    text: str
    pair: str | None = None
    label: LabelValue | None = None
    row: int = 0  # the line in its file, from 1; 0 without a file


@dataclass(frozen=True)
class TextRows(Rows[Example]):
    """Labelled texts, or pairs of texts.

    Example:
        >>> rows = collect_rows(TextRows, [Example("a fine film", label="good")])
        >>> rows[0].label, len(rows), rows.labels
        ('good', 1, ['good'])
    """

    @property
    def texts(self) -> list[str]:
        """The first text of every row."""
        return [example.text for example in self.examples]

    @property
    def pairs(self) -> list[str | None]:
        """The second text of every row; `None` if there is none."""
        return [example.pair for example in self.examples]

    @property
    def has_pairs(self) -> bool:
        """Whether any row has a second text."""
        return any(example.pair is not None for example in self.examples)

    @property
    def inputs(self) -> list[str] | list[tuple[str, str | None]]:
        """What `predict` takes: texts, or pairs of texts if there are any."""
        return list(zip(self.texts, self.pairs, strict=True)) if self.has_pairs else self.texts

    @property
    def labels(self) -> list[LabelValue | None]:
        """The label of every row; `None` if there is none."""
        return [example.label for example in self.examples]
