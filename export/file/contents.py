"""Read what is in a `.tflite` file, and write a changed one.

`describe` and `read_signatures` read signatures, ops and tensor types without running or copying anything. `parse` and
`serialize` are for code that changes a file (`file/parsed.py` has the types); they need the schema's generated classes,
but no TensorFlow and no interpreter. A file that is cut short or of another format raises a `ValueError`.
"""

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import flatbuffers
import numpy as np

from export.file.parsed import TFLiteFile
from export.file.tables import IDENTIFIER, FileTable, Table

T = TypeVar("T")
# The errors that the generated readers raise for invalid offsets.
_BROKEN = (struct.error, LookupError, TypeError, ValueError, AttributeError, MemoryError, OverflowError)


@dataclass(frozen=True)
class TensorInfo:
    """The shape and type of an input or output; −1 is a length that is known only at run time."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Signature:
    """A named function of a file, with its inputs and outputs."""

    name: str
    subgraph: int
    inputs: Mapping[str, TensorInfo]
    outputs: Mapping[str, TensorInfo]


@dataclass(frozen=True)
class FileSummary:
    """The contents of a file.

    `ops` counts the ops of all signatures by name (custom ones by their own name), `bytes_by_type` the bytes of the
    constants.
    """

    signatures: tuple[Signature, ...]
    num_subgraphs: int
    ops: Mapping[str, int]
    custom_ops: tuple[str, ...]
    bytes_by_type: Mapping[str, int]
    num_bytes: int


def describe(source: str | Path | bytes) -> FileSummary:
    """Describe a file, or its bytes.

    Example:
        >>> summary = describe("model.tflite")  # doctest: +SKIP
        >>> summary.ops["FULLY_CONNECTED"], [signature.name for signature in summary.signatures]  # doctest: +SKIP
        (38, ['length_128'])
    """
    content = _content(source)
    try:
        root = FileTable(content)
        names = [_op_name(code) for code in root.operator_codes]
        used = Counter(
            _at(names, operator.number(0, "<I"), "an op of kind")
            for graph in root.subgraphs
            for operator in graph.operators
        )
        signatures = tuple(_signature(root, table) for table in root.signatures)
        sizes = _constant_sizes(root)
    except ValueError as error:
        raise _damaged(source, error) from None
    custom = tuple(sorted(name for name, is_custom in set(names) if is_custom))
    ops = {name: count for (name, _), count in used.most_common()}
    return FileSummary(signatures, len(root.subgraphs), ops, custom, sizes, len(content))


def read_signatures(content: bytes) -> list[Signature]:
    """Read the signatures of a file in the order of its subgraphs; raise an error unless each has one.

    Example:
        >>> [signature.name for signature in read_signatures(content)]  # doctest: +SKIP
        ['length_32', 'length_128']
    """
    content = _content(content)
    try:
        root, found = FileTable(content), {}
        for signature in (_signature(root, table) for table in root.signatures):
            graph = root.subgraphs[signature.subgraph]
            if len(signature.inputs) != len(graph.inputs) or len(signature.outputs) != len(graph.outputs):
                raise ValueError(f"Signature {signature.name!r} has no name for some tensors of its subgraph")
            found[signature.subgraph] = signature
    except ValueError as error:
        raise _damaged(content, error) from None
    if not found or not len(found) == len(root.subgraphs) == len(root.signatures):
        raise ValueError(
            f"The file has {len(root.subgraphs)} subgraphs and {len(root.signatures)} signatures; expected one "
            "signature for each, as export.convert writes them."
        )
    return [found[index] for index in sorted(found)]


def parse(source: str | Path | bytes) -> TFLiteFile:
    """Parse a file into the schema's mutable objects, with every buffer inline."""
    content = _content(source)
    try:
        file: TFLiteFile = schema().ModelT.InitFromObj(schema().Model.GetRootAs(content, 0))
        for buffer in file.buffers:
            # Some writers store large buffers after the flatbuffer, at an offset in the file.
            if buffer.offset > 1:
                end = buffer.offset + buffer.size
                if end > len(content):
                    raise ValueError(f"A buffer ends at byte {end:,} of {len(content):,}")
                buffer.data = np.frombuffer(content, np.uint8, buffer.size, buffer.offset)
                buffer.offset = buffer.size = 0
    except _BROKEN as error:
        raise _damaged(source, error) from error
    return file


