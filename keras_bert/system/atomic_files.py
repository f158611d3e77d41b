"""Files that are there whole or not at all, whatever kills the program that writes them.

Takes a path and its content. A room of its own because every part of the library leaves files that another program
reads, or that a killed run goes on from: half of one is worse than none. Standard library alone.
"""

import os
import secrets
from pathlib import Path


def write_whole(path: str | os.PathLike, content: str | bytes) -> Path:
    """Write a file by one rename, when all of it is on the disk; directories on the way are made.

    Example:
        >>> write_whole("out/notes.txt", "all of it").read_text()  # doctest: +SKIP
        'all of it'
    """
    path = Path(path)
    content = content.encode("utf-8") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own for each writer, and not tempfile's, whose files are closed to other users.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)  # gone already where all went well
    return path


def sync(path: str | os.PathLike) -> None:
    """Wait until a file or directory is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
