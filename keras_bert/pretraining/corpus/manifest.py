"""Writes and reads the manifest of a directory of examples: how they were made, and what there is.

Takes settings and the reports of all shards, gives one JSON file; takes that file, gives a `Manifest`. The file has no
date and no duration: the same corpus and settings give the same bytes.
"""

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from keras_bert.pretraining.corpus.documents import CorpusError, file_size
from keras_bert.pretraining.corpus.pairs import KINDS
from keras_bert.pretraining.corpus.shards import Shard, join, write_json
from keras_bert.pretraining.rows.layout import LAYOUTS

if TYPE_CHECKING:
    from keras_bert.text.tokenizer import BertTokenizer

FILE = "manifest.json"
BAD_LINES_NAMED = 100
_FORMAT = 1
_LEAST_LENGTH = 8


@dataclasses.dataclass(frozen=True)
class Settings:
    """All settings that decide what is in the shards, besides the corpus and the tokenizer."""

    sequence_length: int = 128
    short_sequence_rate: float = 0.1
    pairs: str = "next_sentence"
    duplicates: int = 1
    seed: int = 0
    shard_bytes: int = 1 << 23
    text_field: str = "text"
    layout: str = "examples"

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout={self.layout!r}; pass one of {', '.join(map(repr, LAYOUTS))}.")
        if self.pairs not in KINDS:
            raise ValueError(f"pairs={self.pairs!r}; pass one of {', '.join(map(repr, KINDS))}.")
        if self.sequence_length < _LEAST_LENGTH:
            raise ValueError(f"sequence_length={self.sequence_length} is too short; use {_LEAST_LENGTH} or more.")
        if not 0 <= self.short_sequence_rate <= 1:
            raise ValueError(f"short_sequence_rate={self.short_sequence_rate}; pass a number from 0 to 1.")
        if self.duplicates < 1 or self.shard_bytes < 1:
            raise ValueError(
                f"duplicates={self.duplicates}, shard_bytes={self.shard_bytes}; both have to be 1 or more."
            )


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The contents of a directory of examples. It prints as a small table.

    ```python
    manifest = load_manifest("examples")
    manifest.examples, manifest.tokens, manifest.settings.sequence_length
    ```
    """

    vocabulary_sha256: str
    vocabulary_size: int
    tokenizer: dict[str, Any]  # its settings
    settings: Settings
    files: tuple[tuple[str, int], ...]  # the corpus: paths and their bytes
    counts: dict[str, int]
    bad_lines: tuple[str, ...]  # the first ones: file:line and what is wrong
    shards: tuple[Shard, ...]

    @property
    def examples(self) -> int:
        """How many examples there are."""
        return self.counts["examples"]

    @property
    def tokens(self) -> int:
        """How many tokens they have, special tokens included."""
        return self.counts["tokens"]

    def __str__(self) -> str:
        rows = [("shards", len(self.shards)), *self.counts.items()]
        lines = [f"{name.replace('_', ' '):26}{count:>16,}" for name, count in rows]
        return "\n".join(lines + [f"  {line}" for line in self.bad_lines[:3]])


def describe(tokenizer: "BertTokenizer", settings: Settings, paths: list[str]) -> dict[str, Any]:
    """Describe a run as a value for JSON: two runs with the same description write the same bytes."""
    config, values = tokenizer.get_config(), dataclasses.asdict(settings)
    if values["layout"] == Settings.layout:  # which earlier versions did not name
        del values["layout"]
    return {
        "format": _FORMAT,
        "vocabulary_sha256": hash_vocabulary(config["vocabulary"]),
        "vocabulary_size": len(config.pop("vocabulary")),
        "tokenizer": config,
        "settings": values,
        "files": [[path, file_size(path)] for path in paths],
    }


def hash_vocabulary(tokens: Iterable[str]) -> str:
    """The sha256 of the tokens: that of a `vocab.txt` with one token per line.

    >>> hash_vocabulary(["a", "b"]) == hashlib.sha256(b"a\\nb\\n").hexdigest()
    True
    """
    return hashlib.sha256("".join(f"{token}\n" for token in tokens).encode()).hexdigest()


def find_differences(there: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """List the differences between two descriptions."""
    flat_there = {**there, **there.get("settings", {}), **there.get("tokenizer", {})}
    flat_wanted = {**wanted, **wanted["settings"], **wanted["tokenizer"]}
    names = [name for name in {**flat_there, **flat_wanted} if name in flat_wanted or name == "layout"]
    names = [name for name in names if name not in ("settings", "tokenizer")]
    found = []
    for name in names:
        default = Settings.layout if name == "layout" else None
        old, new = flat_there.get(name, default), flat_wanted.get(name, default)
        if old != new:
            found.append(f"{name}: {_shorten(old)} there, {_shorten(new)} asked for")
    return found


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


# === JSON ===


def write_manifest(directory: str, description: dict[str, Any], reports: Iterable[dict[str, Any]]) -> Manifest:
    """Add up the reports of all shards, in the order of their names, and write the manifest."""
    reports = sorted(reports, key=lambda report: report["shard"]["file"])
    counts: Counter[str] = Counter()
    bad_lines: list[str] = []
    for report in reports:
        counts.update(report["counts"])
        bad_lines += report["bad_lines"]
    if not counts["examples"]:
        found = f"{counts['text_bytes']:,} bytes, {counts['documents']:,} documents, {counts['bad_lines']:,} bad lines"
        hint = f" The first bad line: {bad_lines[0]}" if bad_lines else ""
        raise CorpusError(
            f"No example could be made from {len(description['files'])} file(s) with {found}; expected UTF-8 text with "
            f"a blank line between documents, or .jsonl with a field {description['settings']['text_field']!r}.{hint}"
        )
    shards = [report["shard"] for report in reports if report["shard"]["examples"]]
    values = description | {"counts": dict(counts), "bad_lines": bad_lines[:BAD_LINES_NAMED], "shards": shards}
    write_json(join(directory, FILE), values)
    return load_manifest(directory)


def load_manifest(directory: str) -> Manifest:
    """Read the manifest of a directory of examples.

    ```python
    print(load_manifest("examples"))
    ```
    """
    values = read_json(join(str(directory), FILE))
    if values is None:
        raise CorpusError(
            f"{directory} has no {FILE}; pass a directory that write_examples has finished, or run it again."
        )
    if values.get("format") != _FORMAT:
        raise CorpusError(
            f"{directory}/{FILE} has format {values.get('format')!r}, expected {_FORMAT}; write the examples again."
        )
    values.pop("format")
    try:
        return _from_values(values)
    except (TypeError, KeyError, ValueError) as error:
        raise CorpusError(
            f"{directory}/{FILE} is damaged, or was not written by write_examples ({error}); write the examples again."
        ) from error


def _from_values(values: dict[str, Any]) -> Manifest:
    """The manifest of a file that may hold anything; a TypeError, KeyError or ValueError says what is wrong."""
    settings = Settings(**_typed(values.pop("settings"), Settings()))
    shards = tuple(Shard(**_typed(shard, Shard("", 0, 0, ""))) for shard in values.pop("shards"))
    for shard in shards:
        if shard.file in ("", ".", "..") or "/" in shard.file or "\\" in shard.file:
            raise ValueError(f"{shard.file!r} is no name of a file beside it")
    files, bad_lines = tuple(map(tuple, values.pop("files"))), tuple(values.pop("bad_lines"))
    empty = {"vocabulary_sha256": "", "vocabulary_size": 0, "tokenizer": {}, "counts": {}}
    for name, example in empty.items():
        _check_type(name, values[name], example)
    for name in ("examples", "tokens", *values["counts"]):
        _check_type(name, values["counts"][name], 0)
    return Manifest(settings=settings, shards=shards, files=files, bad_lines=bad_lines, **values)


def _typed(values: Any, example: Any) -> dict[str, Any]:
    """The fields of a dataclass, each of the type that it has in an example."""
    _check_type(type(example).__name__, values, {})
    for name, value in values.items():
        _check_type(name, value, getattr(example, name, value))
    return values


def _check_type(name: str, value: Any, example: Any) -> None:
    wanted = (int, float) if isinstance(example, float) else type(example)
    if not isinstance(value, wanted) or isinstance(value, bool) != isinstance(example, bool):
        raise TypeError(f"{name} is {_shorten(value)}; expected something like {example!r}")


def read_json(path: str) -> dict[str, Any] | None:
    """Read the JSON object of a file; `None` if there is no such file."""
    import tensorflow as tf

    if not tf.io.gfile.exists(path):
        return None
    try:
        with tf.io.gfile.GFile(path) as file:
            values = json.loads(file.read())
        if not isinstance(values, dict):
            raise ValueError(f"it holds {_shorten(values)}, expected an object")
        return values
    except (ValueError, RecursionError, tf.errors.OpError) as error:
        raise CorpusError(f"{path} cannot be read ({error}); the file is damaged: write the examples again.") from error
