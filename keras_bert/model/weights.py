"""Copies weights by name between models that share layers.

The same layers appear in models for shared rows and for plain ones, with different heads, or with a smaller token
table.
"""

from collections.abc import Callable
from typing import Any

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
    """Copy the weights of one model to another with the same layers; LoRA's updates are merged into their kernels.

    Args:
        source: The model to copy from.
        target: The model to copy to.
        skip: Returns, for a weight's path, whether the target keeps its own weight.
        allow_missing: Whether the target may have layers that the source lacks. They keep their weights.
        table_rows: If one of the models has only some rows of the token table: the ids of these rows.

    Returns:
        The names of the target's layers that the source lacks.

    Example:
        ```python
        copy_weights(trained, fresh)
        ```
    """
    values = {variable.path: variable for variable in source.weights} | _merged_kernels(source)
    missing = [weight.path for weight in target.weights if weight.path not in values]
    if missing and not allow_missing:
        raise ValueError(
            f"The models differ: the source has no {', '.join(missing[:5])}; pass models with the same layers, or "
            "allow_missing=True."
        )
    for weight in target.weights:
        if weight.path in values and not skip(weight.path):
            # A copy, because on JAX a shared buffer is freed by the other model's next step.
            value = to_numpy(values[weight.path])
            if weight.path == TOKEN_TABLE and table_rows is not None:
                value = _fit_table(value, weight, table_rows)
            weight.assign(value)
    return list(dict.fromkeys(path.split("/")[0] for path in missing))


def _fit_table(value: np.ndarray, weight: Any, rows: np.ndarray) -> np.ndarray:
    if len(value) > len(rows):
        return value[rows]
    table = to_numpy(weight)
    table[rows] = value
    return table


def to_numpy(variable: Any) -> np.ndarray:
    """Return a copy of a variable's value as NumPy, from any device.

    Example:
        >>> to_numpy(keras.Variable([1.0, 2.0])).tolist()
        [1.0, 2.0]
    """
    # Through a tensor: a variable on several devices cannot be converted directly.
    return np.array(keras.ops.convert_to_numpy(keras.ops.convert_to_tensor(variable)), order="C")


def _merged_kernels(model: keras.Model) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer in model.layers:
        attention = getattr(layer, "attention", None)
        for part in (attention.query, attention.value) if attention is not None else ():
            if part.lora_enabled:
                merged[part._kernel.path] = part.kernel
    return merged
