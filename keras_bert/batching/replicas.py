"""The devices that share a batch: how many there are, and how they get their part of it."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import keras

# Devices that are not there, for which a step is compiled.
_ASSUMED: ContextVar[int | None] = ContextVar("_ASSUMED", default=None)


@contextlib.contextmanager
def assumed_replicas(count: int) -> Iterator[None]:
    """Make batches inside the context as for so many devices, although they are not there.

    Example:
        >>> with assumed_replicas(4):
        ...     replica_count()
        4
    """
    token = _ASSUMED.set(count)
    try:
        yield
    finally:
        _ASSUMED.reset(token)


def replica_count() -> int:
    """Return the number of devices among which the current scope divides a batch; 1 outside of scopes.

    Example:
        >>> replica_count()
        1
    """
    if (assumed := _ASSUMED.get()) is not None:
        return assumed
    if keras.backend.backend() == "jax":
        distribution = keras.distribution.distribution()
        return 1 if distribution is None else int(distribution.device_mesh.shape[0])
    import tensorflow as tf

    return int(tf.distribute.get_strategy().num_replicas_in_sync)


def divide_rows(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return arrays whose rows are divided among JAX's devices, if the current scope has several; else the same."""
    distribution = keras.distribution.distribution() if keras.backend.backend() == "jax" else None
    if distribution is None:
        return arrays
    import jax

    layouts = {name: distribution.get_data_layout(array.shape).backend_layout for name, array in arrays.items()}
    return {name: jax.device_put(array, layouts[name]) for name, array in arrays.items()}
