"""Rewrite a converted graph with ops that XNNPACK takes, so that it runs as one partition.

Keras writes `x[:, 0]` as a STRIDED_SLICE that removes a dimension; it becomes one that keeps it, and a RESHAPE. With a
dynamic length, a dense layer on `[1, T, H]` computes the shapes of two reshapes with SHAPE, GATHER and PACK; they
become a constant shape with one −1. `ops.take` allows negative ids, which count from a table's end, with three ops for
each lookup; they are removed, because ids are never negative.
"""

from collections.abc import Callable

import numpy as np

from export.file.contents import type_name
from export.file.editor import GraphEditor, editors
from export.file.parsed import Operator, Subgraph, TFLiteFile


def fit_delegate(file: TFLiteFile) -> None:
    """Rewrite a parsed file in place; ops that cannot be simplified stay."""
    for editor in editors(file):
        _take_ids_as_they_are(editor)
        operators = []
        for operator in editor.graph.operators:
            if editor.is_op(operator, "STRIDED_SLICE"):
                operators += _keep_dimensions(editor, operator)
                continue
            if editor.is_op(operator, "RESHAPE"):
                _fix_shape(editor, operator)
            operators.append(operator)
        editor.graph.operators = operators
        _drop_unread(editor.graph)


def _drop_unread(graph: Subgraph) -> None:
    """Remove operators whose outputs nothing reads."""
    before = None
    while before != len(graph.operators):
        before = len(graph.operators)
        read = {int(index) for operator in graph.operators for index in operator.inputs} | set(map(int, graph.outputs))
        graph.operators = [one for one in graph.operators if read.intersection(map(int, one.outputs))]


# === Lookups ===


def _take_ids_as_they_are(editor: GraphEditor) -> None:
    """Turn `GATHER(table, SELECT(ids < 0, ids + rows, ids))` into `GATHER(table, ids)`."""
    makers = {int(output): operator for operator in editor.graph.operators for output in operator.outputs}
    for operator in editor.graph.operators:
        chosen = makers.get(int(operator.inputs[1])) if editor.is_op(operator, "GATHER") else None
        if chosen is None or not any(editor.is_op(chosen, name) for name in ("SELECT", "SELECT_V2")):
            continue
        condition, wrapped, ids = (int(index) for index in chosen.inputs)
        is_below = _reads(editor, makers.get(condition), "LESS", ids, lambda zero: zero == 0)
        if is_below and _reads(editor, makers.get(wrapped), "ADD", ids, lambda rows: rows > 0):
            operator.inputs = np.array([operator.inputs[0], ids], np.int32)


def _reads(editor: GraphEditor, operator: Operator | None, name: str, ids: int, is_fine: Callable[[int], bool]) -> bool:
    """Whether an operator is the op of that name on the ids and a suitable constant."""
    if operator is None or not editor.is_op(operator, name) or int(operator.inputs[0]) != ids:
        return False
    value = editor.value(int(operator.inputs[1]), "INT32")
    return value is not None and value.size == 1 and bool(is_fine(value.item()))


# === Reshapes ===


def _fix_shape(editor: GraphEditor, operator: Operator) -> None:
    if len(operator.inputs) < 2 or editor.value(int(operator.inputs[1]), "INT32") is not None:
        return
    (result,) = operator.outputs
    shape = editor.extents(result)
    for reader in editor.uses(result):
        if editor.is_op(reader, "FULLY_CONNECTED") and reader.inputs[0] == result and len(shape) == 2:
            shape[1] = editor.shape(reader.inputs[1])[1]
            editor.tensor(result).shape = np.array([1, shape[1]], np.int32)
            editor.tensor(result).shapeSignature = np.array(shape, np.int32)
    if shape.count(-1) > 1:
        return
    target = editor.constant("shape", np.array(shape, np.int32), "INT32")
    operator.inputs = np.array([operator.inputs[0], target], np.int32)


# === Slices ===


def _keep_dimensions(editor: GraphEditor, operator: Operator) -> list[Operator]:
    """Turn `x[:, 0]` into `x[:, 0:1]` and a reshape; leave other slices as they are."""
    options, (result,) = operator.builtinOptions, operator.outputs
    source, *bounds = (int(index) for index in operator.inputs)
    begin, end, _ = (editor.value(index, "INT32") for index in bounds)
    shape, target = editor.extents(source), editor.extents(result)
    if begin is None or end is None or len(begin) != len(shape) or options.ellipsisMask or options.newAxisMask:
        return [operator]
    if not target or not options.shrinkAxisMask or target.count(-1) > 1:
        return [operator]
    removed = [axis for axis in range(len(shape)) if options.shrinkAxisMask >> axis & 1]
    end, kept = end.copy(), list(target)
    for axis in removed:
        end[axis] = begin[axis] + 1
        if begin[axis] == -1:  # the last item: −1:0 would be empty
            options.endMask |= 1 << axis
        kept.insert(axis, 1)
    options.shrinkAxisMask = 0
    name, dtype = "slice", type_name(editor.tensor(source).type)
    sliced = editor.add_tensor(name, [max(1, size) for size in kept], dtype, signature=kept if -1 in kept else None)
    operator.inputs = np.array([source, bounds[0], editor.constant(name, end, "INT32"), bounds[2]], np.int32)
    operator.outputs = np.array([sliced], np.int32)
    shape = editor.constant("shape", np.array(target, np.int32), "INT32")
    return [operator, editor.operator("RESHAPE", [sliced, shape], [result])]
