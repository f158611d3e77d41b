"""Files of documents: takes paths and patterns, gives blocks of whole documents, however large the files.

Plain text has a blank line between documents; JSONL has a document a line. Files may be `.gz`, `.bz2` or `.zst`. A
room of its own because here alone is known how documents lie in files. Blocks are bytes, so that one reader keeps many
workers busy: text is decoded by whoever works on a block, who can also name the line that is no text.
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

LONGEST_JSON_LINE = 1 << 26  # bytes; a line is parsed as a whole, so it has to fit into memory
BLANK_LINE = re.compile(rb"\n[ \t\r\f\v]*\n")
_JSON_SUFFIXES = (".jsonl", ".ndjson")
_COMPRESSED_SUFFIXES = (".gz", ".bz2", ".zst")


class CorpusError(ValueError):
    """A corpus, or a directory of examples, that cannot be used; the message says what is wrong and what to do."""


@dataclasses.dataclass(frozen=True)
class Block:
    """Whole documents of one file, or a part of one that is too long to hold, as bytes of UTF-8."""

    path: str
    line: int  # the number of its first line, from 1
    data: bytes
    continues: bool = False  # the document before goes on here
    ends: bool = True  # the last document ends here
    skipped_bytes: int = 0  # of a JSON line that is too long to hold

    @property
    def is_json(self) -> bool:
        """Whether it has a JSON object a line."""
        return _is_json(self.path)


# === Files ===


def find_files(files: str | os.PathLike | Iterable[str | os.PathLike]) -> list[str]:
    """Paths and patterns → paths, each once, those of a pattern in order.

    ```python
    find_files("corpus/**/*.txt.gz")
    ```
    """
    patterns = [files] if isinstance(files, str | os.PathLike) else list(files)
    if not patterns:
        raise CorpusError("files is empty; pass at least one text file or a pattern such as 'corpus/*.txt'.")
    found = {}  # a set that keeps the order
    for pattern in [os.fspath(pattern) for pattern in patterns]:
        paths = _match(pattern)
        if not paths:
            what = "is a directory" if os.path.isdir(pattern) else "matches no file"
            raise CorpusError(f"{pattern!r} {what}; pass existing text files or a pattern such as 'corpus/*.txt'.")
        found.update(dict.fromkeys(paths))
    return list(found)


def _match(pattern):
    if "://" in pattern:
        import tensorflow as tf

        return sorted(tf.io.gfile.glob(pattern))
    if os.path.isfile(pattern):
        return [pattern]
    return sorted(path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))


def file_size(path: str) -> int:
    """Bytes of a file, here or on a file system that TensorFlow knows by its scheme (`gs://`)."""
    if "://" in path:
        import tensorflow as tf

        return tf.io.gfile.stat(path).length
    return os.path.getsize(path)


def _is_json(path):
    stem = path.lower()
    for suffix in _COMPRESSED_SUFFIXES:
        stem = stem.removesuffix(suffix)
    return stem.endswith(_JSON_SUFFIXES)


def _open_raw(path):
    if "://" in path:
        import tensorflow as tf

        return tf.io.gfile.GFile(path, "rb")
    return open(path, "rb")


def _decompress(raw, path):
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
    """Yield a file's blocks, each with how far the file has been read.

    A document over `longest_document` bytes comes in parts, cut at a line end or, failing that, a space.
    """
    chunks = _read_chunks(path, block_bytes)
    return _cut_json(path, chunks) if _is_json(path) else _cut_text(path, chunks, longest_document)


def _cut_text(path, chunks, longest_document):
    rest, line, continues, position = b"", 1, False, 0
    for chunk, position in chunks:
        searched = max(0, rest.rfind(b"\n"))  # no blank line stands before
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


def _last_character(data):
    """Where the last character begins, if there is one that does not begin at 0."""
    start = len(data) - 1
    while start > max(0, len(data) - 4) and data[start] & 0xC0 == 0x80:
        start -= 1
    return start or len(data)


def _cut_json(path, chunks):
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


def _read_chunks(path, chunk_bytes):
    first = True
    with _open_raw(path) as raw, _say_what_broke(path):
        file = _decompress(raw, path)
        while chunk := file.read(chunk_bytes):
            if first and chunk.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise CorpusError(f"{path} is UTF-16 text; expected UTF-8: convert it (iconv -f UTF-16 -t UTF-8).")
            yield (chunk.removeprefix(b"\xef\xbb\xbf") if first else chunk), raw.tell()
            first = False


@contextlib.contextmanager
def _say_what_broke(path):
    try:
        yield
    except CorpusError:
        raise
    except Exception as error:
        is_zstd = type(error).__module__.partition(".")[0] == "zstandard"
        if is_zstd or isinstance(error, OSError | EOFError | zlib.error):
            raise CorpusError(f"{path} cannot be read to its end ({error}); mend it or leave it out.") from error
        raise
