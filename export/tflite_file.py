"""The bytes of a `.tflite` file ⇄ what stands in them.

`describe` reads signatures, ops and tensor types without running or copying anything; `parse` and `serialize` are for
code that changes a file. No TensorFlow and no interpreter: the flatbuffers package and the schema's classes alone, so
that the device runtime can use it. A file that is cut short or is something else is a `ValueError`.
"""

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import flatbuffers
import numpy as np

IDENTIFIER = b"TFL3"

# What the generated readers raise when offsets lead nowhere.
_BROKEN = (struct.error, LookupError, TypeError, ValueError, AttributeError, MemoryError, OverflowError)


@dataclass(frozen=True)
class TensorInfo:
    """Shape and type of an input or output; −1 is a length that is known at run time."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Signature:
    """A named way into a file."""

    name: str
    subgraph: int
    inputs: Mapping[str, TensorInfo]
    outputs: Mapping[str, TensorInfo]


@dataclass(frozen=True)
class FileSummary:
    """What a file is made of.

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
    """Read a file, or its bytes.

    Example:
        >>> summary = describe("model.tflite")  # doctest: +SKIP
        >>> summary.ops["FULLY_CONNECTED"], [signature.name for signature in summary.signatures]  # doctest: +SKIP
        (38, ['length_128'])
    """
    content = _content(source)
    try:
        model = schema().Model.GetRootAs(content, 0)
        graphs = [model.Subgraphs(index) for index in range(model.SubgraphsLength())]
        names = [_op_name(model.OperatorCodes(index)) for index in range(model.OperatorCodesLength())]
        used = Counter(
            names[graph.Operators(index).OpcodeIndex()] for graph in graphs for index in range(graph.OperatorsLength())
        )
        signatures = tuple(_signature(model, index) for index in range(model.SignatureDefsLength()))
        sizes = _constant_sizes(model, graphs)
    except _BROKEN as error:
        raise ValueError(f"{_name(source)} is damaged or cut short: {error}; copy or export it again.") from error
    custom = tuple(sorted(name for name, is_custom in set(names) if is_custom))
    ops = {name: count for (name, _), count in used.most_common()}
    return FileSummary(signatures, len(graphs), ops, custom, sizes, len(content))


def parse(source: str | Path | bytes):
    """The file as the schema's mutable objects (`ModelT`), every buffer inline."""
    content = _content(source)
    try:
        model = schema().ModelT.InitFromObj(schema().Model.GetRootAs(content, 0))
        for buffer in model.buffers:
            # Some writers store large buffers behind the flatbuffer, at an offset of the file.
            if buffer.offset > 1:
                end = buffer.offset + buffer.size
                if end > len(content):
                    raise ValueError(f"a buffer ends at byte {end:,} of {len(content):,}")
                buffer.data = np.frombuffer(content, np.uint8, buffer.size, buffer.offset)
                buffer.offset = buffer.size = 0
    except _BROKEN as error:
        raise ValueError(f"{_name(source)} is damaged or cut short: {error}; copy or export it again.") from error
    return model


def serialize(model) -> bytes:
    """The bytes of a `ModelT`, every buffer inline."""
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def put_buffers_inline(content: bytes) -> bytes:
    """The same file with no buffer behind the flatbuffer, so that a zip with metadata can be appended.

    Files over 2 GB cannot be written so, which no BERT comes near.
    """
    content = _content(content)
    try:
        model = schema().Model.GetRootAs(content, 0)
        are_inline = all(model.Buffers(index).Offset() <= 1 for index in range(model.BuffersLength()))
    except _BROKEN as error:
        raise ValueError(f"{_name(content)} is damaged or cut short: {error}; copy or export it again.") from error
    return content if are_inline else serialize(parse(content))


def schema():
    """The schema's classes, from LiteRT, or from TensorFlow where LiteRT is not installed."""
    try:
        from ai_edge_litert import schema_py_generated
    except ImportError:
        from tensorflow.lite.python import schema_py_generated
    return schema_py_generated


def type_name(code: int) -> str:
    """`FLOAT32` for 0, and so on."""
    return _names(schema().TensorType)[code]


def _content(source):
    content = source if isinstance(source, bytes) else Path(source).read_bytes()
    if content[4:8] != IDENTIFIER:
        raise ValueError(f"{_name(source)} is not a TFLite file: it lacks the mark TFL3 at its start.")
    return content


def _name(source):
    return f"The file of {len(source):,} bytes" if isinstance(source, bytes) else str(source)


def _names(enum):
    return {value: name for name, value in vars(enum).items() if isinstance(value, int)}


def _op_name(code):
    """Name, and whether it is a custom op. Old writers fill the 8-bit field alone, new ones both."""
    builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    if builtin == schema().BuiltinOperator.CUSTOM:
        return (code.CustomCode() or b"").decode(errors="replace"), True
    return _names(schema().BuiltinOperator).get(builtin, f"BUILTIN_{builtin}"), False


def _signature(model, index):
    signature = model.SignatureDefs(index)
    graph = model.Subgraphs(signature.SubgraphIndex())

    def tensors(count, item):
        maps = (item(place) for place in range(count))
        return {entry.Name().decode(): _tensor_info(graph.Tensors(entry.TensorIndex())) for entry in maps}

    inputs = tensors(signature.InputsLength(), signature.Inputs)
    outputs = tensors(signature.OutputsLength(), signature.Outputs)
    return Signature(signature.SignatureKey().decode(), signature.SubgraphIndex(), inputs, outputs)


def _tensor_info(tensor):
    has_unknown = tensor.ShapeSignatureLength() > 0
    read, rank = (
        (tensor.ShapeSignature, tensor.ShapeSignatureLength()) if has_unknown else (tensor.Shape, tensor.ShapeLength())
    )
    return TensorInfo(tuple(int(read(axis)) for axis in range(rank)), type_name(tensor.Type()))


def _constant_sizes(model, graphs):
    """Bytes of constants by type; a buffer that signatures share counts once."""
    type_of = {}
    for graph in graphs:
        for index in range(graph.TensorsLength()):
            tensor = graph.Tensors(index)
            type_of[tensor.Buffer()] = type_name(tensor.Type())
    sizes = Counter()
    for index, name in type_of.items():
        buffer = model.Buffers(index)
        sizes[name] += buffer.Size() if buffer.Offset() > 1 else buffer.DataLength()
    return {name: size for name, size in sizes.most_common() if size}
