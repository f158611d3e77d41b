"""Compute the last block for the first token alone, where nothing else of it is read.

A classifier reads the state of the first token. In the last block, only keys and values need all tokens; queries, the
feed-forward part and the norms are needed for the first token. Every number that is computed stays the same, because
these ops work on each token by itself. This must run after quantization, which counts tokens.
"""

from collections.abc import Mapping

import numpy as np

from export.file.contents import type_name
from export.file.editor import GraphEditor, editors
from export.file.parsed import Operator, TFLiteFile

# Ops that give the same numbers for a part of the tokens: each by itself, or along the last dimension.
_EACH = "ADD SUB MUL NEG GELU RELU RSQRT TANH SQUARED_DIFFERENCE QUANTIZE DEQUANTIZE SOFTMAX MEAN FULLY_CONNECTED"
_CHAINS = (*_EACH.split(), "RESHAPE", "TRANSPOSE", "BATCH_MATMUL")

Parts = dict[int, int]  # tensors of which only the first place of a dimension is needed: the tensor, the dimension


def keep_first_token(file: TFLiteFile) -> None:
    """Rewrite a parsed file in place; graphs that read other tokens at their end stay as they are."""
    for editor in editors(file):
        needed: Parts = {}
        reads: dict[int, Parts] = {}  # what operators need of their inputs, by the ids of those that need parts
        slices = {id(operator) for operator in editor.graph.operators if _takes_first(editor, operator)}
        for operator in reversed(editor.graph.operators):
            is_slice = id(operator) in slices
            inputs = {int(operator.inputs[0]): 1} if is_slice else _inputs(editor, operator, needed, reads)
            if inputs is not None and all(needed.get(index, axis) == axis for index, axis in inputs.items()):
                reads[id(operator)] = inputs
                needed |= inputs
        narrowed = set(reads) - slices
        if narrowed:
            _narrow(editor, needed, narrowed)


def _takes_first(editor: GraphEditor, operator: Operator) -> bool:
    """Whether an operator is `x[:, 0:1]` of `[1, T, H]`."""
    if not editor.is_op(operator, "STRIDED_SLICE") or operator.builtinOptions.shrinkAxisMask:
        return False
    source, *bounds = (int(index) for index in operator.inputs)
    begin, end, _ = (editor.value(index, "INT32") for index in bounds)
    if begin is None or end is None or len(editor.extents(source)) != 3 or len(begin) != 3:
        return False
    result, options = editor.extents(int(operator.outputs[0])), operator.builtinOptions
    is_whole = all(result[axis] == editor.extents(source)[axis] for axis in (0, 2))
    is_open = (options.beginMask | options.endMask) >> 1 & 1  # begins or ends where the tokens do
    return is_whole and not is_open and (int(begin[1]), int(end[1])) == (0, 1)


def _inputs(editor: GraphEditor, operator: Operator, needed: Parts, reads: Mapping[int, Parts]) -> Parts | None:
    """The parts of its inputs that an operator needs, if all of its readers need only a part of its output."""
    (output,) = operator.outputs if len(operator.outputs) == 1 else (-1,)
    axis = needed.get(int(output))
    if axis is None or int(output) in editor.graph.outputs or editor.extents(int(output))[axis] == 1:
        return None
    # The second matrix of a product is read as a whole, also by a product of which a part is needed.
    if not all(int(output) in reads.get(id(reader), {}) for reader in editor.uses(int(output))):
        return None
    return _parts(editor, operator, next((name for name in _CHAINS if editor.is_op(operator, name)), ""), axis)


def _parts(editor: GraphEditor, operator: Operator, name: str, axis: int) -> Parts | None:
    output, sources = int(operator.outputs[0]), [int(index) for index in operator.inputs if index >= 0]
    rank = len(editor.extents(output))
    if name == "BATCH_MATMUL":
        adjoint = operator.builtinOptions.adjX
        is_row = axis == rank - 2 and not adjoint and len(editor.extents(sources[0])) == rank
        is_row = is_row and sources[0] != sources[1]
        return {sources[0]: axis} if is_row else None
    if name == "TRANSPOSE":
        order = editor.value(sources[1], "INT32")
        return None if order is None else {sources[0]: int(order[axis])}
    if name == "RESHAPE":
        place = _first_axis(editor.extents(sources[0]))
        same = axis == _first_axis(editor.extents(output))
        same = same and editor.extents(sources[0])[place] == editor.extents(output)[axis]
        return {sources[0]: place} if same and editor.value(sources[1], "INT32") is not None else None
    if axis == rank - 1 or not name:
        return None
    if name == "FULLY_CONNECTED" and not (
        operator.builtinOptions.keepNumDims or len(editor.extents(sources[0])) == rank
    ):
        return None
    if name == "MEAN" and not _is_over_last(editor, operator, rank):
        return None
    found = {}
    for index in sources if name in ("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE") else sources[:1]:
        place = axis - rank + len(editor.extents(index))  # of a tensor that is spread over the missing dimensions
        if place >= 0 and editor.extents(index)[place] != 1:
            found[index] = place
    size = editor.extents(output)[axis]
    return found if all(editor.extents(index)[place] == size for index, place in found.items()) else None


