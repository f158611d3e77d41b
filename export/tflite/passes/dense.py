"""Give dense layers of a file for any length the form that they have in files for one length.

On `[1, T, H]` with an unknown T, the converter writes a dense layer as RESHAPE, FULLY_CONNECTED, RESHAPE, ADD and,
after the queries, MUL by 1 / √head_dim; with a known T, as one FULLY_CONNECTED with the factor in its weights. As one
op, a quantized layer rounds the same numbers for all lengths, and nothing is copied between shapes. This must run
before anything is measured or quantized.
"""

import numpy as np

from export.file.editor import GraphEditor, editors
from export.file.parsed import Operator, TFLiteFile

_KEEPS_DIMENSIONS = 5  # the first version of FULLY_CONNECTED with keep_num_dims
Scaled = dict[tuple[int, float], int]  # the buffer of a product, by the buffer and the factor


def join_dense_layers(file: TFLiteFile) -> None:
    """Rewrite a parsed float file in place; an ADD or MUL that is not part of a dense layer stays."""
    scaled: Scaled = {}  # signatures share their weights
    for editor in editors(file):
        for operator in list(editor.graph.operators):
            if editor.is_op(operator, "FULLY_CONNECTED"):
                if _has_no_bias(operator):
                    _take_bias(editor, operator)
                _keep_dimensions(editor, operator)
                _take_factor(editor, operator, scaled)


# === Biases ===


def _has_no_bias(operator: Operator) -> bool:
    return len(operator.inputs) < 3 or operator.inputs[2] < 0


def _take_bias(editor: GraphEditor, product: Operator) -> None:
    reshape = _only_reader(editor, int(product.outputs[0]), "RESHAPE")
    if reshape is None or _is_activated(product):
        return
    reshaped = int(reshape.outputs[0])
    addition = _only_reader(editor, reshaped, "ADD")
    if addition is None:
        return
    place, values = _constant_beside(editor, addition, reshaped)
    width = editor.shape(int(product.inputs[1]))[0]
    if values is None or values.shape != (width,) or editor.shape(reshaped)[-1] != width:
        return
    product.inputs = np.array([*product.inputs[:2], place], np.int32)
    product.builtinOptions.fusedActivationFunction = addition.builtinOptions.fusedActivationFunction
    reshape.outputs = addition.outputs
    _drop(editor, addition)


# === Shapes ===


def _keep_dimensions(editor: GraphEditor, product: Operator) -> None:
    """Pass `[1, T, in]` into the product and `[1, T, out]` out of it, without reshapes to `[T, …]` and back."""
    before = next((one for one in editor.graph.operators if int(product.inputs[0]) in one.outputs), None)
    after = _only_reader(editor, int(product.outputs[0]), "RESHAPE")
    if before is None or after is None or not editor.is_op(before, "RESHAPE"):
        return
    source, result = int(before.inputs[0]), int(after.outputs[0])
    width, depth = editor.shape(int(product.inputs[1]))
    extents = editor.extents(result)
    if extents[-1] != width or extents.count(-1) > 1:
        return
    if editor.extents(source) != [*extents[:-1], depth]:  # heads, which the same reshape joins to one vector
        source = _reshaped(editor, before, int(product.inputs[0]), [*extents[:-1], depth])
        if source is None:
            return
    product.inputs = np.array([source, *product.inputs[1:]], np.int32)
    product.outputs = np.array([result], np.int32)
    product.builtinOptions.keepNumDims = True
    version = editor.file.operatorCodes[product.opcodeIndex].version
    product.opcodeIndex = editor.opcode("FULLY_CONNECTED", max(version, _KEEPS_DIMENSIONS))
    _drop(editor, after)
    if not editor.uses(int(before.outputs[0])):
        _drop(editor, before)


def _reshaped(editor: GraphEditor, reshape: Operator, result: int, extents: list[int]) -> int | None:
    """Give the result of a reshape another shape, if only one op reads it; else `None`."""
    if len(editor.uses(result)) > 1 or result in editor.graph.outputs:
        return None
    shape = editor.constant("shape", np.array(extents, np.int32), "INT32")
    reshape.inputs = np.array([reshape.inputs[0], shape], np.int32)
    tensor = editor.tensor(result)
    tensor.shape = np.array([max(1, extent) for extent in extents], np.int32)
    tensor.shapeSignature = np.array(extents, np.int32) if -1 in extents else None
    return result


# === Factors ===


def _take_factor(editor: GraphEditor, product: Operator, scaled: Scaled) -> None:
    product_of = _only_reader(editor, int(product.outputs[0]), "MUL")
    if not product_of or _is_activated(product) or _is_activated(product_of):
        return
    _, factor = _constant_beside(editor, product_of, int(product.outputs[0]))
    parts = [int(index) for index in product.inputs[1:] if index >= 0]  # weights and bias
    weights = [editor.value(index) for index in parts]
    is_shared = any(len(editor.uses(index)) > 1 for index in parts)
    if factor is None or factor.size != 1 or is_shared or any(values is None for values in weights):
        return
    for index, values in zip(parts, weights, strict=True):
        key = (editor.tensor(index).buffer, factor.item())
        if key not in scaled:
            scaled[key] = editor.buffer(values * factor.item())
        editor.tensor(index).buffer = scaled[key]
    product.outputs = product_of.outputs
    _drop(editor, product_of)


# === Shared ===


def _is_activated(operator: Operator) -> bool:
    return bool(operator.builtinOptions.fusedActivationFunction)


def _constant_beside(editor: GraphEditor, operator: Operator, index: int) -> tuple[int, np.ndarray] | tuple[None, None]:
    """The constant that an operator takes beside a tensor, and its values; `None` twice if there is none."""
    places = [int(other) for other in operator.inputs if other != index]
    values = editor.value(places[0]) if len(places) == 1 else None
    return (None, None) if values is None else (places[0], values)


def _drop(editor: GraphEditor, operator: Operator) -> None:
    editor.graph.operators = [one for one in editor.graph.operators if one is not operator]


def _only_reader(editor: GraphEditor, index: int, name: str) -> Operator | None:
    """The only reader of a tensor, if it is an op of that name."""
    if index in editor.graph.outputs:
        return None
    readers = editor.uses(index)
    return readers[0] if len(readers) == 1 and editor.is_op(readers[0], name) else None
