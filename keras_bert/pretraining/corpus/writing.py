"""The corpus: takes text files larger than memory, gives TFRecord shards of BERT examples with a manifest; reads them.

The public face of the files beside it, each of which is a step: `pretraining/corpus/documents.py` (files → blocks),
`pretraining/corpus/units.py` (blocks → units of work), `pretraining/corpus/sentences.py`,
`pretraining/corpus/pairs.py`, `pretraining/corpus/shards.py` (text → examples → files),
`pretraining/corpus/shard_maker.py` (all that for one unit), `pretraining/corpus/workers.py` (on all cores),
`pretraining/corpus/reading.py` (files → `tf.data`). What is left for here is the order of things on disk, so that a run
that was killed at any point goes on and ends with the same bytes as one that was not.
"""

import contextlib
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

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
from keras_bert.system.progress import hides_bar

__all__ = ["CorpusError", "Manifest", "load_manifest", "read_examples", "write_examples"]

_PROGRESS = ".progress"  # what a run that is not finished knows: its description, and a report of each shard


def write_examples(
    files: str | os.PathLike | Iterable[str | os.PathLike],
    output_directory: str | os.PathLike,
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
) -> Manifest:
    """Turn text files into shards of pretraining examples.

    Killed at any point and started again with the same arguments, it goes on where it stopped, and the result is the
    same to the byte; so it is with any number of workers. Memory depends on `shard_bytes` and `workers` alone.

    Args:
        files: Paths or patterns of plain text (a blank line between documents; a line end always ends a sentence) or
            `.jsonl` (a document a line), each also as `.gz`, `.bz2` or `.zst`. UTF-8.
        output_directory: Where to write; it may hold the beginning of the same work, and nothing else.
        tokenizer: A `BertTokenizer`, or a vocabulary (path or list) for one with its default settings.
        sequence_length: The longest example, with special tokens.
        short_sequence_rate: Which part of the examples aims at a random shorter length.
        pairs: `"next_sentence"` (half of the second segments are from another document), `"sentence_order"` (half of
            the pairs are swapped) or `"single"` (one segment).
        duplicates: How often to go through every document, with other pairs each time. Masks are drawn while
            training, so once is enough unless the corpus is small.
        seed: Of all that is random.
        text_field: The field of a JSON object that holds the text.
        shard_bytes: How much text goes into a shard.
        workers: How many processes; `None` takes all cores, 1 works in this process.
        progress: Whether to show a progress bar.

    Returns:
        The `Manifest`, which is also written as `manifest.json`.

    Example:
        ```python
        manifest = write_examples("corpus/*.txt.gz", "examples", "vocab.txt", sequence_length=128)
        dataset = read_examples("examples", batch_size=32)
        ```
    """
    settings = Settings(sequence_length, short_sequence_rate, pairs, duplicates, seed, shard_bytes, text_field)
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


def as_tokenizer(tokenizer: Any):
    """A `BertTokenizer` as it is, or one made of a vocabulary; with the special tokens that examples need."""
    from keras_bert.text.tokenizer import BertTokenizer

    tokenizer = tokenizer if isinstance(tokenizer, BertTokenizer) else BertTokenizer(tokenizer)
    missing = {"[CLS]", "[SEP]"} - set(tokenizer.vocabulary)
    if missing:
        raise CorpusError(f"The vocabulary has no {' and no '.join(sorted(missing))}; add them, examples need both.")
    return tokenizer


def warn_of_losses(manifest: Manifest) -> None:
    """Say aloud what nobody may overlook in a manifest."""
    counts = manifest.counts
    if counts["bad_lines"]:
        warnings.warn(
            f"{counts['bad_lines']:,} bad lines were left out, the first: {manifest.bad_lines[0]}; more in {FILE}.",
            stacklevel=3,
        )
    if counts["cut_sentences"] > counts["sentences"] / 2:
        warnings.warn(
            f"{counts['cut_sentences']:,} of {counts['sentences']:,} sentences were longer than an example and cut "
            "anywhere: the text seems to have no sentence boundaries. Put each sentence on a line of its own.",
            stacklevel=3,
        )


def _count_cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# === The directory ===


@contextlib.contextmanager
def _claim(directory) -> Iterator[None]:
    """Make the directory, and let no second run into it."""
    lock = os.path.join(directory, _PROGRESS + ".lock")
    try:
        os.makedirs(directory, exist_ok=True)
        file = open(lock, "w")  # noqa: SIM115 - it is closed below, after all other work
    except OSError as error:
        raise cannot_write(directory, error) from error
    with file:
        _lock(file, directory)
        yield
        with contextlib.suppress(OSError):  # Windows keeps a file that is open
            os.unlink(lock)


def _lock(file, directory):
    try:
        import fcntl
    except ImportError:  # Windows: two runs in one directory are the user's own care
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise CorpusError(f"Another run is writing to {directory}; wait for it, or pass another directory.") from error


def _is_finished(directory, description):
    there = read_json(os.path.join(directory, FILE))
    if there is None:
        return False
    _require_same(directory, there, description)
    shards = {shard["file"]: shard["bytes"] for shard in there["shards"]}
    return all(_size(os.path.join(directory, file)) == size for file, size in shards.items())


def _begin(directory, description):
    """Note what is going to be done, or see that it is what was begun."""
    folder = os.path.join(directory, _PROGRESS)
    there = read_json(os.path.join(folder, "description.json"))
    names = os.listdir(directory)
    if there is not None:
        _require_same(directory, there, description)
    elif FILE not in names and (strangers := [name for name in names if name.endswith(".tfrecord")]):
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


def _require_same(directory, there, description):
    if differences := find_differences(there, description):
        raise CorpusError(
            f"{directory} holds examples made otherwise ({'; '.join(differences)}); pass another directory, or delete "
            "this one."
        )


def _size(path):
    return os.path.getsize(path) if os.path.isfile(path) else None


# === The work ===


def _make_all(paths, tokenizer, settings, directory, workers, progress) -> list[dict[str, Any]]:
    """Make every shard that is not there yet; return the reports of all."""
    groups = group_files(paths, settings.shard_bytes)
    reports, examples, text_bytes = [], 0, 0
    total = sum(os.path.getsize(path) for path in paths if "://" not in path) or None
    with tqdm(total=total, desc="examples", unit="B", unit_scale=True, disable=hides_bar(progress)) as bar:

        def note(unit, report):
            nonlocal examples, text_bytes
            reports.append(report)
            examples += report["shard"]["examples"]
            text_bytes += unit.text_bytes
            rate = text_bytes / 1e6 / max(bar.format_dict["elapsed"], 1e-9)
            bar.set_postfix_str(f"{examples:,} examples, {rate:.1f} MB of text/s", refresh=False)
            bar.update(unit.read_bytes)

        def missing_units():
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


def _find_report(directory, unit: Unit) -> dict[str, Any] | None:
    """The report of a shard that is there, whole, and made of this very text."""
    report = read_json(_report_path(directory, unit))
    if report is None or _size(os.path.join(directory, report["shard"]["file"])) != report["shard"]["bytes"]:
        return None
    if report["checksum"] != unit.checksum:
        raise CorpusError(
            f"{unit.blocks[0].path} has changed since {directory} was begun; delete that directory and start again."
        )
    return report


def _report_path(directory, unit):
    return os.path.join(directory, _PROGRESS, f"{unit.name}.json")
