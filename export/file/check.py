"""Check a `.tflite` file from anywhere, and raise an error where LiteRT would crash the process.

LiteRT checks the offsets of a file, the sizes of its constants and the shapes between its ops. It does not check a few
other things, which are checked here before it sees the file: that an op has the inputs it needs and does not write to a
constant, that graphs do not call each other endlessly, that tensors fit into memory, that scales and zero points are
valid for their types, and that names are text. Only the standard library is needed.
"""

import math
import mmap
import os
import struct

from export.file.tables import Content, FileTable, GraphTable, Table

# The fewest and the most inputs of ops, with the ops' numbers in the schema. Other ops can be run too; only LiteRT
# checks their inputs.
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
# Ops that call another graph of the file.
CALLS = {
    "CALL": 31, "IF": 118, "WHILE": 119, "CALL_ONCE": 129, "STABLEHLO_CUSTOM_CALL": 173, "STABLEHLO_REDUCE": 174,
    "STABLEHLO_SCATTER": 190, "STABLEHLO_REDUCE_WINDOW": 198, "STABLEHLO_SORT": 199, "STABLEHLO_WHILE": 200,
    "STABLEHLO_COMPOSITE": 206, "STABLEHLO_CASE": 209,
}
# Ops that may take and give integers of few bits. For wrong scales of other ops, LiteRT ends the process; files of
# export.convert do not have such ops.
INTEGER_OPS = {"DEQUANTIZE": 6, "FULLY_CONNECTED": 9, "GATHER": 36, "SHAPE": 77, "QUANTIZE": 114}
# The types of tensors, with their numbers in the schema.
TYPES = {"FLOAT32": 0, "UINT8": 3, "INT16": 7, "INT8": 9, "INT4": 17, "INT2": 19}
# fmt: on
# The range of zero points. One for each channel must be 0, or 8 for unsigned values that are stored as INT4.
ZERO_POINTS = {"UINT8": (0, 255), "INT16": (-(2**15), 2**15 - 1), "INT8": (-128, 127), "INT4": (-8, 8), "INT2": (-2, 1)}
# The types of weights and results of a product, by the type of its input.
PRODUCTS = {
    "FLOAT32": (("FLOAT32", "UINT8", "INT8", "INT4", "INT2"), ("FLOAT32",)),
    "UINT8": (("UINT8",), ("UINT8", "INT16")),
    "INT8": (("INT8", "INT4", "INT2"), ("INT8",)),
    "INT16": (("INT16", "INT8", "INT4", "INT2"), ("INT16",)),
}
_INPUTS = {number: bounds for bounds, ops in OPS_BY_INPUTS.items() for number in ops.values()}
_CALLS, _INTEGER_OPS = frozenset(CALLS.values()), frozenset(INTEGER_OPS.values())
# The only input that may be left out.
_FULLY_CONNECTED, _BIAS = OPS_BY_INPUTS[2, 3]["FULLY_CONNECTED"], 2
# No tensor of a BERT is larger: weights, whose bytes are in the file, and results, for which LiteRT takes memory.
_MAX_RANK, _MAX_ELEMENTS, _MAX_RESULTS = 8, 1 << 30, 1 << 27
_MAX_NAME = 4096
_TYPE_NAMES = {number: name for name, number in TYPES.items()}
_INTEGERS = frozenset(TYPES[name] for name in ZERO_POINTS)
_INT32_RANGE = (-(2**31), 2**31 - 1)
# The bits of the smallest normal float32, and of infinity. A scale must be between them: the bits of 0 and of negative
# numbers are smaller, those of NaN larger or negative.
_SMALLEST_SCALE, _INFINITY = 0x0080_0000, 0x7F80_0000
# The largest step of a product's sums relative to its results. Beyond it, XNNPACK fails and frees memory twice.
_MAX_STEP = 256


