"""Writes files atomically: after a crash a file is either complete or not there at all."""

import os
import secrets
from pathlib import Path


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file under a temporary name and rename it when all of it is on the disk.

    Missing parent directories are created.

    Example:
        >>> write_whole("out/notes.txt", "all of it").read_text()  # doctest: +SKIP
        'all of it'
    """
    path = Path(path)
    content = content.encode("utf-8") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    # Each writer has a different name. tempfile is not used: other users could not read its files.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)  # after a successful rename it no longer exists
    return path


def sync(path: str | os.PathLike[str]) -> None:
    """Wait until a file or directory is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
