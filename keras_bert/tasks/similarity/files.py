"""Read pairs and triplets of sentences.

Takes a path, `TextRows`, a dataset or Python lists; gives `SentenceGroups`, all of one kind: pairs with scores, pairs
that belong together, or triplets of an anchor, a positive and a negative. The kind decides the loss and the metric.
"""

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_bert.data.examples import Rows, TextRows, collect_rows
from keras_bert.data.named_records import BadRow, check_text, make_examples, read_named
from keras_bert.data.tables import file_list

Column = str | int
_OPTIONAL = {"label": ("label", "score"), "negative": ("negative",)}


@dataclass(frozen=True)
class SentenceGroup:
    """Texts that are compared: two, or three with a hard negative; and the score of a pair, if it is known."""

    texts: tuple[str, ...]
    score: float | None = None
    row: int = 0


@dataclass(frozen=True)
class SentenceGroups(Rows[SentenceGroup]):
    """Groups of one kind.

    Example:
        >>> groups = as_sentence_groups([("a cat", "a kitten"), ("a cat", "a car")], [0.9, 0.1])
        >>> groups.has_scores, groups.texts_per_example, len(groups)
        (True, 2, 2)
    """

    @property
    def groups(self) -> tuple[SentenceGroup, ...]:
        """All groups."""
        return self.examples

    @property
    def has_scores(self) -> bool:
        """Whether pairs have scores; without scores, the texts of a pair belong together."""
        return self.groups[0].score is not None

    @property
    def texts_per_example(self) -> int:
        """2 for pairs, 3 for triplets."""
        return len(self.groups[0].texts)

    @property
    def texts(self) -> list[str]:
        """All texts, group after group."""
        return [text for group in self.groups for text in group.texts]

    @property
    def scores(self) -> np.ndarray:
        """The scores as they were read, float32 `[n]`."""
        return np.array([group.score for group in self.groups], np.float32)

    @property
    def text_numbers(self) -> np.ndarray:
        """A number for each text, `[n, G]`; equal texts have equal numbers."""
        numbers: dict[str, int] = {}
        found = [numbers.setdefault(text.strip(), len(numbers)) for text in self.texts]
        return np.array(found, np.int32).reshape(-1, self.texts_per_example)


def read_sentences(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    text: Column = "text",
    pair: Column = "pair",
    label: Column | bool | None = None,
    negative: Column | bool | None = None,
    strict: bool = False,
) -> SentenceGroups:
    """Read pairs or triplets of sentences, and report every row that cannot be used.

    Args:
        paths: One file or several: `.tsv`, `.csv`, `.jsonl`, `.json`, each also with `.gz`.
        text: The column of the first sentence: its name, or its number from 0 in a table without a header.
        pair: The column of the second sentence.
        label: The column of the score; `None` uses `label` or `score` if the file has it, `False` reads no score.
        negative: The column of a sentence that does not belong to the first; `None` uses `negative` if the file has
            it, `False` reads none.
        strict: Whether to raise an error at the first bad row instead of reporting it.

    Example:
        >>> groups = read_sentences("dev.tsv", text="sentence1", pair="sentence2")  # doctest: +SKIP
        >>> print(groups.report)  # doctest: +SKIP
        1,500 rows read, 1,500 kept, 0 dropped
    """
    columns: dict[str, Column | bool | None] = {"text": text, "pair": pair, "label": label, "negative": negative}
    files = file_list(paths)
    named = [column for column in columns.values() if isinstance(column, str)]
    records = read_named(files, header=bool(named))
    found = {name for record in records for name in record.cells}
    for role, names in _OPTIONAL.items():
        if columns[role] is None:
            columns[role] = next((name for name in names if name in found), False)
    missing = {role: column for role, column in columns.items() if column is not False and column not in found}
    if missing and found:
        role, column = next(iter(missing.items()))
        raise ValueError(
            f"{', '.join(files)} has no column {column!r}; it has {', '.join(map(repr, sorted(found, key=str)))}. Pass "
            f"one of these as {role}=."
        )

    def make(cells: dict[Any, Any], line: int) -> SentenceGroup:
        roles = [role for role in ("text", "pair", "negative") if columns[role] is not False]
        for role in roles:
            if columns[role] not in cells:
                raise BadRow(f"no key {columns[role]!r}")
        texts = tuple(check_text(role, cells[columns[role]]) for role in roles)
        return SentenceGroup(texts, None if columns["label"] is False else _number(cells.get(columns["label"])), line)

    return _of_one_kind(collect_rows(SentenceGroups, make_examples(records, make), files, strict=strict))


