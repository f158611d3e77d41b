"""Turns text files, which may be larger than memory, into TFRecord shards of BERT examples with a manifest.

The steps are the other modules of this package: `documents.py` (files → blocks), `units.py` (blocks → units of work),
`sentences.py`, `pairs.py` and `shards.py` (text → examples → files), `shard_maker.py` (all of these for one unit),
`workers.py` (on all cores), `reading.py` (files → `tf.data`). This module decides the order of writes, so that a run
that was killed can continue and ends with the same bytes as an uninterrupted one.
"""

import contextlib
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from keras_bert.pretraining.corpus.documents import CorpusError, find_files
from keras_bert.pretraining.corpus.manifest import (
    FILE,
    Manifest,
    Settings,
    describe,
    find_differences,
    load_manifest,
    read_json,
    write_manifest,
)
from keras_bert.pretraining.corpus.reading import read_examples
from keras_bert.pretraining.corpus.shards import cannot_write, write_json
from keras_bert.pretraining.corpus.units import Unit, group_files, read_units
from keras_bert.pretraining.corpus.workers import make_shards
from keras_bert.system.directory_claim import claimed
from keras_bert.system.progress import hides_bar

if TYPE_CHECKING:
    from keras_bert.text.tokenizer import BertTokenizer

__all__ = ["CorpusError", "Manifest", "load_manifest", "read_examples", "write_examples"]

_PROGRESS = ".progress"  # of an unfinished run: its description, and a report for each shard


def write_examples(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    output_directory: str | os.PathLike[str],
    tokenizer: Any,
    *,
    sequence_length: int = 128,
    short_sequence_rate: float = 0.1,
    pairs: str = "next_sentence",
    duplicates: int = 1,
    seed: int = 0,
    text_field: str = "text",
    shard_bytes: int = 1 << 23,
    workers: int | None = None,
    progress: bool = True,
    layout: str = "examples",
) -> Manifest:
    """Turn text files into shards of pretraining examples.

    A run that was killed continues where it stopped when it is started again with the same arguments. The result has
    the same bytes, also with another number of workers. Memory depends only on `shard_bytes` and `workers`.

    Args:
        files: Paths or patterns of plain text (a blank line between documents; a line end always ends a sentence) or
            `.jsonl` (one document per line), each also as `.gz`, `.bz2` or `.zst`. The encoding is UTF-8.
        output_directory: The directory to write to. It must be empty or belong to the same run.
        tokenizer: A `BertTokenizer`, or a vocabulary (path or list) for one with its default settings.
        sequence_length: The longest example, with special tokens.
        short_sequence_rate: The share of examples with a random shorter target length.
        pairs: `"next_sentence"` (half of the second segments are from another document), `"sentence_order"` (half of
            the pairs are swapped) or `"single"` (one segment).
        duplicates: The number of passes over every document, with other pairs each time. Masks are made during
            training, so 1 is enough unless the corpus is small.
        seed: Seed of all random choices.
        text_field: The field of a JSON object that holds the text.
        shard_bytes: The bytes of text in a shard.
        workers: The number of processes; `None` uses all cores, 1 works in this process.
        progress: Whether to show a progress bar.
        layout: `"examples"`, which `read_examples` reads, or rows of one width for `pretrain`, which need no parsing
            and are masked by the devices: `"padded"`, an example a row, or `"packed"`, as many as fit, for plans with
            `packed=True`.

    Returns:
        The `Manifest`, which is also written as `manifest.json`.

    Example:
        ```python
        manifest = write_examples("corpus/*.txt.gz", "examples", "vocab.txt", sequence_length=128)
        dataset = read_examples("examples", batch_size=32)
        ```
    """
    settings = Settings(sequence_length, short_sequence_rate, pairs, duplicates, seed, shard_bytes, text_field, layout)
    workers = _count_cores() if workers is None else workers
    if workers < 1:
        raise ValueError(f"workers={workers}; pass 1 or more, or None for all cores.")
    tokenizer = as_tokenizer(tokenizer)
    paths = find_files(files)
    description = describe(tokenizer, settings, paths)
    directory = os.fspath(output_directory)
    with _claim(directory):
        if _is_finished(directory, description):
            shutil.rmtree(os.path.join(directory, _PROGRESS), ignore_errors=True)
            return load_manifest(directory)
        _begin(directory, description)
        reports = _make_all(paths, tokenizer, settings, directory, workers, progress)
        manifest = write_manifest(directory, description, reports)
        shutil.rmtree(os.path.join(directory, _PROGRESS), ignore_errors=True)
    warn_of_losses(manifest)
    return manifest


def as_tokenizer(tokenizer: Any) -> "BertTokenizer":
    """Return a `BertTokenizer` as it is, or make one from a vocabulary; check that it has `[CLS]` and `[SEP]`."""
    from keras_bert.text.subword_tokenizer import SubwordTokenizer
    from keras_bert.text.tokenizer import BertTokenizer, require_wordpiece

    is_one = isinstance(tokenizer, SubwordTokenizer)
    tokenizer = require_wordpiece(tokenizer, "Pretraining") if is_one else BertTokenizer(tokenizer)
    missing = {"[CLS]", "[SEP]"} - set(tokenizer.vocabulary)
    if missing:
        raise CorpusError(f"The vocabulary has no {' and no '.join(sorted(missing))}; add them, examples need both.")
    return tokenizer


