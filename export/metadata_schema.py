"""The flatbuffer side of metadata: what a `.tflite` file says of itself, and a table more in it.

Takes the bytes of a TFLite file, gives its signatures and the same file with a `TFLITE_METADATA` buffer; and builds the
`ModelMetadata` table that MediaPipe and the Task Library read. A room of its own because it knows the numbers of fields
in two flatbuffer schemas, and nothing else does. `flatbuffers` alone, no TensorFlow.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import flatbuffers

METADATA_NAME = "TFLITE_METADATA"
# BertTokenizerOptions came with this version of the metadata schema; older readers say so instead of guessing.
MIN_PARSER_VERSION = "1.1.0"
_MODEL_IDENTIFIER, _METADATA_IDENTIFIER = b"TFL3", b"M001"
_ALIGNMENT = 64  # weights are aligned to 16 bytes; a multiple of it keeps every offset in the old file as it is

# Fields of TFLite's tables, by their order in schema.fbs. What stands in a model past the eighth is about other files.
_VERSION, _SUBGRAPHS, _BUFFERS, _METADATA, _SIGNATURES, _MODEL_FIELDS = 0, 2, 4, 6, 7, 8

# Of the metadata schema's enums.
AXIS_LABELS, VOCABULARY = 2, 5
_BERT_TOKENIZER = 4


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: its name in the signature and its shape, with −1 for a dimension that is open."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Signature:
    """A signature; inputs and outputs stand in the order of the subgraph, which is not the signature's."""

    key: str
    subgraph: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


# === Reading a TFLite file ===


class _Table:
    """A flatbuffer table, read with every offset checked against the end of the file."""

    def __init__(self, data: bytes, position: int):
        self.data, self.position = data, position
        self.vtable = position - _number("<i", data, position)
        self.num_fields = (_number("<H", data, self.vtable) - 4) // 2

    def field(self, slot):
        """Where a field stands, or None where it has its default."""
        offset = _number("<H", self.data, self.vtable + 4 + 2 * slot) if slot < self.num_fields else 0
        return self.position + offset if offset else None

    def number(self, slot, layout, default=0):
        position = self.field(slot)
        return default if position is None else _number(layout, self.data, position)

    def target(self, slot):
        """What an offset field points to, or None."""
        position = self.field(slot)
        return None if position is None else position + _number("<I", self.data, position)

    def vector(self, slot, item_size=4):
        """The positions of a vector's items."""
        start = self.target(slot)
        if start is None:
            return range(0)
        count = _number("<I", self.data, start)
        _check_range(self.data, start + 4, count * item_size)
        return range(start + 4, start + 4 + count * item_size, item_size)

    def numbers(self, slot):
        return tuple(_number("<i", self.data, position) for position in self.vector(slot))

    def tables(self, slot):
        return [_Table(self.data, item + _number("<I", self.data, item)) for item in self.vector(slot)]

    def text(self, slot):
        characters = self.vector(slot, item_size=1)
        return self.data[characters.start : characters.stop].decode("utf-8", "replace")


def _check_range(data, position, size):
    if position < 0 or position + size > len(data):
        raise ValueError(
            f"The TFLite file points to byte {position + size:,} of its {len(data):,}: it was cut short or is damaged."
        )


def _number(layout, data, position):
    _check_range(data, position, struct.calcsize(layout))
    return struct.unpack_from(layout, data, position)[0]


def _root(model):
    if len(model) < 8 or model[4:8] != _MODEL_IDENTIFIER:
        raise ValueError(f"The bytes begin with {bytes(model[:8])!r}; a TFLite file has TFL3 at byte 4.")
    return _Table(model, _number("<I", model, 0))


def read_signatures(model: bytes) -> list[Signature]:
    """The signatures of a TFLite file, one for each subgraph, in the order of the subgraphs.

    Example:
        >>> [signature.key for signature in read_signatures(content)]  # doctest: +SKIP
        ['length_32', 'length_128']
    """
    root = _root(model)
    subgraphs, found = root.tables(_SUBGRAPHS), {}
    for signature in root.tables(_SIGNATURES):
        key, index = signature.text(2), signature.number(4, "<I")
        if index >= len(subgraphs) or index in found:
            raise ValueError(f"Signature {key!r} is for subgraph {index}; expected one signature for each subgraph.")
        tensors = subgraphs[index].tables(0)
        inputs, outputs = (
            _in_order(subgraphs[index].numbers(slot + 1), signature.tables(slot), tensors, key) for slot in (0, 1)
        )
        found[index] = Signature(key, index, inputs, outputs)
    if not found or len(found) != len(subgraphs):
        raise ValueError(
            f"The file has {len(subgraphs)} subgraphs and {len(found)} signatures; expected one signature for each, "
            "as export.convert writes them."
        )
    return [found[index] for index in range(len(subgraphs))]


