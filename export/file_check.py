"""A `.tflite` file from anywhere → an error in Python where LiteRT would take the process down.

LiteRT checks the offsets of a file, the sizes of its constants and the shapes between its ops, and says what is wrong.
It trusts a few things that it should not, and those are looked at here, before it sees the file: that an op has the
inputs it needs and writes to no constant, that graphs do not call each other for ever, that tensors fit into memory,
and that names are text. A room of its own because the process that opens a stranger's file is somebody's app. Standard
library alone, and a few milliseconds.
"""

import math
import mmap
import os

from export.flatbuffer_tables import GraphTable, ModelTable, Table

# Which input of an op may be left out, by the op's number in the schema; no other op that we write has one.
_FULLY_CONNECTED, _BIAS = 9, 2
# Ops that call another graph of the file: CALL, IF, WHILE, CALL_ONCE and those of StableHLO.
_CALLS = frozenset({31, 118, 119, 129, 173, 174, 190, 198, 199, 200, 206, 209})
# A tensor of more than this is none of a BERT: the largest token tables have a tenth of it.
_MAX_RANK, _MAX_ELEMENTS = 8, 1 << 30


def check_file(source: str | os.PathLike | bytes) -> None:
    """An error where a file would crash LiteRT instead of being refused by it.

    Args:
        source: The file, of which only the graph is read, or its bytes.

    Example:
        >>> check_file("model.tflite")  # doctest: +SKIP
    """
    try:
        if isinstance(source, bytes):
            _check(source)
            return
        with open(source, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            _check(content)
    except ValueError as error:  # an empty file has nothing to map
        name = f"The file of {len(source):,} bytes" if isinstance(source, bytes) else source
        raise ValueError(f"{name} is not a TFLite model, or is cut short: {error}") from None


def _check(content):
    model = ModelTable(content)
    kinds = [max(code.number(3, "<i"), code.number(0, "<b")) for code in model.operator_codes]
    constants = {number for number, buffer in enumerate(model.buffers) if _has_data(buffer)}
    for graph in model.subgraphs:
        _check_tensors(graph, len(model.buffers))
        variables = {number for number, one in enumerate(graph.tensors) if one.number(2, "<I") not in constants}
        if not variables.issuperset(graph.inputs):
            raise ValueError(f"the inputs {graph.inputs} of a graph are constants.")
        for number, operator in enumerate(graph.operators):
            _check_operator(number, operator, kinds, len(graph.tensors), variables)
    for signature in model.signatures:
        _check_names(
            [signature.raw_text(2), *(entry.raw_text(0) for side in (0, 1) for entry in signature.tables(side))]
        )


def _has_data(buffer: Table):
    return len(buffer.vector(0, item_size=1)) > 0 or buffer.number(1, "<Q") > 1


def _check_tensors(graph: GraphTable, buffers):
    count = len(graph.tensors)
    if not all(0 <= index < count for index in (*graph.inputs, *graph.outputs)):
        raise ValueError(f"a graph of {count} tensors has the inputs {graph.inputs} and outputs {graph.outputs}.")
    _check_names([tensor.raw_text(3) for tensor in graph.tensors])
    for number, tensor in enumerate(graph.tensors):
        shape = tensor.numbers(0)
        if len(shape) > _MAX_RANK or min(shape, default=0) < 0 or math.prod(shape) > _MAX_ELEMENTS:
            raise ValueError(f"tensor {number} has the shape {shape[:_MAX_RANK]}.")
        if tensor.number(2, "<I") >= buffers:
            raise ValueError(f"tensor {number} has buffer {tensor.number(2, '<I')}, of {buffers}.")


def _check_names(names):
    for name in names:
        try:
            name.decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"a name is {name[:40]!r}, which is no text.") from None


def _check_operator(number, operator: Table, kinds, tensors, variables):
    kind = operator.number(0, "<I")
    if kind >= len(kinds):
        raise ValueError(f"op {number} is of kind {kind}, of {len(kinds)}.")
    if kinds[kind] in _CALLS:
        raise ValueError(f"op {number} calls another graph, which no file of export.convert does.")
    inputs, outputs = operator.numbers(1), operator.numbers(2)
    for place, index in enumerate(inputs):
        is_optional = kinds[kind] == _FULLY_CONNECTED and place == _BIAS
        if not (0 <= index < tensors or (index == -1 and is_optional)):
            raise ValueError(f"op {number} reads tensor {index}, of {tensors}.")
    if not inputs or not outputs or not variables.issuperset(outputs):
        raise ValueError(f"op {number} reads {len(inputs)} tensors and writes {outputs}, of {tensors} or constants.")
