"""Reads files of any size in blocks of whole documents.

Takes paths and patterns. Plain text has a blank line between documents; JSONL has one document per line. Files may be
`.gz`, `.bz2` or `.zst`. Blocks are bytes, so that one reader keeps many workers busy: the worker that gets a block
decodes it, and names lines that are not valid text.
"""

import bz2
import contextlib
import dataclasses
import glob
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

LONGEST_JSON_LINE = 1 << 26  # bytes; a line is parsed as a whole, so it has to fit into memory
BLANK_LINE = re.compile(rb"\n[ \t\r\f\v]*\n")
_JSON_SUFFIXES = (".jsonl", ".ndjson")
_COMPRESSED_SUFFIXES = (".gz", ".bz2", ".zst")


class CorpusError(ValueError):
    """A corpus, or a directory of examples, that cannot be used; the message says what is wrong and what to do."""


@dataclasses.dataclass(frozen=True)
class Block:
    """Whole documents of one file, or a part of a document that is too long for memory, as UTF-8 bytes."""

    path: str
    line: int  # the number of its first line, from 1
    data: bytes
    continues: bool = False  # begins within a document
    ends: bool = True  # the last document is complete
    skipped_bytes: int = 0  # of a JSON line that is too long for memory

    @property
    def is_json(self) -> bool:
        """Whether each line is a JSON object."""
        return _is_json(self.path)


# === Files ===


def find_files(files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """Find files by paths and patterns; each is listed once, those of a pattern in sorted order.

    ```python
    find_files("corpus/**/*.txt.gz")
    ```
    """
    patterns = [files] if isinstance(files, str | os.PathLike) else list(files)
    if not patterns:
        raise CorpusError("No files were given; pass at least one text file or a pattern such as 'corpus/*.txt'.")
    found = {}  # a set that keeps the order
    for pattern in [os.fspath(pattern) for pattern in patterns]:
        paths = _match(pattern)
        if not paths:
            what = "is a directory" if os.path.isdir(pattern) else "matches no file"
            raise CorpusError(f"{pattern!r} {what}; pass existing text files or a pattern such as 'corpus/*.txt'.")
        found.update(dict.fromkeys(paths))
    return list(found)


def _match(pattern: str) -> list[str]:
    if "://" in pattern:
        import tensorflow as tf

        return sorted(tf.io.gfile.glob(pattern))
    if os.path.isfile(pattern):
        return [pattern]
    return sorted(path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))


def file_size(path: str) -> int:
    """The size of a file in bytes; it may be on a file system that TensorFlow opens by its scheme (`gs://`)."""
    if "://" in path:
        import tensorflow as tf

        return tf.io.gfile.stat(path).length
    return os.path.getsize(path)


def _is_json(path: str) -> bool:
    stem = path.lower()
    for suffix in _COMPRESSED_SUFFIXES:
        stem = stem.removesuffix(suffix)
    return stem.endswith(_JSON_SUFFIXES)


def _open_raw(path: str) -> Any:
    if "://" in path:
        import tensorflow as tf

        return tf.io.gfile.GFile(path, "rb")
    return open(path, "rb")


def _decompress(raw: Any, path: str) -> Any:
    suffix = os.path.splitext(path.lower())[1]
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=raw)
    if suffix == ".bz2":
        return bz2.BZ2File(raw)
    if suffix == ".zst":
        try:
            import zstandard
        except ImportError as error:
            raise CorpusError(f"{path} needs the package zstandard: pip install 'keras-bert-edge[zst]'") from error
        reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        return io.BufferedReader(reader, 1 << 20)
    return raw


# === Blocks ===


def read_blocks(path: str, block_bytes: int, longest_document: int) -> Iterator[tuple[Block, int]]:
    """Yield the blocks of a file, each with the position up to which the file has been read.

    A document over `longest_document` bytes is cut into parts, at a line end if there is one, else at a space.
    """
    chunks = _read_chunks(path, block_bytes)
    return _cut_json(path, chunks) if _is_json(path) else _cut_text(path, chunks, longest_document)


def _cut_text(path: str, chunks: Iterator[tuple[bytes, int]], longest_document: int) -> Iterator[tuple[Block, int]]:
    rest, line, continues, position = b"", 1, False, 0
    for chunk, position in chunks:
        searched = max(0, rest.rfind(b"\n"))  # there is no blank line before this
        data = rest + chunk
        cut, ends = max((blank.end() for blank in BLANK_LINE.finditer(data, searched)), default=0), True
        if not cut and len(data) >= longest_document:
            cut, ends = data.rfind(b"\n") + 1 or data.rfind(b" ") + 1 or _last_character(data), False
        if cut:
            yield Block(path, line, data[:cut], continues, ends), position
            line += data.count(b"\n", 0, cut)
            continues = not ends
        rest = data[cut:]
    if rest:
        yield Block(path, line, rest, continues), position


def _last_character(data: bytes) -> int:
    """Where the last character begins, or the end of the data if that is 0."""
    start = len(data) - 1
    while start > max(0, len(data) - 4) and data[start] & 0xC0 == 0x80:
        start -= 1
    return start or len(data)


def _cut_json(path: str, chunks: Iterator[tuple[bytes, int]]) -> Iterator[tuple[Block, int]]:
    rest, line, skipped, position = b"", 1, 0, 0
    for chunk, position in chunks:
        data = rest + chunk
        if skipped and b"\n" in data:
            end = data.index(b"\n") + 1
            yield Block(path, line, b"", skipped_bytes=skipped + end), position
            line, data, skipped = line + 1, data[end:], 0
        cut = data.rfind(b"\n") + 1
        if cut:
            yield Block(path, line, data[:cut]), position
            line += data.count(b"\n", 0, cut)
        rest = data[cut:]
        if skipped or len(rest) > LONGEST_JSON_LINE:
            skipped, rest = skipped + len(rest), b""
    if rest or skipped:
        yield Block(path, line, rest, skipped_bytes=skipped), position


def _read_chunks(path: str, chunk_bytes: int) -> Iterator[tuple[bytes, int]]:
    first = True
    with _open_raw(path) as raw, _say_what_broke(path):
        file = _decompress(raw, path)
        while chunk := file.read(chunk_bytes):
            if first and chunk.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise CorpusError(f"{path} is UTF-16 text; expected UTF-8: convert it (iconv -f UTF-16 -t UTF-8).")
            yield (chunk.removeprefix(b"\xef\xbb\xbf") if first else chunk), raw.tell()
            first = False


@contextlib.contextmanager
def _say_what_broke(path: str) -> Iterator[None]:
    try:
        yield
    except CorpusError:
        raise
    except Exception as error:
        is_zstd = type(error).__module__.partition(".")[0] == "zstandard"
        if is_zstd or isinstance(error, OSError | EOFError | zlib.error):
            raise CorpusError(f"{path} cannot be read to its end ({error}); repair it or leave it out.") from error
        raise
