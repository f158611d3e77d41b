"""Rewrite the matrix products of a float file to int8 or int4, in place.

The matrices take most of the time. Softmax, GELU, norms and attention stay float, because there int8 gains little and
loses much; XNNPACK takes float and int8 ops in one partition.

The numbers of a product come from `quantization/static_plan.py` (static), from `quantization/rounding.py` (dynamic), or
from training (`quantization/training.py`).
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from export.file.editor import GraphEditor, drop_unused, editors
from export.file.parsed import Operator, TFLiteFile
from export.quantization.rounding import bits_of, pack_int4, round_matrix
from export.quantization.static_plan import StaticLayer
from export.quantization.statistics import LayerStatistics, matrix_of

PER_CHANNEL = 12  # the version of FULLY_CONNECTED that has a scale for each row


# === Float16: only storage ===


def store_float16(file: TFLiteFile, only: Collection[int] | None = None) -> None:
    """Store every matrix in 16 bits, in place; runtimes convert it to float32 when they load the file.

    `only` has the buffers of the matrices to store; `None` is all.
    """
    stored: dict[int, int] = {}
    limit = np.finfo(np.float16).max
    for editor in editors(file):
        for operator, index, buffer, weights in _matrices(editor, only):
            if buffer not in stored:
                stored[buffer] = editor.buffer(np.clip(weights, -limit, limit).astype(np.float16))
            narrow = editor.add_tensor("float16", weights.shape, "FLOAT16", stored[buffer])
            wide = editor.like(index, "/float32", "FLOAT32")
            operator.inputs = np.array([operator.inputs[0], wide, *operator.inputs[2:]], np.int32)
            # Directly before its reader: at the beginning of the graph it would become a separate partition.
            place = next(place for place, other in enumerate(editor.graph.operators) if other is operator)
            editor.graph.operators.insert(place, editor.operator("DEQUANTIZE", [narrow], [wide], version=3))
            editor.tensor(index).buffer = 0
    drop_unused(file)


# === Dynamic: activations are scaled at run time ===


def quantize_dynamic(
    file: TFLiteFile,
    bits: int,
    statistics: Mapping[int, LayerStatistics] | None = None,
    *,
    only: Collection[int] | None = None,
    learned: Mapping[int, tuple[np.ndarray, np.ndarray]] | None = None,
) -> None:
    """Store float matrices of a parsed file in `bits` bits, in place. With statistics, 4 bits are much better.

    Matrices with few outputs, such as a classifier's, keep 8 bits; they are small.

    Args:
        file: The parsed file.
        bits: 8 or 4.
        statistics: The statistics of each matrix product, by the matrix's buffer.
        only: The buffers of the matrices to rewrite; `None` is all.
        learned: Matrices whose integers and scales are known already, by buffer.
    """
    stored: dict[int, tuple[str, np.ndarray, int]] = {}  # by the buffer of the float weights, which signatures share
    for editor in editors(file):
        for operator, index, buffer, weights in _matrices(editor, only):
            if buffer not in stored:
                seen = None if statistics is None else statistics.get(buffer)
                known = (learned or {}).get(buffer) or round_matrix(weights, bits, seen)
                stored[buffer] = _store(editor, bits_of(weights, bits), *known)
            dtype, scales, new_buffer = stored[buffer]
            editor.retype(index, dtype, scales, buffer=new_buffer)
            operator.builtinOptions.asymmetricQuantizeInputs = True
            operator.opcodeIndex = editor.opcode("FULLY_CONNECTED", PER_CHANNEL)
    drop_unused(file)


def _store(editor: GraphEditor, bits: int, integers: np.ndarray, scales: np.ndarray) -> tuple[str, np.ndarray, int]:
    if bits == 8:
        return "INT8", scales, editor.buffer(integers)
    return "INT4", scales, editor.buffer(pack_int4(integers))


def matrix_buffers(file: TFLiteFile) -> set[int]:
    """The buffers of all float matrices of a parsed file; signatures share them."""
    return {buffer for editor in editors(file) for _, _, buffer, _ in _matrices(editor)}


def _matrices(editor: GraphEditor, only: Collection[int] | None = None) -> list[tuple[Operator, int, int, np.ndarray]]:
    """Each product with the tensor, the buffer and the values of its weights, read before anything changes."""
    found = []
    for operator in editor.graph.operators:
        if (weights := matrix_of(editor, operator)) is not None:
            index = _own_tensor(editor, operator)
            found.append((operator, index, editor.tensor(index).buffer, weights))
    return [one for one in found if only is None or one[2] in only]


def _own_tensor(editor: GraphEditor, operator: Operator) -> int:
    """The tensor of a product's weights; a new one if other ops read it too, as when an MLM head shares its table."""
    index = int(operator.inputs[1])
    if all(editor.is_op(reader, "FULLY_CONNECTED") for reader in editor.uses(index)):
        return index
    index = editor.add_tensor("matrix", editor.shape(index), "FLOAT32", editor.tensor(index).buffer)
    operator.inputs = np.array([operator.inputs[0], index, *operator.inputs[2:]], np.int32)
    return index