def check_file(source: str | os.PathLike[str] | bytes) -> None:
    """Raise an error if a file would crash LiteRT instead of being refused by it.

    Args:
        source: The file, or its bytes. Only the graph is read.

    Example:
        >>> check_file("model.tflite")  # doctest: +SKIP
    """
    try:
        if isinstance(source, bytes):
            _check(source)
            return
        with open(source, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            _check(content)
    except ValueError as error:  # an empty file has nothing to map
        name = f"The file of {len(source):,} bytes" if isinstance(source, bytes) else source
        raise ValueError(f"{name} is not a TFLite model, or is cut short: {error}") from None


def _check(content: Content) -> None:
    root = FileTable(content)
    kinds = [max(code.number(3, "<i"), code.number(0, "<b")) for code in root.operator_codes]
    constants = {number for number, buffer in enumerate(root.buffers) if _has_data(buffer)}
    for graph in root.subgraphs:
        _check_tensors(graph, len(root.buffers))
        variables = {number for number, one in enumerate(graph.tensors) if one.number(2, "<I") not in constants}
        if not variables.issuperset(graph.inputs):
            raise ValueError(f"The inputs {_few(graph.inputs)} of a graph are constants.")
        for number in variables:
            if math.prod(shape := graph.tensors[number].numbers(0)) > _MAX_RESULTS:
                raise ValueError(f"Tensor {number} has the shape {_few(shape)}, but no values in the file.")
        for number, operator in enumerate(graph.operators):
            _check_operator(number, operator, kinds, graph.tensors, variables)
    for signature in root.signatures:
        _check_signature(root, signature)


def _check_signature(root: FileTable, signature: Table) -> None:
    number = signature.number(4, "<I")
    if number >= len(root.subgraphs):
        raise ValueError(f"A signature is of subgraph {number}, of {len(root.subgraphs)}.")
    graph = root.subgraphs[number]
    _read_name(signature, 2)
    for side, tensors in ((0, graph.inputs), (1, graph.outputs)):
        known = set(tensors)
        for entry in signature.tables(side):
            _read_name(entry, 0)
            if entry.number(1, "<I") not in known:
                raise ValueError(f"A signature has tensor {entry.number(1, '<I')}; its graph has {_few(tensors)}.")


def _few(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """The first numbers, for messages: a list in a file from anywhere may be long."""
    return numbers[:_MAX_RANK]


def _has_data(buffer: Table) -> bool:
    return len(buffer.vector(0, item_size=1)) > 0 or buffer.number(1, "<Q") > 1


# === Tensors ===


def _check_tensors(graph: GraphTable, buffers: int) -> None:
    count, inputs, outputs = len(graph.tensors), graph.inputs, graph.outputs
    if not all(0 <= index < count for index in (*inputs, *outputs)):
        raise ValueError(f"A graph of {count} tensors has the inputs {_few(inputs)} and outputs {_few(outputs)}.")
    for number, tensor in enumerate(graph.tensors):
        name = _read_name(tensor, 3)
        try:
            _check_tensor(tensor, buffers)
        except ValueError as error:
            raise ValueError(f"Tensor {number}, {name[:80]!r}: {error}") from None


def _check_tensor(tensor: Table, buffers: int) -> None:
    shape = tensor.numbers(0)
    if len(shape) > _MAX_RANK or min(shape, default=0) < 0 or math.prod(shape) > _MAX_ELEMENTS:
        raise ValueError(f"It has the shape {_few(shape)}.")
    if tensor.number(2, "<I") >= buffers:
        raise ValueError(f"It has buffer {tensor.number(2, '<I')}, of {buffers}.")
    if (quantization := tensor.table(4)) is not None:
        _check_quantization(shape, _type(tensor), quantization)


def _read_name(table: Table, field: int) -> str:
    """Read a name. Its length is checked before it is copied, because many names may point to one long text."""
    if (length := len(table.vector(field, item_size=1))) > _MAX_NAME:
        raise ValueError(f"A name has {length:,} bytes; {_MAX_NAME:,} are the most.")
    name = table.raw_text(field)
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"A name is {name[:40]!r}, which is no text.") from None


def _check_quantization(shape: tuple[int, ...], kind: int, quantization: Table) -> None:
    """Check scales and zero points, on which XNNPACK would crash."""
    if quantization.number(4, "<B"):
        raise ValueError("It has scales of another kind than export.convert writes.")
    scales, zero_points = quantization.numbers(2), quantization.long_numbers(3)
    if scales:
        _check_scales(shape, scales, quantization.number(6, "<i"))
    if zero_points:
        _check_zero_points(kind, zero_points, len(scales))


def _check_scales(shape: tuple[int, ...], scales: tuple[int, ...], dimension: int) -> None:
    if not 0 <= dimension < max(1, len(shape)):
        raise ValueError(f"It has scales along dimension {dimension} of the shape {shape}.")
    if len(scales) > 1 and shape[dimension : dimension + 1] != (len(scales),):
        raise ValueError(f"It has {len(scales)} scales along dimension {dimension} of the shape {shape}.")
    for scale in (min(scales), max(scales)):
        if not _SMALLEST_SCALE <= scale < _INFINITY:
            raise ValueError(f"It has the scale {_as_float(scale):g}; expected a finite number of at least 1.2e-38.")


def _check_zero_points(kind: int, zero_points: tuple[int, ...], scales: int) -> None:
    if len(zero_points) not in (1, scales):
        raise ValueError(f"It has {len(zero_points)} zero points and {scales} scales.")
    lowest, highest = ZERO_POINTS.get(_type_name(kind), _INT32_RANGE)
    for one in (min(zero_points), max(zero_points)):
        if not lowest <= one <= highest:
            raise ValueError(f"It has the zero point {one}; {_type_name(kind)} has {lowest} to {highest}.")
    if len(zero_points) > 1 and not {0, 8 if kind == TYPES["INT4"] else 0}.issuperset(zero_points):
        raise ValueError(f"It has the zero point {max(zero_points, key=abs)} for a channel; expected 0.")


def _as_float(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<i", bits))[0]


def _type_name(number: int) -> str:
    return _TYPE_NAMES.get(number, f"type {number}")


# === Ops ===


def _check_operator(number: int, operator: Table, kinds: list[int], tensors: list[Table], variables: set[int]) -> None:
    kind = operator.number(0, "<I")
    if kind >= len(kinds):
        raise ValueError(f"Op {number} is of kind {kind}, of {len(kinds)}.")
    if kinds[kind] in _CALLS:
        raise ValueError(f"Op {number} calls another graph, which no file of export.convert does.")
    inputs, outputs, count = operator.numbers(1), operator.numbers(2), len(tensors)
    for place, index in enumerate(inputs):
        is_optional = kinds[kind] == _FULLY_CONNECTED and place == _BIAS
        if not (0 <= index < count or (index == -1 and is_optional)):
            raise ValueError(f"Op {number} reads tensor {index}, of {count}.")
    fewest, most = _INPUTS.get(kinds[kind], (1, math.inf))
    if not fewest <= len(inputs) <= most or not outputs or not variables.issuperset(outputs):
        raise ValueError(
            f"Op {number} reads {len(inputs)} tensors and writes {_few(outputs)}, of {count} or constants."
        )
    source, result = tensors[inputs[0]], tensors[outputs[0]]
    if kinds[kind] not in _INTEGER_OPS and not _INTEGERS.isdisjoint((_type(source), _type(result))):
        raise ValueError(f"Op {number} computes with integers of few bits, which no file of export.convert does.")
    if kinds[kind] == _FULLY_CONNECTED:
        _check_product(number, source, tensors[inputs[1]], result)


def _check_product(number: int, source: Table, weights: Table, result: Table) -> None:
    """Check the types and scales of a product, because kernels would read numbers of another type as their own."""
    types = [_type_name(_type(tensor)) for tensor in (source, weights, result)]
    takes, gives = PRODUCTS.get(types[0], (types[1:2], types[2:]))
    if types[1] not in takes or types[2] not in gives:
        raise ValueError(f"Op {number} is a product of {types[0]} with {types[1]} that gives {types[2]}.")
    quantization = weights.table(4)
    if quantization is not None and len(quantization.vector(2)) > 1 and quantization.number(6, "<i") != 0:
        raise ValueError(f"Op {number} is a product with scales for the inputs of its weights, not for the outputs.")
    if _type(source) in _INTEGERS:
        step = _largest_scale(source) * _largest_scale(weights) / _largest_scale(result)
        if not 0 < step < _MAX_STEP:
            raise ValueError(
                f"Op {number} is a product with steps of {step:g} in its results; {_MAX_STEP} is too large."
            )


def _type(tensor: Table) -> int:
    return tensor.number(1, "<b")


def _largest_scale(tensor: Table) -> float:
    quantization = tensor.table(4)
    scales = () if quantization is None else quantization.numbers(2)
    if not scales:
        raise ValueError(f"{tensor.text(3)[:80]!r} has no scale, and is in a product of integers.")
    return _as_float(max(scales))
