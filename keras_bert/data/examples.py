"""The values that reading gives: examples, and the report of what was read.

`Example` is what every task trains on; `Rows` is a sequence of them with a `RowReport`. A room of its own because data
may come from anywhere, and whoever makes examples needs no file reader.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

LabelValue = str | float | tuple[str, ...]

_LINES_SHOWN = 10


@dataclass(frozen=True)
class Example:
    """A text, perhaps with a second one, and its label: a class, a number, or a tuple of classes."""

    text: str
    pair: str | None = None
    label: LabelValue | None = None
    row: int = 0  # the line in its file, from 1; 0 if it comes from none


@dataclass(frozen=True)
class Dropped:
    """A row that was not used."""

    reason: str
    path: str
    line: int


@dataclass(frozen=True)
class RowReport:
    """How many rows were read and kept, and which were dropped for what reason; prints as a small text."""

    files: tuple[str, ...]
    read: int
    kept: int
    dropped: tuple[Dropped, ...] = ()

    @property
    def reasons(self) -> dict[str, int]:
        """How many rows each reason cost, the most frequent first."""
        counts: dict[str, int] = {}
        for drop in self.dropped:
            counts[drop.reason] = counts.get(drop.reason, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    def to_dict(self) -> dict:
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


@dataclass(frozen=True)
class Rows(Sequence):
    """The examples of one or more files, in order. A slice is a tuple of examples.

    Example:
        >>> rows = Rows((Example("a fine film", label="good"),), RowReport((), 1, 1))
        >>> rows[0].label, len(rows), rows.labels
        ('good', 1, ['good'])
    """

    examples: tuple[Example, ...]
    report: RowReport

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index):
        return self.examples[index]

    @property
    def texts(self) -> list[str]:
        """The first text of every row."""
        return [example.text for example in self.examples]

    @property
    def pairs(self) -> list[str | None]:
        """The second text of every row; None where there is none."""
        return [example.pair for example in self.examples]

    @property
    def has_pairs(self) -> bool:
        """Whether any row has a second text."""
        return any(example.pair is not None for example in self.examples)

    @property
    def inputs(self) -> list[str] | list[tuple[str, str | None]]:
        """What `predict` takes: texts, or pairs of texts where there are any."""
        return list(zip(self.texts, self.pairs, strict=True)) if self.has_pairs else self.texts

    @property
    def labels(self) -> list[LabelValue | None]:
        """The label of every row; None where there is none."""
        return [example.label for example in self.examples]
