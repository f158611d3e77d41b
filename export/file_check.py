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

# How many inputs ops have, the fewest and the most, with their numbers in the schema. What is not here can be run as
# well; how its inputs are counted is then LiteRT's alone.
# fmt: off
OPS_BY_INPUTS = {
    (1, 1): {
        "ABS": 101, "CAST": 53, "CEIL": 104, "COS": 108, "DEQUANTIZE": 6, "EXP": 47, "FLOOR": 8, "GELU": 150,
        "L2_NORMALIZATION": 11, "LOG": 73, "LOGICAL_NOT": 87, "LOGISTIC": 14, "NEG": 59, "QUANTIZE": 114, "RELU": 19,
        "ROUND": 116, "RSQRT": 76, "SHAPE": 77, "SIN": 66, "SOFTMAX": 25, "SQRT": 75, "SQUARE": 92, "SQUEEZE": 43,
        "TANH": 28, "UNPACK": 88, "ZEROS_LIKE": 93,
    },
    (1, 2): {"RESHAPE": 22},
    (2, 2): {
        "ADD": 0, "ARG_MAX": 56, "ARG_MIN": 79, "BATCH_MATMUL": 126, "BROADCAST_TO": 130, "CUMSUM": 128, "DIV": 42,
        "EMBEDDING_LOOKUP": 7, "EQUAL": 71, "EXPAND_DIMS": 70, "FILL": 94, "FLOOR_DIV": 90, "GATHER": 36,
        "GATHER_ND": 107, "GREATER": 61, "GREATER_EQUAL": 62, "LESS": 58, "LESS_EQUAL": 63, "LOGICAL_AND": 86,
        "LOGICAL_OR": 84, "MAXIMUM": 55, "MEAN": 40, "MINIMUM": 57, "MIRROR_PAD": 100, "MUL": 18, "NOT_EQUAL": 72,
        "PAD": 34, "POW": 78, "REDUCE_ALL": 140, "REDUCE_ANY": 91, "REDUCE_MAX": 82, "REDUCE_MIN": 89,
        "REDUCE_PROD": 81, "SPLIT": 49, "SQUARED_DIFFERENCE": 99, "SUB": 41, "SUM": 74, "TILE": 69, "TOPK_V2": 48,
        "TRANSPOSE": 39,
    },
    (2, 3): {"FULLY_CONNECTED": 9},
    (3, 3): {"PADV2": 60, "RANGE": 96, "SELECT": 64, "SELECT_V2": 123, "SLICE": 65, "SPLIT_V": 102},
    (4, 4): {"ONE_HOT": 85, "STRIDED_SLICE": 45},
}
# Those that call another graph of the file.
CALLS = {
    "CALL": 31, "IF": 118, "WHILE": 119, "CALL_ONCE": 129, "STABLEHLO_CUSTOM_CALL": 173, "STABLEHLO_REDUCE": 174,
    "STABLEHLO_SCATTER": 190, "STABLEHLO_REDUCE_WINDOW": 198, "STABLEHLO_SORT": 199, "STABLEHLO_WHILE": 200,
    "STABLEHLO_COMPOSITE": 206, "STABLEHLO_CASE": 209,
}
# fmt: on
_INPUTS = {number: bounds for bounds, ops in OPS_BY_INPUTS.items() for number in ops.values()}
_CALLS = frozenset(CALLS.values())
# The one input that may be left out.
_FULLY_CONNECTED, _BIAS = OPS_BY_INPUTS[2, 3]["FULLY_CONNECTED"], 2
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
        _check_signature(model, signature)


def _check_signature(model: ModelTable, signature: Table):
    number = signature.number(4, "<I")
    if number >= len(model.subgraphs):
        raise ValueError(f"a signature is of subgraph {number}, of {len(model.subgraphs)}.")
    graph, names = model.subgraphs[number], [signature.raw_text(2)]
    for side, tensors in ((0, graph.inputs), (1, graph.outputs)):
        for entry in signature.tables(side):
            names.append(entry.raw_text(0))
            if entry.number(1, "<I") not in tensors:
                raise ValueError(f"a signature has tensor {entry.number(1, '<I')}; its graph has {tensors}.")
    _check_names(names)


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
    fewest, most = _INPUTS.get(kinds[kind], (1, math.inf))
    if not fewest <= len(inputs) <= most or not outputs or not variables.issuperset(outputs):
        raise ValueError(f"op {number} reads {len(inputs)} tensors and writes {outputs}, of {tensors} or constants.")