def serialize(file: TFLiteFile) -> bytes:
    """Write a parsed file to bytes, with every buffer inline."""
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(file.Pack(builder), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def put_buffers_inline(content: bytes) -> bytes:
    """Move buffers that are stored after the flatbuffer into it, so that a zip with metadata can be appended.

    Files over 2 GB cannot be written in this way.
    """
    content = _content(content)
    try:
        are_inline = all(buffer.number(1, "<Q") <= 1 for buffer in FileTable(content).buffers)
    except ValueError as error:
        raise _damaged(content, error) from None
    return content if are_inline else serialize(parse(content))


def schema() -> ModuleType:
    """The schema's classes, from LiteRT, or from TensorFlow if LiteRT is not installed."""
    try:
        from ai_edge_litert import schema_py_generated
    except ImportError:
        from tensorflow.lite.python import schema_py_generated
    return schema_py_generated


def type_name(code: int) -> str:
    """The name of a tensor type, such as `FLOAT32` for 0."""
    return _names(schema().TensorType).get(code, f"TYPE_{code}")


def _content(source: str | Path | bytes) -> bytes:
    content = source if isinstance(source, bytes) else Path(source).read_bytes()
    if content[4:8] != IDENTIFIER:
        raise ValueError(f"{_name(source)} is not a TFLite file: it lacks the mark TFL3 at its start.")
    return content


def _name(source: str | Path | bytes) -> str:
    return f"The file of {len(source):,} bytes" if isinstance(source, bytes) else str(source)


def _damaged(source: str | Path | bytes, error: Exception) -> ValueError:
    return ValueError(f"{_name(source)} is damaged or cut short: {error}; copy or export it again.")


# === Reading ===


def _names(enum: type) -> dict[int, str]:
    return {value: name for name, value in vars(enum).items() if isinstance(value, int)}


def _at(items: Sequence[T], index: int, what: str) -> T:
    if not 0 <= index < len(items):
        raise ValueError(f"It has {what} {index}, of {len(items)}")
    return items[index]


def _op_name(code: Table) -> tuple[str, bool]:
    """The name of an op, and whether it is custom. Old writers fill only the 8-bit field, new ones both."""
    builtin = max(code.number(3, "<i"), code.number(0, "<b"))
    if builtin == schema().BuiltinOperator.CUSTOM:
        return code.text(1), True
    return _names(schema().BuiltinOperator).get(builtin, f"BUILTIN_{builtin}"), False


def _signature(root: FileTable, table: Table) -> Signature:
    subgraph = table.number(4, "<I")
    graph = _at(root.subgraphs, subgraph, f"a signature {table.text(2)!r} of subgraph")

    def tensors(field: int, indices: tuple[int, ...]) -> dict[str, TensorInfo]:
        """Tensors by their names in the signature, in the order of the subgraph, which may be another."""
        named = {entry.text(0): entry.number(1, "<I") for entry in table.tables(field)}
        order = {index: place for place, index in enumerate(indices)}
        return {
            name: _tensor_info(_at(graph.tensors, named[name], "a tensor"))
            for name in sorted(named, key=lambda name: order.get(named[name], len(order)))
        }

    return Signature(table.text(2), subgraph, tensors(0, graph.inputs), tensors(1, graph.outputs))


def _tensor_info(tensor: Table) -> TensorInfo:
    # Dynamic dimensions are in shape_signature; if it is empty, the shape is fixed.
    return TensorInfo(tensor.numbers(7) or tensor.numbers(0), type_name(tensor.number(1, "<b")))


def _constant_sizes(root: FileTable) -> dict[str, int]:
    """The bytes of constants by type; a buffer that signatures share counts once."""
    types = {
        tensor.number(2, "<I"): type_name(tensor.number(1, "<b"))
        for graph in root.subgraphs
        for tensor in graph.tensors
    }
    sizes: Counter[str] = Counter()
    for index, name in types.items():
        buffer = _at(root.buffers, index, "a tensor of buffer")
        sizes[name] += buffer.number(2, "<Q") if buffer.number(1, "<Q") > 1 else len(buffer.vector(0, item_size=1))
    return {name: size for name, size in sizes.most_common() if size}
