"""Holds a directory for one process, so that a second one does not write to it at the same time."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

try:
    import fcntl
except ImportError:  # Windows has no such lock
    fcntl = None  # type: ignore[assignment]


Function = TypeVar("Function", bound=Callable[..., Any])


@contextlib.contextmanager
def claimed(directory: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a directory until the block ends; another process that wants it meanwhile gets an error.

    The claim is a lock on the directory itself. It leaves no file, and ends with the process, however that ends. Where
    a file system has no locks, nothing is held.

    Example:
        ```python
        with claimed("my-bert"):
            train()
        ```
    """
    if fcntl is None:
        yield
        return
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise OSError(f"{directory} cannot be written ({error}); choose another directory.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(
                f"Another process is writing to {directory}; wait until it ends, stop it, or pass another directory."
            ) from error
        except OSError:
            pass
        yield
    finally:
        os.close(descriptor)


def claims_its_directory(function: Function) -> Function:
    """Let a function with a keyword `directory` hold it while it runs; `None` holds nothing.

    Example:
        ```python
        @claims_its_directory
        def train(*, directory=None): ...
        ```
    """

    @functools.wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        directory = options.get("directory")
        with contextlib.nullcontext() if directory is None else claimed(directory):
            return function(*arguments, **options)

    return run  # type: ignore[return-value]