def _in_order(indices, tensor_maps, tensors, key):
    """The subgraph's tensors by the names that the signature gives them."""
    names = {tensor_map.number(1, "<I"): tensor_map.text(0) for tensor_map in tensor_maps}
    unnamed = [index for index in indices if index not in names or not 0 <= index < len(tensors)]
    if unnamed:
        raise ValueError(f"Signature {key!r} has no name for the tensors {unnamed} of its subgraph.")
    # A dimension that is open stands in shape_signature; where there is none, the shape is all.
    return tuple(TensorSpec(names[i], tensors[i].numbers(7) or tensors[i].numbers(0)) for i in indices)


# === Writing into a TFLite file ===


def insert_metadata(model: bytes, metadata: bytes) -> bytes:
    """The same file with a `TFLITE_METADATA` buffer.

    Flatbuffers are built from their end to their beginning, and offsets point forwards. So the old file becomes the
    end of a new one, untouched, behind a new root that points into it: no weight is parsed, and no field gets lost.
    """
    root = _root(model)
    _check_insertable(root)
    builder = flatbuffers.Builder(len(model) + len(metadata) + (1 << 16))
    builder.Prep(_ALIGNMENT, len(model))
    _place(builder, model)
    end = builder.Offset()  # the builder counts from the end: what stood at byte p is now at end − p

    def old_tables(slot):
        return [end - table.position for table in root.tables(slot)]

    buffers, entries = old_tables(_BUFFERS), old_tables(_METADATA)
    builder.StartVector(1, len(metadata), 16)
    _place(builder, metadata)
    buffers.append(_write_table(builder, {0: _Offset(builder.EndVector())}))
    # The number of the buffer is the one field that is no byte; 0 would be the empty buffer that every file has.
    name = builder.CreateString(METADATA_NAME)
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    builder.PrependUint32Slot(1, len(buffers) - 1, 0)
    entries.append(builder.EndObject())

    slots = [slot for slot in range(1, min(root.num_fields, _MODEL_FIELDS)) if root.field(slot) is not None]
    moved = {slot: end - root.target(slot) for slot in slots}
    moved |= {_BUFFERS: _write_vector(builder, buffers), _METADATA: _write_vector(builder, entries)}
    builder.StartObject(_MODEL_FIELDS)
    builder.PrependUint32Slot(_VERSION, root.number(_VERSION, "<I"), 0)
    for slot, offset in moved.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    builder.Finish(builder.EndObject(), _MODEL_IDENTIFIER)
    return bytes(builder.Output())


def _check_insertable(root):
    if any(len(root.vector(slot)) for slot in range(_MODEL_FIELDS, root.num_fields)):
        raise ValueError("The weights are in files of their own; an app needs them in one. Convert without that.")
    if METADATA_NAME in [entry.text(0) for entry in root.tables(_METADATA)]:
        raise ValueError("The file has metadata already; add metadata to the file as the converter wrote it.")
    for number, buffer in enumerate(root.tables(_BUFFERS)):
        if buffer.number(1, "<Q") > 1 or buffer.number(2, "<Q") > 1:
            raise ValueError(
                f"Buffer {number} is stored behind the flatbuffer, as ai-edge-quantizer does, at an offset that "
                "metadata would shift; put the buffers inline first."
            )


# === Writing tables ===


class _Offset(int):
    """Something that the builder has written already."""


def _place(builder, content):
    builder.head -= len(content)
    builder.Bytes[builder.head : builder.head + len(content)] = content


def _write_vector(builder, offsets):
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def _write_table(builder, table):
    """A table from a dictionary: number of the field → text, table, list of tables, or the number of an enum."""
    writers = {
        str: builder.CreateString,
        dict: lambda value: _write_table(builder, value),
        list: lambda value: _write_vector(builder, [_write_table(builder, item) for item in value]),
        _Offset: int,
    }
    offsets = {slot: writers[type(value)](value) for slot, value in table.items() if type(value) in writers}
    builder.StartObject(max(table) + 1)
    for slot, value in table.items():
        if slot in offsets:
            builder.PrependUOffsetTRelativeSlot(slot, offsets[slot], 0)
        else:
            builder.PrependUint8Slot(slot, value, 0)
    return builder.EndObject()


def associated_file(name: str, description: str, kind: int) -> dict:
    """`AssociatedFile`: a file in the archive behind the model."""
    return {0: name, 1: description, 2: kind}


def tensor(name: str, description: str, files: Sequence[dict] = ()) -> dict:
    """`TensorMetadata`: what an input or output is called, and the files that go with it."""
    return {0: name, 1: description} | ({6: list(files)} if files else {})


def subgraph(name: str, inputs: list[dict], outputs: list[dict], *, vocabulary: dict | None) -> dict:
    """`SubGraphMetadata`: a graph's tensors, and BERT's tokenizer before it where there is a vocabulary."""
    table = {0: name, 2: inputs, 3: outputs}
    return table | ({5: [{0: _BERT_TOKENIZER, 1: {0: [vocabulary]}}]} if vocabulary else {})


def model_metadata(name: str, description: str, subgraphs: list[dict]) -> bytes:
    """The `ModelMetadata` flatbuffer."""
    builder = flatbuffers.Builder(4096)
    root = _write_table(builder, {0: name, 1: description, 3: subgraphs, 7: MIN_PARSER_VERSION})
    builder.Finish(root, _METADATA_IDENTIFIER)
    return bytes(builder.Output())