def _first_axis(extents: list[int]) -> int:
    """The first dimension that is not 1."""
    return next((axis for axis, size in enumerate(extents) if size != 1), len(extents) - 1)


def _is_over_last(editor: GraphEditor, operator: Operator, rank: int) -> bool:
    axes = editor.value(int(operator.inputs[1]), "INT32")
    return axes is not None and axes.size == 1 and axes.item() in (-1, rank - 1) and operator.builtinOptions.keepDims


# === Rewriting ===


def _narrow(editor: GraphEditor, needed: Mapping[int, int], narrowed: set[int]) -> None:
    """Make the outputs of operators smaller, and give them parts of what others compute."""
    parts: dict[int, int] = {}
    operators = []
    smaller = {int(one.outputs[0]) for one in editor.graph.operators if id(one) in narrowed}
    for operator in editor.graph.operators:
        if id(operator) not in narrowed:
            operators.append(operator)
            continue
        output = int(operator.outputs[0])
        wanted = _parts(
            editor, operator, next(name for name in _CHAINS if editor.is_op(operator, name)), needed[output]
        )
        for index, axis in (wanted or {}).items():
            if index in smaller:
                continue
            operators += _take_part(editor, index, axis, parts)
            operator.inputs = np.array([parts[index] if one == index else one for one in operator.inputs], np.int32)
        operators.append(operator)
    for operator in operators:
        if id(operator) in narrowed:
            _shrink(editor, operator, needed[int(operator.outputs[0])])
    editor.graph.operators = operators


def _take_part(editor: GraphEditor, index: int, axis: int, parts: dict[int, int]) -> list[Operator]:
    """The operators that make `x[..., 0:1, ...]` of a tensor, which is put into `parts`; none if it is there.

    Integers are made of the part of the floats: a file slices floats only.
    """
    if index in parts:
        return []
    extents, tensor = editor.extents(index), editor.tensor(index)
    kept = [1 if place == axis else size for place, size in enumerate(extents)]
    part = editor.add_tensor(
        "first", [max(1, size) for size in kept], type_name(tensor.type), signature=kept if -1 in kept else None
    )
    editor.tensor(part).quantization = tensor.quantization
    parts[index] = part
    maker = next((one for one in editor.graph.operators if index in one.outputs), None)
    if maker is not None and editor.is_op(maker, "QUANTIZE"):
        source = int(maker.inputs[0])
        before = _take_part(editor, source, axis, parts)
        version = editor.file.operatorCodes[maker.opcodeIndex].version
        return [*before, editor.operator("QUANTIZE", [parts[source]], [part], version=version)]
    begin, end, step = (np.full(len(extents), value, np.int32) for value in (0, 1, 1))
    options = editor.schema.StridedSliceOptionsT()
    options.beginMask = options.endMask = sum(1 << place for place in range(len(extents)) if place != axis)
    bounds = [editor.constant("bounds", values, "INT32") for values in (begin, end, step)]
    return [editor.operator("STRIDED_SLICE", [index, *bounds], [part], options=options)]


def _shrink(editor: GraphEditor, operator: Operator, axis: int) -> None:
    """Set the size of an output's dimension to 1."""
    output = int(operator.outputs[0])
    tensor, extents = editor.tensor(output), editor.extents(output)
    extents[axis] = 1
    tensor.shape = np.array([max(1, size) for size in extents], np.int32)
    tensor.shapeSignature = np.array(extents, np.int32) if -1 in extents else None
    if editor.is_op(operator, "RESHAPE"):
        shape = editor.constant("shape", np.array(extents, np.int32), "INT32")
        operator.inputs = np.array([operator.inputs[0], shape], np.int32)
        if operator.builtinOptions is not None:
            operator.builtinOptions.newShape = np.array(extents, np.int32)
