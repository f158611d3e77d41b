"""The weights of one model → another that has the same parts.

A room of its own because models with the same layers are made for many ends (packed for training, plain for answers,
with other heads, with a smaller token table) and weights travel between them by name.
"""

from collections.abc import Callable

import keras
import numpy as np

TOKEN_TABLE = "token_embedding/embeddings"


def copy_weights(
    source: keras.Model,
    target: keras.Model,
    *,
    skip: Callable[[str], bool] = lambda path: False,
    allow_missing: bool = False,
    table_rows: np.ndarray | None = None,
) -> list[str]:
    """Give a model the weights of another that has the same parts; LoRA's updates are added to their kernels.

    Args:
        source: The model to copy from.
        target: The model to copy to.
        skip: Says by a weight's path whether the target keeps its own.
        allow_missing: Whether the target may have layers that the source has not, which keep their own weights too.
        table_rows: Where one of the two has only some rows of the token table: the ids of these rows.

    Returns:
        The names of the target's layers that the source has not.

    Example:
        ```python
        copy_weights(trained, fresh)
        ```
    """
    values = {variable.path: variable for variable in source.weights} | _merged_kernels(source)
    missing = [weight.path for weight in target.weights if weight.path not in values]
    if missing and not allow_missing:
        raise ValueError(f"The models differ: the source has no {', '.join(missing[:5])}.")
    for weight in target.weights:
        if weight.path in values and not skip(weight.path):
            # A copy, because on JAX a shared buffer is gone after the other model's next step.
            value = to_numpy(values[weight.path])
            if weight.path == TOKEN_TABLE and table_rows is not None:
                value = _fit_table(value, weight, table_rows)
            weight.assign(value)
    return list(dict.fromkeys(path.split("/")[0] for path in missing))


def _fit_table(value, weight, rows):
    if len(value) > len(rows):
        return value[rows]
    table = to_numpy(weight)
    table[rows] = value
    return table


def to_numpy(variable) -> np.ndarray:
    """A copy of a variable's value, wherever it lies.

    Example:
        >>> to_numpy(keras.Variable([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """
    # By way of a tensor: a variable that lies on several devices is no array by itself.
    return np.array(keras.ops.convert_to_numpy(keras.ops.convert_to_tensor(variable)), order="C")


def _merged_kernels(model):
    merged = {}
    for layer in model.layers:
        attention = getattr(layer, "attention", None)
        for part in (attention.query, attention.value) if attention is not None else ():
            if part.lora_enabled:
                merged[part._kernel.path] = part.kernel
    return merged
