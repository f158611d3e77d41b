"""Biases into the products that they belong to, where a dynamic length has parted them.

On `[1, T, H]` with an unknown T the converter draws a dense layer as FULLY_CONNECTED, RESHAPE, ADD; with a known one as
FULLY_CONNECTED with a bias. As one op it is the same in both, so that a quantized layer rounds the same numbers (those
with the bias) whatever the lengths of its file. A room of its own because it must come before anything is measured or
quantized.
"""

import numpy as np

from export.file_editor import editors


def fuse_biases(model) -> None:
    """Rewrite a parsed float file in place; an ADD that is no bias stays."""
    for editor in editors(model):
        for operator in list(editor.graph.operators):
            if editor.is_op(operator, "FULLY_CONNECTED") and _has_no_bias(operator):
                _fuse(editor, operator)


def _has_no_bias(operator):
    return len(operator.inputs) < 3 or operator.inputs[2] < 0


def _fuse(editor, product):
    reshape = _only_reader(editor, int(product.outputs[0]), "RESHAPE")
    addition = reshape and _only_reader(editor, int(reshape.outputs[0]), "ADD")
    if not addition or product.builtinOptions.fusedActivationFunction:
        return
    places = [int(index) for index in addition.inputs if index != reshape.outputs[0]]
    values = editor.value(places[0]) if len(places) == 1 else None
    width = int(editor.tensor(int(product.inputs[1])).shape[0])
    if values is None or values.shape != (width,) or editor.tensor(int(reshape.outputs[0])).shape[-1] != width:
        return
    product.inputs = np.array([*product.inputs[:2], places[0]], np.int32)
    product.builtinOptions.fusedActivationFunction = addition.builtinOptions.fusedActivationFunction
    reshape.outputs = addition.outputs
    editor.graph.operators = [operator for operator in editor.graph.operators if operator is not addition]


def _only_reader(editor, index, name):
    """The op that alone reads a tensor, where it is of that name."""
    if index in editor.graph.outputs:
        return None
    readers = editor.uses(index)
    return readers[0] if len(readers) == 1 and editor.is_op(readers[0], name) else None
