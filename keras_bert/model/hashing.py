"""A keyed 32-bit integer hash of counters: random bits that are the same in NumPy and on every backend and device."""

from typing import Any

import numpy as np
from keras import ops

# Multipliers of the "lowbias32" integer hash (Wellons, hash prospector): each output bit depends on each input bit.
_FIRST_MULTIPLIER = 0x7FEB352D
_SECOND_MULTIPLIER = 0x846CA68B


def scramble(x: Any) -> Any:
    """Hash an array of unsigned 32-bit integers; a bijection.

    Example:
        >>> scramble(np.array([1, 2], "uint32")).tolist()
        [1753845952, 3507691905]
    """
    x = (x ^ _shifted(x, 16)) * word(_FIRST_MULTIPLIER, x)
    x = (x ^ _shifted(x, 15)) * word(_SECOND_MULTIPLIER, x)
    return x ^ _shifted(x, 16)


def random_bits(counter: Any, first_key: Any, second_key: Any) -> Any:
    """Return 32 random bits for every number of a counter.

    Hashes twice, with a different key before each round (a small Even-Mansour cipher): with one round and one key, two
    calls could get the same bits in a different order.
    """
    return scramble(scramble(counter ^ first_key) ^ second_key)


def word(value: int, like: Any) -> Any:
    """Return an unsigned 32-bit number: NumPy's beside an array of NumPy, else the backend's."""
    return np.uint32(value) if isinstance(like, np.ndarray) else ops.convert_to_tensor(value, dtype="uint32")


def _shifted(x: Any, places: int) -> Any:
    return np.right_shift(x, np.uint32(places)) if isinstance(x, np.ndarray) else ops.right_shift(x, word(places, x))
