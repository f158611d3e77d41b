"""Reads and writes Google's TF1 checkpoints: `bert_config.json` and `bert_model.ckpt.*`.

TensorFlow reads and writes the files. It is imported late, so that the rest of the package works with JAX alone. Its
reader ends the process where an index is damaged in certain ways, so that `check_index` looks at each first.
"""

import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from keras_bert.checkpoint.configs import Settings, read_google, write_google
from keras_bert.checkpoint.files import CheckpointError, name_list, read_json, write_json
from keras_bert.checkpoint.stored_weights import Checkpoint, Stored, ToStore

CONFIG, WEIGHTS = "bert_config.json", "bert_model.ckpt"

# Training also stores the optimizer's moments and counters.
_TRAINING_STATE = re.compile(r".*/(adam_m|adam_v|Adam|Adam_1|lamb_m|lamb_v)|global_step|beta[12]_power")

# === Reading ===


def open_google(directory: Path) -> Checkpoint:
    """Open the checkpoint in a directory as Google publishes BERT."""
    import tensorflow as tf

    settings = read_google(read_json(directory / CONFIG), directory / CONFIG)
    prefix = str(_find_prefix(directory))
    with _readable(prefix):
        check_index(prefix)
        reader = tf.train.load_checkpoint(prefix)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()

    def reading(name: str) -> Callable[[], np.ndarray]:
        def read() -> np.ndarray:
            with _readable(prefix):
                return reader.get_tensor(name)

        return read

    stored = {
        name: Stored(tuple(shape), dtypes[name].name, reading(name))
        for name, shape in shapes.items()
        if not _TRAINING_STATE.fullmatch(name)
    }
    return Checkpoint(directory, "google", settings, stored, {})


def _find_prefix(directory: Path) -> Path:
    if (directory / f"{WEIGHTS}.index").is_file():
        return directory / WEIGHTS
    others = sorted(path.name for path in directory.glob("*.ckpt*.index"))
    if len(others) != 1:
        found = name_list(others) if others else "none"
        raise CheckpointError(
            f"{directory} has no {WEIGHTS}.index, and of other *.ckpt*.index files: {found}. Expected one "
            "checkpoint; copy the one you want, with its .data file and bert_config.json, to another directory."
        )
    return directory / others[0].removesuffix(".index")


class _readable:
    """Replaces TensorFlow's errors about a checkpoint by one that names the file and says what to do."""

    def __init__(self, prefix: str):
        self.prefix = prefix

    def __enter__(self) -> "_readable":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import tensorflow as tf

        if isinstance(error, (tf.errors.OpError, IndexError, OSError, RuntimeError, ValueError)):
            raise CheckpointError(
                f"{self.prefix}.* is not a complete TensorFlow checkpoint ({error}); a file is missing, cut off "
                "or damaged: download or write it again."
            ) from error


# === The index ===
# A sorted table, as LevelDB writes it: blocks of keys with values, a block with the place of each, and a footer with
# the place of that. The values are messages of TensorFlow.

_FOOTER, _MAGIC, _TRAILER = 48, 0xDB4775248B80FB57, 5
_MOST_BYTES, _MOST_SHARDS, _LONGEST = 1 << 40, 1 << 16, 4096


def check_index(prefix: str) -> None:
    """Raise a ValueError if the index of a checkpoint is damaged, or says what its data files do not have.

    Example:
        ```python
        check_index("uncased_L-12_H-768_A-12/bert_model.ckpt")
        ```
    """
    content = Path(f"{prefix}.index").read_bytes()
    try:
        rows = list(_read_table(content))
    except (IndexError, struct.error) as error:
        raise ValueError(f"the index is cut off ({error})") from None
    _check(bool(rows) and rows[0][0] == b"", "the index has no header")
    header = _message("BundleHeaderProto", rows[0][1])
    _check(0 < header.num_shards <= _MOST_SHARDS, f"the header names {header.num_shards} files of data")
    _check(header.endianness == 0, "the numbers are in big-endian order")
    sizes = {}
    for key, value in rows[1:]:
        name, entry = key.decode("utf-8"), _message("BundleEntryProto", value)
        _check(0 <= entry.shard_id < header.num_shards, f"{name} is in file {entry.shard_id} of {header.num_shards}")
        path = f"{prefix}.data-{entry.shard_id:05d}-of-{header.num_shards:05d}"
        if path not in sizes:
            sizes[path] = Path(path).stat().st_size
        _check_entry(name, entry, sizes[path])


