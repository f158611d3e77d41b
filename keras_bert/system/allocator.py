"""Keeps freed memory in the process, which makes training on a CPU faster.

A training step allocates and frees large blocks of memory. By default glibc returns each of them to the kernel, so
every step has to map and zero the same pages again. The setting changes the whole process, so nothing in the library
makes it unless it is asked to.
"""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4  # from <malloc.h>


def keep_freed_memory() -> bool:
    """Keep freed memory in the process, so that the next training step can reuse it.

    The process then keeps its peak memory until it ends. Only glibc (most Linux systems) has the setting.

    Returns:
        Whether the setting was made.

    Example:
        >>> keep_freed_memory()  # once, before training on a CPU
        True
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    largest = 2**31 - 1
    settings = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, largest), (_M_TOP_PAD, 64 << 20))
    taken = [mallopt(parameter, value) == 1 for parameter, value in settings]
    return all(taken)
