"""Layer normalizations → the form with the fewest passes over the states.

Keras computes γ/σ for every value, then x · γ/σ and β − mean · γ/σ, and adds them: five passes over `[1, T, H]` after
the variance. (x − mean) · 1/σ · γ + β takes four, and the variance is the mean of the squares of what the first of
them gives. On short texts a pass over the states costs as much as a small matrix.
"""

from export.file.editor import editors


def shorten_norms(model) -> None:
    """Rewrite a parsed float file in place; what is not the whole pattern stays."""
    for editor in editors(model):
        makers = {int(output): operator for operator in editor.graph.operators for output in operator.outputs}
        for last in list(editor.graph.operators):
            found = _find(editor, makers, last)
            if found is not None:
                _rewrite(editor, *found)


def _find(editor, makers, last):
    """The operators of a normalization that ends with `last`, its input, and γ and β."""

    def made(index, name):
        operator = makers.get(int(index))
        return operator if operator is not None and editor.is_op(operator, name) else None

    scaled, shift = _made_by(editor, makers, last, "ADD", "MUL", "ADD")
    shifted = shift and made(shift.inputs[0], "MUL")
    if not shifted or editor.value(int(shift.inputs[1])) is None:
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
    if not squares or not mean or int(mean.inputs[0]) != source:
        return None
    if [int(index) for index in squares.inputs] != [source, int(mean.outputs[0])]:
        return None
    passes = [negative, squares, factor, shifted, shift, scaled, last]
    inside = [operator for operator in passes if operator is not last] + [root]
    if any(_readers_outside(editor, operator, [*passes, variance]) for operator in inside):
        return None
    return source, mean, squares, root, factor, shift, last, [negative, factor, shifted, shift, scaled]


def _made_by(editor, makers, operator, name, first, second):
    """The makers of an operator's two inputs, where they and it are what they should be; `None` twice otherwise."""
    if not editor.is_op(operator, name) or operator.builtinOptions.fusedActivationFunction:
        return None, None
    found = [makers.get(int(index)) for index in operator.inputs]
    fits = all(
        one is not None and editor.is_op(one, wanted) for one, wanted in zip(found, (first, second), strict=True)
    )
    return tuple(found) if fits else (None, None)


def _readers_outside(editor, operator, inside):
    (output,) = (int(index) for index in operator.outputs)
    return output in editor.graph.outputs or any(
        all(reader is not one for one in inside) for reader in editor.uses(output)
    )


def _rewrite(editor, source, mean, squares, root, factor, shift, last, dropped):
    (result,) = (int(index) for index in last.outputs)
    centred, even, weighed = (editor.like(result, f"/{name}", "FLOAT32") for name in ("centred", "even", "weighed"))
    (squared,) = (int(index) for index in squares.outputs)
    new = {
        id(squares): [
            editor.operator("SUB", [source, int(mean.outputs[0])], [centred]),
            editor.operator("MUL", [centred, centred], [squared]),
        ],
        id(last): [
            editor.operator("MUL", [centred, int(root.outputs[0])], [even]),
            editor.operator("MUL", [even, int(factor.inputs[1])], [weighed]),
            editor.operator("ADD", [weighed, int(shift.inputs[1])], [result]),
        ],
    }
    gone = {id(operator) for operator in dropped}
    editor.graph.operators = [
        written
        for operator in editor.graph.operators
        if id(operator) not in gone
        for written in new.get(id(operator), [operator])
    ]
