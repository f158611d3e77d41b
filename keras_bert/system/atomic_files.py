"""Writes files atomically: after a crash a file is either complete or not there at all.

What is being written has a temporary name and a lock. The lock ends with the process, so that the next writer knows
what a killed one has left, and removes it.
"""

import contextlib
import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows: what a killed process has left stays
    fcntl = None  # type: ignore[assignment]


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
    remove_abandoned(path.parent, f".{_literal(path.name)}.*.partial")
    # Each writer has a different name. tempfile is not used: other users could not read its files.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with _open_held(partial) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:
                os.replace(partial, path)  # while the lock is held
        if fcntl is None:
            os.replace(partial, path)  # Windows does not rename an open file
    finally:
        partial.unlink(missing_ok=True)  # after a successful rename it no longer exists
    return path


@contextlib.contextmanager
def temporary_directory(parent: Path, name: str, ending: str = "") -> Iterator[Path]:
    """Make a directory with a name of its own inside `parent`, and remove what is left of it in the end.

    Directories of the same kind that a killed process has left are removed first; those of running ones stay.

    Example:
        ```python
        with temporary_directory(target.parent, ".new-") as place:
            (place / "model.tflite").write_bytes(content)
            os.replace(place / "model.tflite", target)
        ```
    """
    parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(parent, f"{_literal(name)}*{_literal(ending)}")
    place = parent / f"{name}{secrets.token_hex(4)}{ending}"
    descriptor = _make_held(place)
    try:
        yield place
    finally:
        if descriptor is not None:
            os.close(descriptor)
        shutil.rmtree(place, ignore_errors=True)  # after a successful rename it no longer exists


@contextlib.contextmanager
def held(directory: Path) -> Iterator[bool]:
    """Wait for the lock of a directory that another writer may hold, and hold it; gives whether it is still there.

    Example:
        ```python
        with held(place) as is_there:
            if is_there:
                finish(place)
        ```
    """
    if fcntl is None:
        yield directory.is_dir()
        return
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        _lock(descriptor, wait=True)
        # Another directory may have come to its place meanwhile; its writer takes care of it.
        yield directory.is_dir() and os.path.samestat(directory.stat(), os.fstat(descriptor))
    finally:
        os.close(descriptor)


def remove_abandoned(directory: Path, pattern: str) -> None:
    """Remove the files and directories of this pattern that no running process holds a lock on."""
    if fcntl is None:
        return
    for path in directory.glob(pattern):
        with contextlib.suppress(OSError):  # somebody else was faster, or it is not ours to remove
            descriptor = os.open(path, os.O_RDONLY)
            try:
                if not _lock(descriptor):
                    continue
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            finally:
                os.close(descriptor)


def _open_held(path: Path) -> BinaryIO:
    """Open a new file for writing, with a lock until it is closed."""
    while True:
        file = open(path, "wb")  # noqa: SIM115
        _lock(file.fileno(), wait=True)
        if path.exists():
            return file
        file.close()  # taken for an abandoned one before it had its lock


def _make_held(path: Path) -> int | None:
    """Make a directory, with a lock until the descriptor that is returned is closed."""
    while True:
        path.mkdir()
        if fcntl is None:
            return None
        with contextlib.suppress(FileNotFoundError):  # taken for an abandoned one before it had its lock
            descriptor = os.open(path, os.O_RDONLY)
            _lock(descriptor, wait=True)
            if path.exists():
                return descriptor
            os.close(descriptor)


def _lock(descriptor: int, *, wait: bool = False) -> bool:
    """Take a lock until the descriptor is closed; `False` if another process has it or there are no locks here."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _literal(name: str) -> str:
    """Return a name in which a pattern has no special characters."""
    return glob.escape(name)


def sync(path: str | os.PathLike[str]) -> None:
    """Wait until a file or directory is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
