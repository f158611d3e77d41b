"""Reads JSON files with clear errors, and writes model directories atomically."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from keras_bert.system.atomic_files import held, sync, temporary_directory, write_whole

# A directory of new files that are complete but not yet moved, and in it the names of files that they replace.
_WAITING, _STALE = ".keras_bert_new", ".stale.json"


class CheckpointError(ValueError):
    """Raised when a checkpoint cannot be read or written; the message says what is wrong and what to do."""


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing; expected a file with a JSON object.") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is not JSON ({error}); the file is damaged or cut off: download or write it again."
        ) from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} holds a JSON {type(values).__name__}; expected an object: download it again.")
    return values


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write a JSON object, readable and with a line end."""
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def name_list(names: Iterable[str], limit: int = 8) -> str:
    """Return names for an error message: the first few, and how many more there are."""
    names = list(names)
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


@contextlib.contextmanager
def written_whole(directory: Path, stale: Iterable[str] = ()) -> Iterator[Path]:
    """Give an empty directory to write into, and move its files to `directory` when all of them are on the disk.

    A new directory appears by one rename. If the directory exists, the new files first move into it by one rename and
    then to their places one by one; other files stay. If the process is killed in between, `finish_writing` completes
    the work when the directory is next opened. After an error, nothing of the new files is left.

    Args:
        directory: Where to write.
        stale: Names of files of the old model, which are deleted unless they are written again.
    """
    # Next to a new directory, or inside an existing one: always on the same disk, so that a rename is enough.
    place = directory if directory.is_dir() else directory.parent
    place.mkdir(parents=True, exist_ok=True)
    # Not tempfile.mkdtemp: other users could not read its directory, and so not the model's.
    with temporary_directory(place, f".{directory.name}.", ".partial") as partial:
        yield partial
        for file in partial.rglob("*"):
            sync(file)
        _put_in_place(partial, directory, stale)


def _put_in_place(partial: Path, directory: Path, stale: Iterable[str]) -> None:
    """Move a directory of new files, which this process holds a lock on, to its place."""
    if not directory.exists():
        with contextlib.suppress(OSError):  # another process was faster
            partial.rename(directory)
            return
    gone = [name for name in stale if not (partial / name).exists()]
    write_whole(partial / _STALE, json.dumps(gone))
    while True:
        finish_writing(directory)
        try:
            partial.rename(directory / _WAITING)
            break
        except OSError:
            if not (directory / _WAITING).exists():  # else it is another process' that saves to the same place
                raise
    _move_waiting(directory)


def finish_writing(directory: Path) -> None:
    """Move complete files of a killed writer into place; do nothing if there are none.

    If their writer is moving them at this moment, this waits until they are in place.
    """
    waiting = directory / _WAITING
    if not waiting.is_dir():
        return
    with held(waiting) as is_there:
        if is_there:
            _move_waiting(directory)


def _move_waiting(directory: Path) -> None:
    waiting = directory / _WAITING
    try:
        if (waiting / _STALE).exists():
            for name in json.loads((waiting / _STALE).read_text(encoding="utf-8")):
                _inside(directory, name).unlink(missing_ok=True)
            (waiting / _STALE).unlink()
        _move_files(waiting, directory)
        shutil.rmtree(waiting)
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"Writing {directory} was interrupted and could not be finished ({error}); the new files are in {waiting}: "
            "make the directory writable and open it, or save the model again."
        ) from error


def _move_files(source: Path, target: Path) -> None:
    for file in sorted(source.rglob("*")):
        place = _inside(target, file.relative_to(source))
        if file.is_dir():
            place.mkdir(exist_ok=True)
        else:
            os.replace(file, place)


def _inside(directory: Path, name: str | Path) -> Path:
    """Return a path in the directory; raise an error if it leads out of it: the directory may not be trusted."""
    path = directory / name
    if not path.parent.resolve().is_relative_to(directory.resolve()):
        raise ValueError(f"{path} is outside of the directory")
    return path
