"""Matrix products → int8 or int4: rewrites the FULLY_CONNECTED ops of a float file and leaves the rest as it is.

Matrices are nine tenths of the time. Softmax, GELU, norms and attention stay float: there int8 gains little and loses
much, and XNNPACK takes float and int8 ops in one partition.

Static int8 by itself is ruined by a few loud channels, because all channels of an activation share a scale. So channels
are brought to similar loudness first: inputs are divided by a factor each, which the weights' columns are multiplied by
(SmoothQuant, Xiao et al. 2022), and outputs likewise by way of the weights' rows, which have scales of their own and
lose nothing. What is left of it in the graph is a float MUL before and after.
"""

from dataclasses import dataclass

import numpy as np

from export.calibration import LayerStatistics, matrix_of
from export.file_editor import drop_unused, editors
from export.rounding import pack_int4, round_weights, round_with_data

PER_CHANNEL = 12  # the version of FULLY_CONNECTED that has a scale for each row
_STRENGTHS = (0.0, 0.15, 0.25, 0.35, 0.5, 0.65, 0.8)


@dataclass(frozen=True)
class StaticLayer:
    """A matrix product in integers, in and out."""

    integers: np.ndarray
    scales: np.ndarray
    input_factors: np.ndarray | None  # what inputs are divided by; the same object for all readers of a tensor
    input_scale: tuple[float, int]
    output_factors: np.ndarray | None
    output_scale: tuple[float, int]
    activation_bits: int


# === Float16: storage alone ===


def store_float16(model) -> None:
    """Keep every matrix in 16 bits, in place; runtimes make float32 of it when they load the file."""
    stored: dict[int, int] = {}
    limit = np.finfo(np.float16).max
    for editor in editors(model):
        for operator, index, buffer, weights in _matrices(editor):
            if buffer not in stored:
                stored[buffer] = editor.buffer(np.clip(weights, -limit, limit).astype(np.float16))
            narrow = editor.add_tensor("float16", weights.shape, "FLOAT16", stored[buffer])
            wide = editor.like(index, "/float32", "FLOAT32")
            operator.inputs = np.array([operator.inputs[0], wide, *operator.inputs[2:]], np.int32)
            # Right before its reader: at the graph's beginning it would be a partition of its own.
            place = next(place for place, other in enumerate(editor.graph.operators) if other is operator)
            editor.graph.operators.insert(place, editor.operator("DEQUANTIZE", [narrow], [wide], version=3))
            editor.tensor(index).buffer = 0
    drop_unused(model)


# === Dynamic: activations are scaled while the model runs ===


def quantize_dynamic(model, bits: int, statistics: dict[int, LayerStatistics] | None = None) -> None:
    """Give every float matrix of a parsed file `bits` bits, in place; with statistics, 4 bits keep much more.

    What has few outputs keeps 8 bits: a classifier is a fraction of a percent of the bytes.
    """
    stored: dict[int, tuple[str, np.ndarray, int]] = {}  # by the buffer of the float weights, which signatures share
    for editor in editors(model):
        for operator, index, buffer, weights in _matrices(editor):
            if buffer not in stored:
                stored[buffer] = _store(editor, weights, bits, statistics and statistics.get(buffer))
            dtype, scales, new_buffer = stored[buffer]
            editor.retype(index, dtype, scales, buffer=new_buffer)
            operator.builtinOptions.asymmetricQuantizeInputs = True
            operator.opcodeIndex = editor.opcode("FULLY_CONNECTED", PER_CHANNEL)
    drop_unused(model)


def _store(editor, weights, bits, layer):
    if bits == 8 or len(weights) < 32:
        integers, scales = round_weights(weights, 8)
        return "INT8", scales, editor.buffer(integers)
    if layer is None:
        integers, scales = round_weights(weights, bits)
    else:
        integers, scales = round_with_data(weights, bits, layer.moments)
    return "INT4", scales, editor.buffer(pack_int4(integers))


def _matrices(editor):
    """Each product with the tensor, the buffer and the values of its weights, read before anything changes."""
    found = []
    for operator in editor.graph.operators:
        if (weights := matrix_of(editor, operator)) is not None:
            index = _own_tensor(editor, operator)
            found.append((operator, index, editor.tensor(index).buffer, weights))
    return found


def _own_tensor(editor, operator):
    """The tensor of a product's weights; a new one where other ops read it too, as an MLM head shares its table."""
    index = int(operator.inputs[1])
    if all(editor.is_op(reader, "FULLY_CONNECTED") for reader in editor.uses(index)):
        return index
    tensor = editor.tensor(index)
    index = editor.add_tensor("matrix", tensor.shape, "FLOAT32", tensor.buffer)
    operator.inputs = np.array([operator.inputs[0], index, *operator.inputs[2:]], np.int32)
    return index


# === Static: scales are measured beforehand ===


def quantize_static(model, statistics: dict[int, LayerStatistics], *, activation_bits: int = 8) -> None:
    """Make the products over all tokens integers in and out, in place; those on a single vector become dynamic int8."""
    layers, stored = _plan_layers(model, statistics, activation_bits), {}
    for editor in editors(model):
        matrices = {id(operator): rest for operator, *rest in _matrices(editor)}
        quantized: dict[tuple[int, int], int] = {}
        operators = []
        for operator in editor.graph.operators:
            index, buffer, _ = matrices.get(id(operator), (None, None, None))
            if buffer not in layers:
                operators.append(operator)
                continue
            if buffer not in stored:
                stored[buffer] = editor.buffer(layers[buffer].integers)
            editor.retype(index, "INT8", layers[buffer].scales, buffer=stored[buffer])
            operators += _rewrite(editor, operator, layers[buffer], quantized)
        editor.graph.operators = operators
    quantize_dynamic(model, 8)


