"""Read sentences of words with tags from CoNLL columns, JSONL and lists.

Takes paths, or words and tags as `fit` takes them; gives `TaggedRows`, a sequence of `TaggedExample` with `.report`.
One bad line of a CoNLL file drops its whole sentence: without it, the words around it would become neighbours.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from keras_bert.data.examples import Dropped, Rows, collect_rows, found_in
from keras_bert.data.tables import file_list, find_format, read_records
from keras_bert.decoding.tags import span_tags, split_tag
from keras_bert.tasks.tagging.schemes import entity_kinds
from keras_bert.text.words import split_words

_JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
_TEXT_KEYS, _LABEL_KEYS = ("words", "tokens", "text"), ("tags", "ner_tags", "entities", "spans", "labels", "label")
_SURROGATE = re.compile("[\ud800-\udfff]")

# === Values ===


@dataclass(frozen=True)
class TaggedExample:
    """The words of a sentence and a tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    row: int = 0  # the line in its file where it begins, from 1
    widened: int = 0  # entities that began or ended inside a word


Tagged = TypeVar("Tagged", bound=TaggedExample)


@dataclass(frozen=True)
class TaggedRows(Rows[Tagged]):
    """Sentences with tags.

    Example:
        >>> rows = as_tagged_rows([["Ada", "ran"]], [["B-PER", "O"]])
        >>> len(rows), rows[0].words, rows.entity_kinds
        (1, ('Ada', 'ran'), ['PER'])
    """

    @property
    def words(self) -> list[tuple[str, ...]]:
        """The words of every sentence."""
        return [example.words for example in self.examples]

    @property
    def tags(self) -> list[tuple[str, ...] | None]:
        """The tags of every sentence; `None` if there are none."""
        return [example.tags for example in self.examples]

    @property
    def entity_kinds(self) -> list[str]:
        """The kinds of entities that occur, sorted, for `EntityTagger.from_pretrained(labels=…)`."""
        return sorted(entity_kinds({tag for tags in self.tags for tag in tags or ()}))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what was dropped or changed."""
        notes = (str(self.report),) if self.report.dropped else ()
        widened = sum(example.widened for example in self.examples)
        if widened:
            notes += (f"{widened:,} entities begin or end inside a word; they were widened to whole words",)
        return notes


# === Files ===


def read_tagged(
    path_or_paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    text: str | int | None = None,
    label: str | int | None = None,
    format: str | None = None,
    splitting: str = "words",
    strict: bool = False,
) -> TaggedRows[TaggedExample]:
    """Read sentences with tags, and report every sentence that cannot be used.

    A CoNLL file has one word per line with its tag, separated by tabs or spaces, and a blank line between sentences;
    `-DOCSTART-` lines and comments are left out. A JSONL file has an object per line, with words and tags or with a
    text and its entities: `{"tokens": ["Ada", "ran"], "tags": ["B-PER", "O"]}` or `{"text": "Ada ran", "entities":
    [{"start": 0, "end": 3, "label": "PER"}]}`. In Prodigy's files, whose tokens are objects, the text and its `spans`
    are used; examples that were not accepted are dropped.

    Args:
        path_or_paths: One file or several, gzipped or not. A file that is not .jsonl, .ndjson or .json is CoNLL.
        text: The column of the words, from 0 (default: the first), or the key of the words or the text.
        label: The column of the tags (default: the last), or the key of the tags or the entities.
        format: `"conll"`, `"jsonl"` or `"json"`; `None` decides by the ending.
        splitting: How a text is split into words (see `split_words`) if entities are given by their offsets.
        strict: Whether to raise an error at the first bad line instead of reporting it.

    Example:
        >>> rows = read_tagged("wnut17train.conll")  # doctest: +SKIP
        >>> print(rows.report)  # doctest: +SKIP
        3,394 rows read, 3,394 kept, 0 dropped
    """
    files = file_list(path_or_paths)

    def sentences(path: str) -> Iterator[tuple[int, TaggedExample | str]]:
        kind = _find_format(path, format)
        return _conll(path, text, label) if kind == "conll" else _json(path, kind, text, label, splitting)

    found = (one for path in files for one in found_in(path, sentences(path)))
    return collect_rows(TaggedRows, found, files, what="sentence", strict=strict)


def _find_format(path: str, format: str | None) -> str:
    if format not in (None, "conll", "jsonl", "json"):
        raise ValueError(f"format={format!r}: expected 'conll', 'jsonl' or 'json'.")
    if format is None and path.lower().removesuffix(".gz").endswith(_JSON_ENDINGS):
        return find_format(path)
    return format or "conll"


def _conll(path: str, word: Any, tag: Any) -> Iterator[tuple[int, TaggedExample | str]]:
    """Give for each sentence its first line and the example, or the bad line and what is wrong with it."""
    word, tag = 0 if word is None else word, -1 if tag is None else tag
    if not isinstance(word, int) or not isinstance(tag, int):
        raise TypeError(f"text={word!r}, label={tag!r}: the columns of {path} have no names; pass numbers from 0.")
    begin, fault = 0, None
    words: list[str] = []
    tags: list[str] = []
    for record in (*read_records(path, format="tsv"), None):
        cells: list[str] = [] if record is None else list(record.cells or ())
        if len(cells) == 1:
            cells = re.split(" +", cells[0].rstrip(" "))
        if record is not None and any(cells):
            if cells[0].startswith("-DOCSTART-") or _is_comment(cells, tag):
                continue
            begin = begin or record.line
            fault = fault or _read_line(cells, word, tag, words, tags, record.line)
            continue
        if begin:
            example = make_example(words, tags, row=begin)
            yield fault or (begin, example)
        begin, words, tags, fault = 0, [], [], None


def _is_comment(cells: list[str], tag: int) -> bool:
    has_tag = len(cells) > 1 and -len(cells) <= tag < len(cells) and split_tag(cells[tag])
    return cells[0].startswith("#") and not has_tag


def _read_line(
    cells: list[str], word: int, tag: int, words: list[str], tags: list[str], line: int
) -> tuple[int, str] | None:
    if len(cells) < 2 or max(word, tag) >= len(cells) or min(word, tag) < -len(cells):
        return line, "line without a tag"
    if not split_tag(cells[tag]):
        return line, f"unknown tag {cells[tag][:20]!r}"
    words.append(cells[word])
    tags.append(cells[tag])
    return None


def _json(
    path: str, format: str, text: str | int | None, label: str | int | None, splitting: str
) -> Iterator[tuple[int, TaggedExample | str]]:
    for record in read_records(path, format=format):
        if not isinstance(record.cells, dict):
            yield record.line, record.problem or "not a JSON object"
            continue
        cells = record.cells
        if text is None and _is_prodigy(cells):
            if cells.get("answer", "accept") != "accept":
                yield record.line, f"answer is {str(cells['answer'])[:20]!r}"
                continue
            cells = {"text": cells["text"], "spans": [], **{key: cells[key] for key in _LABEL_KEYS if key in cells}}
        keys = _key(cells, text, _TEXT_KEYS), _key(cells, label, _LABEL_KEYS)
        if None in keys:
            yield record.line, "no key " + " or ".join(map(repr, (_TEXT_KEYS, _LABEL_KEYS)[keys.index(None)]))
            continue
        yield record.line, make_example(*(cells[key] for key in keys), row=record.line, splitting=splitting)


def _is_prodigy(cells: dict[Any, Any]) -> bool:
    tokens = cells.get("tokens")
    has_objects = isinstance(tokens, list) and any(isinstance(token, dict) for token in tokens)
    return has_objects and isinstance(cells.get("text"), str)


def _key(cells: dict[Any, Any], asked: Any, known: Sequence[str]) -> Any:
    return next((key for key in ([asked] if asked is not None else known) if key in cells), None)


# === Sentences ===


def as_tagged_rows(x: Any, y: Any = None, *, splitting: str = "words", **columns: Any) -> TaggedRows[TaggedExample]:
    """Make rows from words and tags, from texts and entities, or from a file; `TaggedRows` stay as they are.

    Args:
        x: Lists of words; or texts, as strings; or the path of a file; or `TaggedRows`, or a list of `TaggedExample`.
        y: For each its tags; or, for a text, its entities: `(start, end, label)`, a dictionary or object with these.
        splitting: How a text is split into words.
        columns: Arguments of `read_tagged`, for a file.

    Example:
        >>> as_tagged_rows(["Ada ran"], [[(0, 3, "PER")]])[0].tags
        ('B-PER', 'O')
    """
    if isinstance(x, str | os.PathLike):
        return read_tagged(x, splitting=splitting, **columns)
    if columns:
        raise ValueError(f"columns={columns} are for files, and x is a {type(x).__name__}; leave them out.")
    if isinstance(x, TaggedRows):
        return x
    x = list(x)
    if x and all(isinstance(item, TaggedExample) for item in x):
        return collect_rows(TaggedRows, x)
    if y is None or len(x) != len(y):
        given = "no tags" if y is None else f"tags for {len(y):,}"
        raise ValueError(f"There are {len(x):,} sentences and {given}; expected the tags of each sentence.")
    found = [
        named_or_error("Sentence", row, both[0], make_example(*both, row=row, splitting=splitting))
        for row, both in enumerate(zip(x, y, strict=True), 1)
    ]
    nothing = f"All {len(x):,} sentences are empty; expected at least one with words."
    return collect_rows(TaggedRows, found, nothing=nothing)


def named_or_error(what: str, row: int, text: Any, found: Tagged | str) -> Tagged | Dropped:
    """Return the example of a value. An empty text is dropped, as in files; anything else that is wrong is an error.

    Args:
        what: What a row is called in the error.
        row: Its number, from 1.
        text: The value; the error shows its beginning.
        found: The example, or what is wrong.
    """
    if found == "empty text":
        return Dropped(found, "", row)
    if isinstance(found, str):
        raise ValueError(f"{what} {row} ({str(text)[:40]!r}): {found}.")
    return found


def make_example(text: Any, labels: Any, *, row: int = 0, splitting: str = "words") -> TaggedExample | str:
    """Make an example of words and tags, or of a text and its entities; or return what is wrong."""
    text, labels = (value.tolist() if isinstance(value, np.ndarray) else value for value in (text, labels))
    labels = labels.split() if isinstance(labels, str) else labels
    if not isinstance(labels, Sequence):
        return "missing label"
    is_tagged = all(isinstance(label, str) for label in labels)
    if isinstance(text, str) and not (is_tagged and labels):
        return _from_entities(text, labels, row, splitting)
    words = tuple(text.split() if isinstance(text, str) else text) if isinstance(text, Sequence) else None
    if words is None or not all(isinstance(word, str) for word in words):
        return "text is neither a string nor a list of words"
    if not any(word.strip() for word in words):
        return "empty text"
    if not is_tagged:
        return "a tag is no string"
    if len(words) != len(labels):
        return f"{len(words)} words and {len(labels)} tags"
    unknown = next((tag for tag in labels if not split_tag(tag)), None)
    if unknown is not None:
        return f"unknown tag {unknown[:20]!r}"
    if any(_SURROGATE.search(word) for word in words):
        return "invalid UTF-8"
    return TaggedExample(words, tuple(labels), row)


def _from_entities(text: str, entities: Sequence[Any], row: int, splitting: str) -> TaggedExample | str:
    """Tag the words of a text by its entities. An entity that begins or ends inside a word is widened to the word."""
    if not text.strip():
        return "empty text"
    if _SURROGATE.search(text):
        return "invalid UTF-8"
    found = [_place(entity) for entity in entities]
    places = sorted(place for place in found if place is not None)
    if len(places) < len(found):
        return "an entity is no (start, end, label)"
    if any(not 0 <= start < end <= len(text) for start, end, _ in places):
        return "an entity lies outside of its text"
    if any(before[1] > after[0] for before, after in pairwise(places)):
        return "entities overlap"
    words, widened = split_words(text, splitting), 0
    spans: list[tuple[str, int, int]] = []
    for start, end, kind in places:
        inside = [index for index, (_, first, last) in enumerate(words) if first < end and last > start]
        if not inside or (spans and inside[0] < spans[-1][2]):
            return "an entity holds no word" if not inside else "entities share a word"
        widened += words[inside[0]][1] < start or words[inside[-1]][2] > end
        spans.append((kind, inside[0], inside[-1] + 1))
    return TaggedExample(tuple(word for word, _, _ in words), tuple(span_tags(spans, len(words))), row, widened)


def _place(entity: Any) -> tuple[int, int, str] | None:
    """Start, end and label of an entity in any form; `None` if one is missing."""
    if isinstance(entity, dict):
        start = entity.get("start", entity.get("start_offset"))
        end = entity.get("end", entity.get("end_offset"))
        kind = entity.get("label", entity.get("type", entity.get("entity")))
    elif isinstance(entity, list | tuple) and len(entity) == 3:
        start, end, kind = entity
    else:
        start, end = getattr(entity, "start", None), getattr(entity, "end", None)
        kind = getattr(entity, "label", getattr(entity, "name", None))
    if not isinstance(start, int) or not isinstance(end, int) or not isinstance(kind, str) or not kind:
        return None
    return start, end, kind
