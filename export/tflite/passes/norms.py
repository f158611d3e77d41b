"""Rewrite layer normalizations with fewer passes over the states.

Keras computes γ/σ for every value, then x · γ/σ and β − mean · γ/σ, and adds them: five passes over `[1, T, H]` after
the variance. (x − mean) · 1/σ · γ + β takes four, and the variance is the mean of the squares of its first step. On
short texts, a pass over the states costs as much as a small matrix.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from export.file.editor import GraphEditor, editors
from export.file.parsed import Operator, TFLiteFile


@dataclass(frozen=True)
class _Norm:
    """A normalization in Keras's form: its input, the operators that the new form needs, and those that it drops."""

    source: int
    mean: Operator
    squares: Operator
    root: Operator  # 1/σ
    factor: Operator  # γ/σ
    shift: Operator  # β − mean · γ/σ
    last: Operator
    dropped: tuple[Operator, ...]


def shorten_norms(file: TFLiteFile) -> None:
    """Rewrite a parsed float file in place; anything but the whole pattern stays."""
    for editor in editors(file):
        makers = {int(output): operator for operator in editor.graph.operators for output in operator.outputs}
        for last in list(editor.graph.operators):
            found = _find(editor, makers, last)
            if found is not None:
                _rewrite(editor, found)


def _find(editor: GraphEditor, makers: Mapping[int, Operator], last: Operator) -> _Norm | None:
    """The normalization that ends with `last`, if there is one."""

    def made(index: int, name: str) -> Operator | None:
        operator = makers.get(int(index))
        return operator if operator is not None and editor.is_op(operator, name) else None

    scaled, shift = _made_by(editor, makers, last, "ADD", "MUL", "ADD")
    shifted = shift and made(shift.inputs[0], "MUL")
    if not scaled or not shift or not shifted or editor.value(int(shift.inputs[1])) is None:
        return None
    source, weight = (int(index) for index in scaled.inputs)
    minus, same = (int(index) for index in shifted.inputs)
    factor, negative = made(weight, "MUL"), made(minus, "NEG")
    if same != weight or not factor or not negative or editor.value(int(factor.inputs[1])) is None:
        return None
    root, mean = made(factor.inputs[0], "RSQRT"), made(negative.inputs[0], "MEAN")
    safe = root and made(root.inputs[0], "ADD")
    variance = safe and made(safe.inputs[0], "MEAN")
    squares = variance and made(variance.inputs[0], "SQUARED_DIFFERENCE")
    if not root or not variance or not squares or not mean or int(mean.inputs[0]) != source:
        return None
    if [int(index) for index in squares.inputs] != [source, int(mean.outputs[0])]:
        return None
    passes = [negative, squares, factor, shifted, shift, scaled, last]
    inside = [operator for operator in passes if operator is not last] + [root]
    if any(_readers_outside(editor, operator, [*passes, variance]) for operator in inside):
        return None
    return _Norm(source, mean, squares, root, factor, shift, last, (negative, factor, shifted, shift, scaled))


def _made_by(
    editor: GraphEditor, makers: Mapping[int, Operator], operator: Operator, name: str, first: str, second: str
) -> tuple[Operator, Operator] | tuple[None, None]:
    """The producers of an operator's two inputs, if all are ops of the given names; else `None` twice."""
    if not editor.is_op(operator, name) or operator.builtinOptions.fusedActivationFunction:
        return None, None
    one, other = (makers.get(int(index)) for index in operator.inputs)
    if one is None or other is None or not editor.is_op(one, first) or not editor.is_op(other, second):
        return None, None
    return one, other


def _readers_outside(editor: GraphEditor, operator: Operator, inside: Sequence[Operator]) -> bool:
    (output,) = (int(index) for index in operator.outputs)
    return output in editor.graph.outputs or any(
        all(reader is not one for one in inside) for reader in editor.uses(output)
    )


def _rewrite(editor: GraphEditor, norm: _Norm) -> None:
    (result,) = (int(index) for index in norm.last.outputs)
    centred, even, weighed = (editor.like(result, f"/{name}", "FLOAT32") for name in ("centred", "even", "weighed"))
    (squared,) = (int(index) for index in norm.squares.outputs)
    new = {
        id(norm.squares): [
            editor.operator("SUB", [norm.source, int(norm.mean.outputs[0])], [centred]),
            editor.operator("MUL", [centred, centred], [squared]),
        ],
        id(norm.last): [
            editor.operator("MUL", [centred, int(norm.root.outputs[0])], [even]),
            editor.operator("MUL", [even, int(norm.factor.inputs[1])], [weighed]),
            editor.operator("ADD", [weighed, int(norm.shift.inputs[1])], [result]),
        ],
    }
    gone = {id(operator) for operator in norm.dropped}
    editor.graph.operators = [
        written
        for operator in editor.graph.operators
        if id(operator) not in gone
        for written in new.get(id(operator), [operator])
    ]
