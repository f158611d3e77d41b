"""Remove position rows that no text of a task can reach.

A file for any length stores the encoder's whole position table, but a task reads only the first `sequence_length` rows.
Files for given lengths have only those rows already: their lookup is a constant.
"""

import numpy as np

from export.file.editor import drop_unused, editors
from export.file.parsed import TFLiteFile


def drop_positions(file: TFLiteFile, longest: int) -> None:
    """Shorten the position tables of a parsed file in place to the first `longest` rows.

    A position table is one whose rows are looked up by RANGE, as `BertEmbeddings` does for a dynamic length. A longer
    row then raises an error in the lookup.
    """
    for editor in editors(file):
        counted = {
            int(output)
            for operator in editor.graph.operators
            if editor.is_op(operator, "RANGE")
            for output in operator.outputs
        }
        for operator in editor.graph.operators:
            if not editor.is_op(operator, "GATHER") or int(operator.inputs[1]) not in counted:
                continue
            table = int(operator.inputs[0])
            values = editor.value(table)
            if values is None or values.ndim != 2 or len(values) <= longest:
                continue
            if len(editor.uses(table)) > 1:  # the converter stores equal constants once
                shorter = editor.constant("positions", values[:longest], "FLOAT32")
                operator.inputs = np.array([shorter, operator.inputs[1]], np.int32)
                continue
            tensor = editor.tensor(table)
            tensor.buffer = editor.buffer(values[:longest])
            tensor.shape = np.array([longest, values.shape[1]], np.int32)
    drop_unused(file)