def warn_of_losses(manifest: Manifest) -> None:
    """Warn of bad lines and of text without sentence boundaries."""
    counts = manifest.counts
    if counts["bad_lines"]:
        warnings.warn(
            f"{counts['bad_lines']:,} bad lines were left out, the first: {manifest.bad_lines[0]}; more in {FILE}.",
            stacklevel=3,
        )
    if counts["cut_sentences"] > counts["sentences"] / 2:
        warnings.warn(
            f"{counts['cut_sentences']:,} of {counts['sentences']:,} sentences were longer than an example and cut "
            "anywhere: the text seems to have no sentence boundaries. Put each sentence on its own line.",
            stacklevel=3,
        )


def _count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def layout_there(directory: str | os.PathLike[str]) -> str | None:
    """Return the layout that a directory was begun with; `None` if it was not begun."""
    directory = os.fspath(directory)
    for path in (FILE, os.path.join(_PROGRESS, "description.json")):
        if (there := read_json(os.path.join(directory, path))) is not None:
            return str(there.get("settings", {}).get("layout", Settings.layout))
    return None


# === The directory ===


@contextlib.contextmanager
def _claim(directory: str) -> Iterator[None]:
    """Make the directory, and hold it against a second run."""
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(claimed(directory))
            probe = os.path.join(directory, _PROGRESS + ".writable")
            open(probe, "w").close()
            os.unlink(probe)
            held = stack.pop_all()
    except BlockingIOError as error:
        raise CorpusError(str(error)) from error
    except OSError as error:
        raise cannot_write(directory, error) from error
    with held:
        yield


def _is_finished(directory: str, description: dict[str, Any]) -> bool:
    there = read_json(os.path.join(directory, FILE))
    if there is None:
        return False
    _require_same(directory, there, description)
    shards = {shard["file"]: shard["bytes"] for shard in there["shards"]}
    return all(_size(os.path.join(directory, file)) == size for file, size in shards.items())


def _begin(directory: str, description: dict[str, Any]) -> None:
    """Write the description of the run, or check that it is the one that was begun here."""
    folder = os.path.join(directory, _PROGRESS)
    there = read_json(os.path.join(folder, "description.json"))
    names = os.listdir(directory)
    if there is not None:
        _require_same(directory, there, description)
    elif FILE not in names and (strangers := [name for name in names if name.endswith((".tfrecord", ".rows"))]):
        raise CorpusError(
            f"{directory} holds {len(strangers)} shards of unknown origin, such as {strangers[0]}; expected an empty "
            "directory: pass another one, or delete them."
        )
    for place in (directory, folder):
        for name in os.listdir(place) if os.path.isdir(place) else ():
            if name.endswith(".partial"):
                os.unlink(os.path.join(place, name))
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    write_json(os.path.join(folder, "description.json"), description)


def _require_same(directory: str, there: dict[str, Any], description: dict[str, Any]) -> None:
    if differences := find_differences(there, description):
        raise CorpusError(
            f"{directory} holds examples made in another way ({'; '.join(differences)}); pass another directory, or "
            "delete this one."
        )


def _size(path: str) -> int | None:
    return os.path.getsize(path) if os.path.isfile(path) else None


# === The work ===


def _make_all(
    paths: list[str], tokenizer: "BertTokenizer", settings: Settings, directory: str, workers: int, progress: bool
) -> list[dict[str, Any]]:
    """Make every shard that does not exist yet; return the reports of all shards."""
    groups = group_files(paths, settings.shard_bytes)
    reports: list[dict[str, Any]] = []
    examples = text_bytes = 0
    total = sum(os.path.getsize(path) for path in paths if "://" not in path) or None
    with tqdm(total=total, desc="examples", unit="B", unit_scale=True, disable=hides_bar(progress)) as bar:

        def note(unit: Unit, report: dict[str, Any]) -> None:
            nonlocal examples, text_bytes
            reports.append(report)
            examples += report["shard"]["examples"]
            text_bytes += unit.text_bytes
            rate = text_bytes / 1e6 / max(bar.format_dict["elapsed"], 1e-9)
            bar.set_postfix_str(f"{examples:,} examples, {rate:.1f} MB of text/s", refresh=False)
            bar.update(unit.read_bytes)

        def missing_units() -> Iterator[Unit]:
            for group in range(len(groups)):
                for unit in read_units(groups, group, settings.shard_bytes):
                    report = _find_report(directory, unit)
                    if report is None:
                        yield unit
                    else:
                        note(unit, report)

        for unit, report in make_shards(missing_units(), tokenizer, settings, directory, workers):
            write_json(_report_path(directory, unit), report)
            note(unit, report)
    return reports


def _find_report(directory: str, unit: Unit) -> dict[str, Any] | None:
    """The report of a complete shard that was made from this text; `None` if there is none."""
    report = read_json(_report_path(directory, unit))
    if report is None or _size(os.path.join(directory, report["shard"]["file"])) != report["shard"]["bytes"]:
        return None
    if report["checksum"] != unit.checksum:
        raise CorpusError(
            f"{unit.blocks[0].path} has changed since {directory} was begun; delete that directory and start again."
        )
    return report


def _report_path(directory: str, unit: Unit) -> str:
    return os.path.join(directory, _PROGRESS, f"{unit.name}.json")