def as_sentence_groups(x: Any, y: Any = None, **columns: Any) -> SentenceGroups:
    """Make groups from a file, or from pairs or triplets; `SentenceGroups` stay as they are.

    Args:
        x: A path; `SentenceGroups`; `TextRows` with pairs, whose labels are the scores; a dataset of `((text, pair),
            score)`; or a list of pairs or triplets of strings.
        y: The scores of pairs.
        columns: Arguments of `read_sentences`, for a file.

    Example:
        >>> as_sentence_groups([("a cat", "a kitten", "a car")]).texts_per_example
        3
    """
    if isinstance(x, str | os.PathLike):
        return read_sentences(x, **columns)
    if columns:
        raise ValueError(f"columns={columns} are for files, and x is a {type(x).__name__}; leave them out.")
    if isinstance(x, SentenceGroups):
        return x
    if not isinstance(x, list | tuple | TextRows):  # a dataset, or another form of texts
        from keras_bert.data.inputs import as_rows

        x, y = as_rows(x, y), None
    if isinstance(x, TextRows):
        return _from_rows(x)
    if x and all(isinstance(item, SentenceGroup) for item in x):
        return _of_one_kind(collect_rows(SentenceGroups, x))
    scores = [None] * len(x) if y is None else list(y)
    if len(scores) != len(x):
        raise ValueError(f"There are {len(x):,} pairs and {len(scores):,} scores; expected one for each pair.")
    groups = [_group(item, score, row) for row, (item, score) in enumerate(zip(x, scores, strict=True), 1)]
    nothing = "There are no examples; expected at least one pair of sentences."
    return _of_one_kind(collect_rows(SentenceGroups, groups, nothing=nothing))


def _from_rows(rows: TextRows) -> SentenceGroups:
    pairs = [((row.text,) if row.pair is None else (row.text, row.pair), row) for row in rows]
    groups = tuple(_group(texts, row.label, row.row) for texts, row in pairs)
    return _of_one_kind(SentenceGroups(groups, rows.report))


def _group(item: Any, score: Any, row: int) -> SentenceGroup:
    if not isinstance(item, list | tuple) or len(item) not in (2, 3) or not all(isinstance(part, str) for part in item):
        raise TypeError(
            f"Example {row} is {str(item)[:60]!r}; expected a pair of strings, or a triplet with a negative. For "
            "single texts, pass each twice, (text, text): dropout then makes them different (SimCSE)."
        )
    try:
        texts = tuple(check_text(f"text {place}", text) for place, text in enumerate(item, 1))
        return SentenceGroup(texts, None if score is None else _number(score), row)
    except BadRow as error:
        raise ValueError(f"Example {row} ({item[0][:40]!r}): {error}.") from None


def _number(value: Any) -> float:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise BadRow("missing score")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise BadRow("score is no number") from None
    if not math.isfinite(number):
        raise BadRow("score is no number")
    return number


def _of_one_kind(groups: SentenceGroups) -> SentenceGroups:
    kinds = {(len(group.texts), group.score is not None) for group in groups}
    if len(kinds) > 1:
        first = groups[0]
        other = next(g for g in groups if (len(g.texts), g.score is None) != (len(first.texts), first.score is None))
        raise ValueError(
            f"Row {first.row} is {_kind(first)} and row {other.row} is {_kind(other)}; expected all of one kind."
        )
    if kinds == {(3, True)}:
        raise ValueError("Triplets have scores, but a score needs a pair; leave out the scores or the negatives.")
    return groups


def _kind(group: SentenceGroup) -> str:
    kind = {2: "a pair", 3: "a triplet"}[len(group.texts)]
    return f"{kind} {'without a' if group.score is None else 'with a'} score"