# === Static: scales come from calibration or training ===


def quantize_static(file: TFLiteFile, layers: Mapping[int, StaticLayer]) -> None:
    """Give products integer inputs and outputs, in place; `layers` has their numbers by the float weights' buffer."""
    stored: dict[int, int] = {}
    for editor in editors(file):
        matrices = {id(operator): (index, buffer) for operator, index, buffer, _ in _matrices(editor, layers)}
        quantized: dict[tuple[Any, ...], int] = {}
        operators = []
        for operator in editor.graph.operators:
            if id(operator) not in matrices:
                operators.append(operator)
                continue
            index, buffer = matrices[id(operator)]
            if buffer not in stored:
                stored[buffer] = editor.buffer(layers[buffer].integers)
            editor.retype(index, "INT8", layers[buffer].scales, buffer=stored[buffer])
            operators += _rewrite(editor, operator, layers[buffer], quantized)
        editor.graph.operators = operators
    drop_unused(file)


def products_over_tokens(file: TFLiteFile, only: Collection[int] | None = None) -> dict[int, np.ndarray]:
    """The matrices `[outputs, inputs]` whose inputs are the states of all tokens, by buffer.

    Products on a single vector (pooler, classifier) are left out: a few hundred vectors say little about their ranges,
    and they cost almost no time.
    """
    found = {}
    for editor in editors(file):
        for operator, _, buffer, weights in _matrices(editor, only):
            if not _is_vector(editor, int(operator.inputs[0])):
                found[buffer] = weights
    return found


def _is_vector(editor: GraphEditor, index: int) -> bool:
    """Whether a tensor has one row for any length of text: the state of the first token, not of all."""
    return all(extent == 1 for extent in editor.extents(index)[:-1])


def _rewrite(
    editor: GraphEditor, operator: Operator, layer: StaticLayer, quantized: dict[tuple[Any, ...], int]
) -> list[Operator]:
    """MUL and QUANTIZE (once for all readers of a tensor), the product in integers, DEQUANTIZE, MUL."""
    source, weights = (int(index) for index in operator.inputs[:2])
    (result,) = operator.outputs
    dtype, version = ("INT8", 2) if layer.activation_bits == 8 else ("INT16", 3)
    before: list[Operator] = []
    after: list[Operator] = []
    key = (source, *layer.input_key)
    if key not in quantized:
        if layer.input_factors is not None:
            source = _multiply(editor, before, source, 1 / layer.input_factors)
        scale, zero_point = layer.input_scale
        quantized[key] = editor.like(source, "/integers", dtype, scale=scale, zero_point=zero_point)
        before.append(editor.operator("QUANTIZE", [source], [quantized[key]], version=version - 1))
    scale, zero_point = layer.output_scale
    integers = editor.like(result, "/integers", dtype, scale=scale, zero_point=zero_point)
    operator.inputs = np.array([quantized[key], weights, _bias(editor, operator, layer)], np.int32)
    operator.outputs = np.array([integers], np.int32)
    operator.opcodeIndex = editor.opcode("FULLY_CONNECTED", PER_CHANNEL)
    floats = result if layer.output_factors is None else editor.like(result, "/even", "FLOAT32")
    after.append(editor.operator("DEQUANTIZE", [integers], [floats], version=version))
    if layer.output_factors is not None:
        _multiply(editor, after, floats, layer.output_factors, result)
    return [*before, operator, *after]


def _multiply(
    editor: GraphEditor, operators: list[Operator], source: int, factors: np.ndarray, result: int | None = None
) -> int:
    """Append a product with a factor for each channel to `operators`; give its tensor."""
    constant = editor.constant("factors", factors.astype(np.float32), "FLOAT32")
    result = editor.like(source, "/even", "FLOAT32") if result is None else result
    operators.append(editor.operator("MUL", [source, constant], [result]))
    return result


def _bias(editor: GraphEditor, operator: Operator, layer: StaticLayer) -> int:
    """The bias as integers in the scale of the products; −1 if there is none."""
    if len(operator.inputs) < 3 or operator.inputs[2] < 0:
        return -1
    scale = layer.input_scale[0] * layer.scales
    values = editor.value(int(operator.inputs[2]))
    if values is None:
        raise ValueError("The bias of a matrix product is computed in the graph; expected a float32 constant.")
    bias = values / (1.0 if layer.output_factors is None else layer.output_factors)
    if layer.activation_bits == 16:
        return editor.constant("bias", np.round(bias / scale).astype(np.int64), "INT64", scale)
    limit = 2**31 - 1
    return editor.constant("bias", np.clip(np.round(bias / scale), -limit, limit).astype(np.int32), "INT32", scale)
