"""Write the metadata table of a `.tflite` file, in the format of MediaPipe and the Task Library.

`insert_metadata` adds a `TFLITE_METADATA` buffer to the bytes of a file; `model_metadata` builds the `ModelMetadata`
table. Only this module knows the field numbers of the metadata schema. It needs `flatbuffers`, but no TensorFlow.
"""

from collections.abc import Sequence
from typing import Any

import flatbuffers

from export.file.tables import IDENTIFIER, FileTable

METADATA_NAME = "TFLITE_METADATA"
# BertTokenizerOptions came with this version of the metadata schema; older readers refuse the file.
MIN_PARSER_VERSION = "1.1.0"
_METADATA_IDENTIFIER = b"M001"
_ALIGNMENT = 64  # weights are aligned to 16 bytes; a multiple keeps all offsets of the old file valid

# The fields of the root table after the eighth are about other files.
_FILE_FIELDS = 8

# Values of the metadata schema's enums.
AXIS_LABELS, VOCABULARY = 2, 5
_BERT_TOKENIZER = 4


# === Writing into a TFLite file ===


def insert_metadata(content: bytes, metadata: bytes) -> bytes:
    """Add a `TFLITE_METADATA` buffer to a file.

    Flatbuffers are built from their end to their beginning, and offsets point forwards. So the old file becomes the end
    of a new one, unchanged, after a new root that points into it. No weight is parsed, and no field is lost.
    """
    root = FileTable(content)
    _check_insertable(root)
    builder = flatbuffers.Builder(len(content) + len(metadata) + (1 << 16))
    builder.Prep(_ALIGNMENT, len(content))
    _place(builder, content)
    end = builder.Offset()  # the builder counts from the end: byte p of the old file is now at end − p

    buffers, entries = ([end - table.position for table in root.tables(slot)] for slot in (root.BUFFERS, root.METADATA))
    builder.StartVector(1, len(metadata), 16)
    _place(builder, metadata)
    buffers.append(_write_table(builder, {0: _Offset(builder.EndVector())}))
    # The number of the buffer is the only field that is not a byte; 0 would be the empty buffer of every file.
    name = builder.CreateString(METADATA_NAME)
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    builder.PrependUint32Slot(1, len(buffers) - 1, 0)
    entries.append(builder.EndObject())

    slots = [slot for slot in range(1, min(root.num_fields, _FILE_FIELDS)) if root.place(slot) is not None]
    moved = {slot: end - root.target(slot) for slot in slots}
    moved |= {root.BUFFERS: _write_vector(builder, buffers), root.METADATA: _write_vector(builder, entries)}
    builder.StartObject(_FILE_FIELDS)
    builder.PrependUint32Slot(root.VERSION, root.number(root.VERSION, "<I"), 0)
    for slot, offset in moved.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    builder.Finish(builder.EndObject(), IDENTIFIER)
    return bytes(builder.Output())


def _check_insertable(root: FileTable) -> None:
    if any(len(root.vector(slot)) for slot in range(_FILE_FIELDS, root.num_fields)):
        raise ValueError(
            "The weights are in separate files; an app needs them in one file. Convert it without external weights."
        )
    if METADATA_NAME in [entry.text(0) for entry in root.tables(root.METADATA)]:
        raise ValueError("The file has metadata already; add metadata to the file as the converter wrote it.")
    for number, buffer in enumerate(root.buffers):
        if buffer.number(1, "<Q") > 1 or buffer.number(2, "<Q") > 1:
            raise ValueError(
                f"Buffer {number} is stored after the flatbuffer, as ai-edge-quantizer does, at an offset that "
                "metadata would shift; put the buffers inline first."
            )


# === Writing tables ===


class _Offset(int):
    """The offset of something that the builder has written already."""


def _place(builder: flatbuffers.Builder, content: bytes) -> None:
    builder.head -= len(content)
    builder.Bytes[builder.head : builder.head + len(content)] = content


def _write_vector(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def _write_table(builder: flatbuffers.Builder, table: dict[int, Any]) -> int:
    """Write a table from a dictionary of field numbers: text, table, list of tables, or the number of an enum."""
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


def associated_file(name: str, description: str, kind: int) -> dict[int, Any]:
    """`AssociatedFile`: a file in the archive after the flatbuffer."""
    return {0: name, 1: description, 2: kind}


def tensor(name: str, description: str, files: Sequence[dict[int, Any]] = ()) -> dict[int, Any]:
    """`TensorMetadata`: the name of an input or output, and the files that belong to it."""
    return {0: name, 1: description} | ({6: list(files)} if files else {})


def subgraph(
    name: str, inputs: list[dict[int, Any]], outputs: list[dict[int, Any]], *, vocabulary: dict[int, Any] | None
) -> dict[int, Any]:
    """`SubGraphMetadata`: a graph's tensors, with BERT's tokenizer if there is a vocabulary."""
    table = {0: name, 2: inputs, 3: outputs}
    return table | ({5: [{0: _BERT_TOKENIZER, 1: {0: [vocabulary]}}]} if vocabulary else {})


def model_metadata(name: str, description: str, subgraphs: list[dict[int, Any]]) -> bytes:
    """The `ModelMetadata` flatbuffer."""
    builder = flatbuffers.Builder(4096)
    root = _write_table(builder, {0: name, 1: description, 3: subgraphs, 7: MIN_PARSER_VERSION})
    builder.Finish(root, _METADATA_IDENTIFIER)
    return bytes(builder.Output())
