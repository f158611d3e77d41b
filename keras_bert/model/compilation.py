"""Compiles functions that call models: a graph on TensorFlow, a program for each set of shapes on JAX.

On JAX the weights are arguments of the program. New weights in the same model need no compilation, but new shapes do:
pass arrays of few shapes (`batching/inference.py` does).
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras


def compiled(
    function: Callable[..., Any], variables: Sequence[Any], *, signature: Sequence[Any] | None = None
) -> Callable[..., Any]:
    """Compile a function of tensors.

    Args:
        function: Takes tensors and structures of them, and calls models with them.
        variables: The Keras variables that it reads or changes: those of its models, and the states of its random
            numbers. Only JAX needs them.
        signature: The arguments as `keras.KerasTensor`s, so that TensorFlow traces one graph for all shapes; `None`
            traces again for other shapes. JAX compiles for each shape.

    Returns:
        A function that takes arrays or tensors and returns tensors.

    Example:
        ```python
        forward = compiled(lambda inputs: model(inputs, training=False), model.variables)
        ```
    """
    if keras.backend.backend() == "jax":
        return _jax_program(function, variables)
    import tensorflow as tf

    if signature is None:
        return tf.function(function, reduce_retracing=True)
    specs = keras.tree.map_structure(
        lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype, name=tensor.name), list(signature)
    )
    return tf.function(function, input_signature=specs)


def _jax_program(function: Callable[..., Any], variables: Sequence[Any]) -> Callable[..., Any]:
    import jax

    variables = list({id(variable): variable for variable in variables}.values())

    @jax.jit
    def program(values: list[Any], arguments: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))) as scope:
            result = function(*arguments)
        after = [scope.get_current_value(variable) for variable in variables]
        return result, [None if new is old else new for new, old in zip(after, values, strict=True)]

    def run(*arguments: Any) -> Any:
        result, changed = program([variable.value for variable in variables], arguments)
        for variable, value in zip(variables, changed, strict=True):
            if value is not None:
                variable.assign(value)
        return result

    return run