def _check_entry(name: str, entry: Any, size: int) -> None:
    import tensorflow as tf

    _check(not entry.slices, f"{name} is stored in slices; expected whole variables")
    _check(not entry.shape.unknown_rank, f"{name} has no shape")
    shape = [dimension.size for dimension in entry.shape.dim]
    _check(len(shape) < 255 and all(length >= 0 for length in shape), f"{name} has the shape {shape[:8]}")
    _check(math.prod(max(1, length) for length in shape) < _MOST_BYTES, f"{name} has the shape {shape[:8]}")
    _check(
        entry.offset >= 0 and entry.size >= 0 and entry.offset + entry.size <= size, f"{name} is cut off in its data"
    )
    try:
        dtype = tf.dtypes.as_dtype(entry.dtype)
    except TypeError:
        raise ValueError(f"{name} has the type {entry.dtype}, which does not exist") from None
    if dtype.is_floating or dtype.is_integer:
        _check(entry.size == math.prod(shape) * dtype.size, f"{name} has {entry.size:,} bytes for the shape {shape}")


def _message(kind: str, content: bytes) -> Any:
    from tensorflow.core.protobuf import tensor_bundle_pb2

    try:
        return getattr(tensor_bundle_pb2, kind).FromString(content)
    except Exception as error:  # protobuf's own
        raise ValueError(f"the index holds a damaged message ({error})") from None


def _read_table(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values, sorted by their keys."""
    _check(len(content) >= _FOOTER + _TRAILER, f"the index has {len(content)} bytes")
    _check(struct.unpack("<Q", content[-8:])[0] == _MAGIC, "the index does not end as one does")
    content, footer = content[:-_FOOTER], content[-_FOOTER:]
    _, place = _read_place(footer, 0)  # of a block about other blocks, which is empty
    first, _ = _read_place(footer, place)
    before: bytes | None = None
    for last, found in _read_block(content, first):
        place_of_block, end = _read_place(found, 0)
        _check(end == len(found), "the place of a block is damaged")
        for key, value in _read_block(content, place_of_block):
            _check((before is None or before < key) and key <= last, "the names are not in order")
            before = key
            yield key, value


def _read_block(content: bytes, place: tuple[int, int]) -> Iterator[tuple[bytes, bytes]]:
    offset, size = place
    _check(offset + size + _TRAILER <= len(content), "a block is cut off")
    _check(content[offset + size] == 0, "the index is compressed; expected one as TensorFlow writes it")
    block = content[offset : offset + size]
    (count,) = struct.unpack("<I", block[-4:])
    end = size - 4 * (count + 1)
    _check(count > 0 and end >= 0, "a block is cut off")
    restarts, starts = set(struct.unpack(f"<{count}I", block[end:-4])), {0}
    key, at = b"", 0
    while at < end:
        begin = at
        shared, at = _read_varint(block, at)
        own, at = _read_varint(block, at)
        length, at = _read_varint(block, at)
        _check(shared <= len(key) and shared + own <= _LONGEST and at + own + length <= end, "a name is damaged")
        if shared == 0:
            starts.add(begin)
        key, at = key[:shared] + block[at : at + own], at + own
        yield key, block[at : at + length]
        at += length
    _check(restarts <= starts, "the places of names are damaged")


def _read_place(content: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = _read_varint(content, at)
    size, at = _read_varint(content, at)
    return (offset, size), at


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = content[at]
        number, at, shift = number | (byte & 127) << shift, at + 1, shift + 7
        if not byte & 128:
            return number, at
        _check(shift < 64, "a number is damaged")


def _check(is_right: bool, what: str) -> None:
    if not is_right:
        raise ValueError(what)


# === Writing ===


def write_weights(directory: Path, settings: Settings, arrays: Mapping[str, ToStore]) -> None:
    """Write `bert_config.json` and `bert_model.ckpt.*`; `arrays` has each shape and a function that reads it."""
    import tensorflow as tf

    write_json(directory / CONFIG, write_google(settings))
    tf.raw_ops.SaveV2(
        prefix=str(directory / WEIGHTS),
        tensor_names=list(arrays),
        shape_and_slices=[""] * len(arrays),
        tensors=[tf.constant(read(), tf.float32) for _, read in arrays.values()],
    )
