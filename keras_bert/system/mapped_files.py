"""Gives back the memory of a mapped file that was read once and is not needed again.

A runtime maps a model's file and copies its matrices into a form of its own. The pages that it read stay in memory, and
count as memory of the process, until the kernel needs them for something else.
"""

import ctypes
import os
import sys
from pathlib import Path

_MADV_DONTNEED = 4  # from <sys/mman.h>


def release_mapped(path: str | os.PathLike[str]) -> int:
    """Give back the pages of a file's read-only mappings; what is read again is loaded again.

    Args:
        path: The file, under the name that it was opened by.

    Returns:
        The bytes of the mappings; 0 where there are none, or on another system than Linux.

    Example:
        >>> release_mapped("never-opened.tflite")
        0
    """
    if not sys.platform.startswith("linux"):
        return 0
    try:
        lines, libc = Path("/proc/self/maps").read_text().splitlines(), ctypes.CDLL(None, use_errno=True)
    except OSError:
        return 0
    name, released = str(Path(path).resolve()), 0
    for line in lines:
        parts = line.split(maxsplit=5)
        if len(parts) < 6 or parts[5].removesuffix(" (deleted)") != name or "w" in parts[1]:
            continue
        begin, end = (int(number, 16) for number in parts[0].split("-"))
        if libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_DONTNEED) == 0:
            released += end - begin
    return released
