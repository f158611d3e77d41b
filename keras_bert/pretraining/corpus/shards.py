"""Writes examples into a file, as `tf.train.Example`s or as rows of one width; it is either complete or absent.

Takes ranges of tokens. An example has `token_ids` (with `[CLS]` and `[SEP]`, unpadded), `first_length` (the number of
tokens in segment 0) and `next_sentence_label`. Records are built from bytes: all ids are encoded at once, and a segment
is a slice of the result. That is much faster than filling protocol buffers one by one.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from keras_bert.pretraining.corpus.documents import CorpusError


@dataclasses.dataclass(frozen=True)
class Shard:
    """A file of examples, as the manifest lists it."""

    file: str
    bytes: int
    examples: int
    sha256: str


# === Records ===


def encode_examples(ids: np.ndarray, rows: np.ndarray, *, cls_id: int, sep_id: int) -> Iterator[bytes]:
    """Yield each row of `pairs.make_pairs` as a serialized `tf.train.Example`.

    ```python
    records = list(encode_examples(np.array([7, 8, 9]), np.array([[0, 2, 2, 3, 0]]), cls_id=1, sep_id=2))
    tf.train.Example.FromString(records[0]).features.feature["token_ids"].int64_list.value  # [1, 7, 8, 2, 9, 2]
    ```
    """
    data, offsets = _encode_varints(ids)
    cls, sep = _varint(cls_id), _varint(sep_id)
    labels = [_feature(b"next_sentence_label", _varint(label)) for label in (0, 1)]
    lengths = {}
    spans = offsets[rows[:, :4]].tolist()
    first_lengths = (rows[:, 1] - rows[:, 0] + 2).tolist()
    for (start, stop, second, second_end), length, label in zip(spans, first_lengths, rows[:, 4].tolist(), strict=True):
        if length not in lengths:
            lengths[length] = _feature(b"first_length", _varint(length))
        tokens = cls + data[start:stop] + sep
        if second_end > second:
            tokens += data[second:second_end] + sep
        features = lengths[length] + labels[label] + _feature(b"token_ids", tokens)
        yield _field(0x0A, features)


def _encode_varints(ids: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Encode ids as protocol buffers do, seven bits per byte; return the bytes and where each id begins."""
    ids = ids.astype(np.uint32)
    sizes = sum(((ids >= 1 << bits).astype(np.int64) for bits in (7, 14, 21)), start=np.ones(ids.shape, np.int64))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    encoded = np.empty(offsets[-1], np.uint8)
    for place in range(4):
        here = sizes > place
        more = (sizes[here] > place + 1).astype(np.uint32) << 7
        encoded[offsets[:-1][here] + place] = (ids[here] >> 7 * place & 0x7F) | more
    return encoded.tobytes(), offsets


@functools.lru_cache(maxsize=1 << 15)
def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _field(tag: int, data: bytes) -> bytes:
    return bytes([tag]) + _varint(len(data)) + data


def _feature(name: bytes, integers: bytes) -> bytes:
    """Encode one entry of the map in `tf.train.Features`: the name, and a `Feature` with an `Int64List`."""
    value = _field(0x1A, _field(0x0A, integers))
    return _field(0x0A, _field(0x0A, name) + _field(0x12, value))


# === Files ===


def write_shard(directory: str, name: str, records: Iterable[bytes]) -> Shard:
    """Write records to `<directory>/<name>.tfrecord`; the file appears under that name when it is complete."""
    import tensorflow as tf

    count = 0

    def write(partial: str) -> None:
        nonlocal count
        with tf.io.TFRecordWriter(partial) as writer:
            for record in records:
                writer.write(record)
                count += 1

    file, size, digest = _write_whole(join(directory, f"{name}.tfrecord"), write)
    return Shard(file, size, count, digest)


def write_rows(directory: str, name: str, rows: np.ndarray, examples: int) -> Shard:
    """Write the records of rows to `<directory>/<name>.rows`; the file appears under that name when it is complete."""
    import tensorflow as tf

    def write(partial: str) -> None:
        with tf.io.gfile.GFile(partial, "wb") as file:
            file.write(rows.tobytes())

    file, size, digest = _write_whole(join(directory, f"{name}.rows"), write)
    return Shard(file, size, examples, digest)


def _write_whole(final: str, write: Callable[[str], None]) -> tuple[str, int, str]:
    """Write a file under another name, and rename it; return its name, size and sha256."""
    import tensorflow as tf

    partial = f"{final}.{os.getpid()}.partial"
    try:
        write(partial)
        digest, size = _publish(partial, final)
    except (OSError, tf.errors.OpError) as error:
        with contextlib.suppress(OSError, tf.errors.OpError):
            tf.io.gfile.remove(partial)
        raise cannot_write(final, error) from error
    return os.path.basename(final), size, digest


def _publish(partial: str, final: str) -> tuple[str, int]:
    """Rename a file once it is safely on disk; return its sha256 and size."""
    import tensorflow as tf

    digest, size = hash_file(partial)
    _sync(partial)
    tf.io.gfile.rename(partial, final, overwrite=True)
    return digest, size


def hash_file(path: str) -> tuple[str, int]:
    """Compute the sha256 of a file, and its size."""
    import tensorflow as tf

    digest, size = hashlib.sha256(), 0
    with tf.io.gfile.GFile(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def write_json(path: str, values: dict[str, Any]) -> None:
    """Write a JSON object; the file is either complete or absent."""
    import tensorflow as tf

    partial = f"{path}.{os.getpid()}.partial"
    try:
        with tf.io.gfile.GFile(partial, "w") as file:
            file.write(json.dumps(values, indent=1, ensure_ascii=False) + "\n")
        _sync(partial)
        tf.io.gfile.rename(partial, path, overwrite=True)
    except (OSError, tf.errors.OpError) as error:
        with contextlib.suppress(OSError, tf.errors.OpError):
            tf.io.gfile.remove(partial)
        raise cannot_write(path, error) from error


def cannot_write(path: str, error: Exception) -> CorpusError:
    """The error for a file that cannot be written."""
    return CorpusError(
        f"Cannot write {path}: {error}. Make room on the disk, or pass a writable directory; a second run with the "
        "same arguments continues where this one stopped."
    )


def join(directory: str, name: str) -> str:
    """Join a directory and a file name; the directory may have a scheme such as `gs://`."""
    return f"{directory.rstrip('/')}/{name}" if "://" in directory else os.path.join(directory, name)


def _sync(path: str) -> None:
    """Wait until a file is on disk; file systems with a scheme do that themselves."""
    if "://" not in path:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
