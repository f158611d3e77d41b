"""Embedding tables → int8, or int16, with a scale for each row.

The table is half of a small BERT. GATHER reads rows of integers as it reads others; a second GATHER reads the row's
scale, and their product is the vector. With one scale for the whole table, as converters have it, the error is four
times as large.
"""

import numpy as np

from export.file_editor import drop_unused, editors

SMALLEST_TABLE = 4096  # values; a smaller table is not worth the two more ops


def quantize_tables(model, bits: int) -> None:
    """Rewrite the float tables of a parsed file in place, with 8 or 16 bits."""
    stored: dict = {}
    for editor in editors(model):
        operators: list = []
        for operator in editor.graph.operators:
            operators += _rewrite(editor, operator, stored, bits) if editor.is_op(operator, "GATHER") else [operator]
        editor.graph.operators = operators
    drop_unused(model)


def row_scales(values: np.ndarray, bits: int) -> np.ndarray:
    """The scale of each row, `[rows, 1]`: its largest value is the end of the integers.

    Example:
        >>> row_scales(np.array([[2.0, -254.0]]), 8).tolist()
        [[2.0]]
    """
    return np.maximum(np.abs(values).max(axis=1, keepdims=True), 1e-12) / (2 ** (bits - 1) - 1)


def _rewrite(editor, operator, stored, bits):
    table, ids = (int(index) for index in operator.inputs)
    (vectors,) = operator.outputs
    values = editor.value(table)
    is_shared = any(not editor.is_op(other, "GATHER") for other in editor.uses(table))
    if values is None or values.ndim != 2 or values.size < SMALLEST_TABLE or is_shared or operator.builtinOptions.axis:
        return [operator]
    before = editor.tensor(table).buffer
    if before not in stored:  # signatures share their tables
        scale = row_scales(values, bits)
        integers = np.round(values / scale).astype(f"int{bits}")
        stored[before] = (editor.buffer(integers), editor.buffer(scale.astype(np.float32)))
    rows, scales = stored[before]
    dtype, gather, dequantize = ("INT8", 2, 2) if bits == 8 else ("INT16", 4, 3)  # the first versions that take them
    editor.retype(table, dtype, 1.0, buffer=rows)
    scale_table = editor.add_tensor("row_scales", (len(values), 1), "FLOAT32", scales)
    integers = editor.like(vectors, "/integers", dtype, scale=1.0)
    floats = editor.like(vectors, "/float", "FLOAT32")
    scale = editor.like(vectors, "/scale", "FLOAT32", last=1)
    for reader in editor.uses(vectors):
        if editor.is_op(reader, "SHAPE"):  # what counts tokens must not wait for the product: XNNPACK computes that
            reader.inputs = np.array([integers], np.int32)
    options = operator.builtinOptions
    return [
        editor.operator("GATHER", [table, ids], [integers], version=gather, options=options),
        editor.operator("DEQUANTIZE", [integers], [floats], version=dequantize),
        editor.operator("GATHER", [scale_table, ids], [scale], options=options),
        editor.operator("MUL", [floats, scale], [vectors]),
    ]
