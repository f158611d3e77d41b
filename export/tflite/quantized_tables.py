"""Store embedding tables in 4, 8 or 16 bits, with a scale for each row.

The token table is a large part of a small BERT. One GATHER reads rows of integers, another reads the row's scale, and
their product is the vector. One scale for the whole table, as converters have it, has a much larger error.

With 4 bits, two values are stored in a byte: the first half of a row times 16, plus the second half. Arithmetic on the
rows that a text looks up separates them, with ops that every runtime has; only new runtimes read tables of a 4-bit
type.
"""

import numpy as np

from export.file.editor import GraphEditor, drop_unused, editors
from export.file.parsed import Operator, TFLiteFile
from export.quantization.rounding import SMALLEST_TABLE, row_scales, table_integers


def quantize_tables(file: TFLiteFile, bits: int) -> None:
    """Rewrite the float tables of a parsed file in place.

    With 4 bits, only the largest table, that of the tokens, gets 4 bits. The others, which are small, get 8.
    """
    stored: dict[int, tuple[int, int]] = {}  # the buffers of rows and scales, by the buffer of the float table
    largest = max((values.size for editor in editors(file) for values in _tables(editor)), default=0)
    for editor in editors(file):
        operators: list[Operator] = []
        for operator in editor.graph.operators:
            values = _table(editor, operator)
            if values is None:
                operators.append(operator)
                continue
            has_four_bits = bits == 4 and values.size == largest and values.shape[1] % 2 == 0
            operators += _rewrite(editor, operator, values, stored, 4 if has_four_bits else max(8, bits))
        editor.graph.operators = operators
    drop_unused(file)


def _tables(editor: GraphEditor) -> list[np.ndarray]:
    found = (_table(editor, operator) for operator in editor.graph.operators)
    return [values for values in found if values is not None]


def _table(editor: GraphEditor, operator: Operator) -> np.ndarray | None:
    """The table that an operator reads rows of, if it is one to rewrite."""
    if not editor.is_op(operator, "GATHER") or operator.builtinOptions.axis:
        return None
    table = int(operator.inputs[0])
    values = editor.value(table)
    is_shared = any(not editor.is_op(other, "GATHER") for other in editor.uses(table))
    return None if values is None or values.ndim != 2 or values.size < SMALLEST_TABLE or is_shared else values


def _rewrite(
    editor: GraphEditor, operator: Operator, values: np.ndarray, stored: dict[int, tuple[int, int]], bits: int
) -> list[Operator]:
    table, ids = (int(index) for index in operator.inputs)
    (vectors,) = operator.outputs
    before = editor.tensor(table).buffer
    if before not in stored:  # signatures share their tables
        scale = row_scales(values, bits)
        integers = table_integers(values, scale, bits).astype(np.int16)
        stored_rows = _pack(integers) if bits == 4 else integers.astype(f"int{bits}")
        stored[before] = (editor.buffer(stored_rows), editor.buffer(scale.astype(np.float32)))
    rows, scales = stored[before]
    dtype, gather, dequantize = ("INT16", 4, 3) if bits == 16 else ("INT8", 2, 2)  # the first versions with these types
    step, width = (1 / 16, values.shape[1] // 2) if bits == 4 else (1.0, values.shape[1])
    editor.retype(table, dtype, step, buffer=rows)
    editor.tensor(table).shape = np.array([len(values), width], np.int32)
    scale_table = editor.add_tensor("row_scales", (len(values), 1), "FLOAT32", scales)
    integers = editor.like(vectors, "/integers", dtype, last=width, scale=step)
    stored_floats = editor.like(vectors, "/float", "FLOAT32", last=width)
    scale = editor.like(vectors, "/scale", "FLOAT32", last=1)
    floats, unpacking = _unpack(editor, stored_floats, vectors, width) if bits == 4 else (stored_floats, [])
    for reader in editor.uses(vectors):
        if editor.is_op(reader, "SHAPE"):  # the number of tokens must not depend on the product, which XNNPACK computes
            reader.inputs = np.array([integers], np.int32)
    options = operator.builtinOptions
    return [
        editor.operator("GATHER", [table, ids], [integers], version=gather, options=options),
        editor.operator("DEQUANTIZE", [integers], [stored_floats], version=dequantize),
        *unpacking,
        editor.operator("GATHER", [scale_table, ids], [scale], options=options),
        editor.operator("MUL", [floats, scale], [vectors]),
    ]


def _pack(integers: np.ndarray) -> np.ndarray:
    """Store two numbers from −7 to 7 in a byte: a multiple of 16, and the difference from it."""
    first, second = np.split(integers, 2, axis=1)
    return (16 * first + second).astype(np.int8)


def _unpack(editor: GraphEditor, packed: int, vectors: int, width: int) -> tuple[int, list[Operator]]:
    """Operators that separate the two numbers of a byte; `packed` are bytes over 16: the whole part, and the rest."""
    whole, left, second = (
        editor.like(vectors, f"/{name}", "FLOAT32", last=width) for name in ("whole", "left", "second")
    )
    both = editor.like(vectors, "/unpacked", "FLOAT32")
    sixteen = editor.constant("sixteen", np.array(16.0, np.float32), "FLOAT32")
    joined = editor.schema.ConcatenationOptionsT()
    joined.axis = len(editor.shape(vectors)) - 1
    return both, [
        editor.operator("ROUND", [packed], [whole]),
        editor.operator("SUB", [packed, whole], [left]),
        editor.operator("MUL", [left, sixteen], [second]),
        editor.operator("CONCATENATION", [whole, second], [both], options=joined),
    ]