def _plan_layers(model, statistics, activation_bits):
    """The static form of each product over tokens, by the buffer of its weights."""
    weights_of = {}
    for editor in editors(model):
        for operator, _, buffer, weights in _matrices(editor):
            if not _is_vector(editor.tensor(int(operator.inputs[0]))):
                weights_of[buffer] = weights.astype(np.float64)
    readers: dict[int, list[int]] = {}
    for buffer in weights_of:
        readers.setdefault(statistics[buffer].source, []).append(buffer)
    layers = {}
    for buffers in readers.values():
        factors = None
        if activation_bits == 8:  # 16 bits have room for loud channels
            factors = _input_factors([weights_of[buffer] for buffer in buffers], statistics[buffers[0]])
        for buffer in buffers:
            layers[buffer] = _static_layer(weights_of[buffer], statistics[buffer], factors, activation_bits)
    return layers


def _is_vector(tensor):
    """Whether a tensor has one row whatever the length of the text: the state of the first token, not of all."""
    has_unknown = tensor.shapeSignature is not None and len(tensor.shapeSignature)
    return all(extent == 1 for extent in (tensor.shapeSignature if has_unknown else tensor.shape)[:-1])


def _static_layer(weights, layer, input_factors, bits):
    output_factors = None
    if bits == 8:
        loudness = np.maximum(np.maximum(-layer.output_low, layer.output_high), 1e-6)
        output_factors = loudness / np.exp(np.log(loudness).mean())
    divide, multiply = (1.0 if factors is None else factors for factors in (input_factors, output_factors))
    integers, scales = round_weights(((weights * divide).T / multiply).T, 8)
    return StaticLayer(
        integers,
        scales,
        input_factors,
        _range_scale(layer.input_low / divide, layer.input_high / divide, bits),
        output_factors,
        _range_scale(layer.output_low / multiply, layer.output_high / multiply, bits),
        bits,
    )


def _input_factors(matrices, layer):
    """What to divide the channels of an input by, for all matrices that read it; `None` where it gains little.

    The best of some powers of the channels' loudness, by the error to be expected: rounding inputs leaves step² / 12 on
    every one, rounding weights the same on theirs.
    """
    low, high = layer.input_low, layer.input_high
    loudness = np.maximum(np.maximum(-low, high), 1e-6)
    energy = np.diag(layer.moments) / max(1, layer.tokens)
    errors = {}
    for strength in _STRENGTHS:
        factors = (loudness / loudness.mean()) ** strength
        step, _ = _range_scale(low / factors, high / factors, 8)
        error = 0.0
        for weights in matrices:
            scaled = weights * factors
            steps = np.abs(scaled).max(axis=1) / 127
            error += step**2 * np.square(scaled).sum() + np.square(steps).sum() * (energy / factors**2).sum()
        errors[strength] = error
    best = min(errors, key=errors.get)
    return None if errors[0.0] < 1.15 * errors[best] else (loudness / loudness.mean()) ** best


def _range_scale(low, high, bits):
    """Scale and zero point for values between the smallest and the largest, 0 among them; 16 bits are symmetric."""
    low, high = min(float(np.min(low)), 0.0), max(float(np.max(high)), 0.0)
    if bits == 16:
        return max(-low, high, 1e-8) / 32767, 0
    scale = max(high - low, 1e-8) / 255
    return scale, int(np.clip(round(-128 - low / scale), -128, 127))


def _rewrite(editor, operator, layer, quantized):
    """MUL, QUANTIZE (both once for all readers of a tensor), the product in integers, DEQUANTIZE, MUL."""
    source, weights = (int(index) for index in operator.inputs[:2])
    (result,) = operator.outputs
    dtype, version = ("INT8", 2) if layer.activation_bits == 8 else ("INT16", 3)
    before, after, key = [], [], (source, id(layer.input_factors))
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


def _multiply(editor, operators, source, factors, result=None):
    """Put a product with a factor for each channel behind `operators`; returns its tensor."""
    factors = editor.constant("factors", factors.astype(np.float32), "FLOAT32")
    result = editor.like(source, "/even", "FLOAT32") if result is None else result
    operators.append(editor.operator("MUL", [source, factors], [result]))
    return result


def _bias(editor, operator, layer):
    """The bias as integers in the scale of the products; −1 where there is none."""
    if len(operator.inputs) < 3 or operator.inputs[2] < 0:
        return -1
    scale = layer.input_scale[0] * layer.scales
    bias = editor.value(int(operator.inputs[2])) / (1.0 if layer.output_factors is None else layer.output_factors)
    if layer.activation_bits == 16:
        return editor.constant("bias", np.round(bias / scale).astype(np.int64), "INT64", scale)
    limit = 2**31 - 1
    return editor.constant("bias", np.clip(np.round(bias / scale), -limit, limit).astype(np.int32), "INT32", scale)
