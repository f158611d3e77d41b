"""Keeps freed memory in the process, which makes training on a CPU faster; or returns it, which keeps a server small.

A training step allocates and frees large blocks of memory. By default glibc returns each of them to the kernel, so
every step has to map and zero the same pages again. A server that opens one model after the other has the opposite
need: glibc keeps blocks of several megabytes as soon as one of that size was freed. A setting changes the whole
process, so nothing in the library makes it unless it is asked to.
"""

import ctypes
import sys
from typing import Any

# From <malloc.h>.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -3, -4, -8


def keep_freed_memory() -> bool:
    """Keep freed memory in the process, so that the next training step can reuse it.

    The process then keeps its peak memory until it ends. Only glibc (most Linux systems) has the setting.

    Returns:
        Whether the setting was made.

    Example:
        >>> keep_freed_memory()  # once, before training on a CPU
        True
    """
    largest = 2**31 - 1
    return _set((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, largest), (_M_TOP_PAD, 64 << 20))


def return_freed_memory() -> bool:
    """Return large blocks to the kernel when they are freed, and keep threads from having heaps of their own.

    Returns:
        Whether the settings were made. Only glibc (most Linux systems) has them.

    Example:
        >>> return_freed_memory()  # once, before threads are started  # doctest: +SKIP
        True
    """
    return _set((_M_MMAP_THRESHOLD, 256 << 10), (_M_TRIM_THRESHOLD, 256 << 10), (_M_ARENA_MAX, 2))


def trim_memory() -> bool:
    """Return what is free now to the kernel; says whether there was something.

    Example:
        >>> trim_memory()  # doctest: +SKIP
        True
    """
    libc = _libc()
    return libc is not None and libc.malloc_trim(0) == 1


def _set(*settings: tuple[int, int]) -> bool:
    libc = _libc()
    if libc is None:
        return False
    taken = [libc.mallopt(parameter, value) == 1 for parameter, value in settings]
    return all(taken)


def _libc() -> Any:
    """The C library, if it is glibc."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.CDLL(None)
        return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
    except OSError:
        return None
