"""Read commands with intents and slots from folders (`seq.in`, `seq.out`, `label`), JSONL or lists.

Takes paths, or texts with their intents and slots as `fit` takes them; gives `CommandRows`, a sequence of
`CommandExample` with `.report`.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert.data.examples import collect_rows, found_in
from keras_bert.data.tables import file_list, find_format, read_records
from keras_bert.tasks.tagging.files import TaggedExample, TaggedRows, make_example, named_or_error

_FILES = ("seq.in", "seq.out", "label")
_WORDS = ("text", "words", "tokens", "utterance")
_SLOTS = ("slots", "tags", "entities", "labels")
_INTENT = ("intent", "label")

# === Values ===


@dataclass(frozen=True)
class CommandExample(TaggedExample):
    """The words of a sentence, the tags of its slots, and its intent."""

    intent: str | None = None


@dataclass(frozen=True)
class CommandRows(TaggedRows[CommandExample]):
    """Commands with intents and slots.

    Example:
        >>> rows = as_commands(["wake me at six"], [("set_alarm", [(11, 14, "time")])])
        >>> rows.intents, rows.entity_kinds
        (['set_alarm'], ['time'])
    """

    @property
    def intents(self) -> list[str]:
        """The intents that occur, sorted, for `IntentSlots.from_pretrained(intents=…)`."""
        return sorted({example.intent for example in self.examples if example.intent is not None})


# === Files ===


def read_commands(
    path_or_paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    splitting: str = "words",
    strict: bool = False,
) -> CommandRows:
    """Read commands with intents and slots, and report every one that cannot be used.

    A folder has three files with one line per command, as ATIS and SNIPS: `seq.in` (words), `seq.out` (their
    tags) and `label` (the intent). A JSONL file has an object per line: `{"text": "wake me at six", "intent":
    "set_alarm", "slots": [{"start": 11, "end": 14, "label": "time"}]}`, or `tokens` with `tags`.

    Args:
        path_or_paths: A folder or a JSONL file, or several.
        splitting: How a text is split into words (see `split_words`) if slots are given by their offsets.
        strict: Whether to raise an error at the first bad row instead of reporting it.

    Example:
        >>> rows = read_commands("snips/train")  # doctest: +SKIP
        >>> print(rows.report)  # doctest: +SKIP
        13,084 rows read, 13,084 kept, 0 dropped
    """
    files = file_list(path_or_paths)

    def commands(path: Path) -> Iterator[tuple[int, CommandExample | str]]:
        return _read_folder(path) if path.is_dir() else _read_json(path, splitting)

    found = (one for path in files for one in found_in(path, commands(Path(path))))
    return collect_rows(CommandRows, found, files, what="command", strict=strict)


def _read_folder(folder: Path) -> Iterator[tuple[int, CommandExample | str]]:
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        parts = sorted(entry.name for entry in folder.iterdir() if (entry / _FILES[0]).is_file())
        hint = f"; it has the folders {', '.join(parts)}: pass one of them" if parts else ""
        raise FileNotFoundError(f"{folder} has no {', '.join(missing)}; expected {', '.join(_FILES)}{hint}.")
    lines = [_lines(folder / name) for name in _FILES]
    counts = [len(part) for part in lines]
    if len(set(counts)) > 1:
        named = ", ".join(f"{name} {count:,}" for name, count in zip(_FILES, counts, strict=True))
        raise ValueError(
            f"{folder}: the files have different numbers of lines ({named}); expected one line per command."
        )
    for number, (words, tags, intent) in enumerate(zip(*lines, strict=True), 1):
        yield number, make_command(words.split(), tags.split(), intent, row=number)


def _lines(path: Path) -> list[str]:
    # Undecodable bytes become surrogates, which make_example reports as invalid UTF-8.
    text = path.read_text(encoding="utf-8", errors="surrogateescape").removeprefix("\ufeff")
    return text.removesuffix("\n").split("\n")


def _read_json(path: Path, splitting: str) -> Iterator[tuple[int, CommandExample | str]]:
    if find_format(os.fspath(path)) not in ("jsonl", "json"):
        raise ValueError(f"{path}: expected a folder with {', '.join(_FILES)}, or a .jsonl file.")
    for record in read_records(os.fspath(path), format=find_format(os.fspath(path))):
        cells = record.cells
        if not isinstance(cells, dict):
            yield record.line, record.problem or "not a JSON object"
            continue
        keys = [next((key for key in known if key in cells), None) for known in (_WORDS, _SLOTS, _INTENT)]
        if None in keys:
            yield record.line, "no key " + " or ".join(map(repr, (_WORDS, _SLOTS, _INTENT)[keys.index(None)]))
            continue
        yield (
            record.line,
            make_command(*(cells[key] for key in keys if key is not None), row=record.line, splitting=splitting),
        )


# === Commands ===


def make_command(text: Any, slots: Any, intent: Any, *, row: int = 0, splitting: str = "words") -> CommandExample | str:
    """Make an example of words and tags, or of a text and its slots, with an intent; or return what is wrong."""
    intent = intent.strip() if isinstance(intent, str) else intent
    if not isinstance(intent, str) or not intent:
        return "missing intent"
    if isinstance(text, list | tuple) and isinstance(slots, list | tuple) and not slots:
        slots = ["O"] * len(text)  # words without slots
    found = make_example(text, slots, row=row, splitting=splitting)
    if isinstance(found, str):
        return found
    return CommandExample(found.words, found.tags, found.row, found.widened, intent)


def as_commands(x: Any, y: Any = None, *, splitting: str = "words") -> CommandRows:
    """Make rows of commands from texts with intents and slots, or from a path; `CommandRows` stay as they are.

    Args:
        x: Texts or lists of words; the path of a folder or JSONL file; `CommandRows` or a list of `CommandExample`;
            `Utterance` of the bundled data.
        y: For each text its intent and slots: `("set_alarm", [(11, 14, "time")])`, or `("set_alarm", ["O", …])`.
        splitting: How a text is split into words.
    """
    if isinstance(x, str | os.PathLike):
        return read_commands(x, splitting=splitting)
    if isinstance(x, CommandRows):
        return x
    x = list(x)
    if x and all(isinstance(item, CommandExample) for item in x):
        return collect_rows(CommandRows, x)
    if y is None and x and all(hasattr(item, "intent") and hasattr(item, "slots") for item in x):
        x, y = [item.text for item in x], [(item.intent, item.slots) for item in x]
    if y is None or len(x) != len(y):
        given = "no intents" if y is None else f"intents for {len(y):,}"
        raise ValueError(f"There are {len(x):,} texts and {given}; expected (intent, slots) for each text.")
    found = []
    for row, (text, answer) in enumerate(zip(x, y, strict=True), 1):
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise TypeError(f"Text {row} ({str(text)[:40]!r}) has {answer!r}; expected (intent, slots).")
        command = make_command(text, answer[1], answer[0], row=row, splitting=splitting)
        found.append(named_or_error("Text", row, text, command))
    nothing = f"All {len(x):,} texts are empty; expected at least one with words."
    return collect_rows(CommandRows, found, nothing=nothing)
