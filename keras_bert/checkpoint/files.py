"""Files that may be broken, and files that must not be: careful JSON, directories written all or nothing.

Takes paths; gives values, or an error that names the file and what is wrong with it. A room of its own,
because every format reads JSON that others wrote, and every format must leave either the old model or the new
one, never half of each.
"""

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from keras_bert.system.atomic_files import sync, write_whole

# What was written whole and is not all in its place yet, and in it the names of files that it takes the place of.
_WAITING, _STALE = ".keras_bert_new", ".stale.json"


class CheckpointError(ValueError):
    """A checkpoint that cannot be read or written; the message says what is wrong and what to do."""


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing; expected a file with a JSON object.") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is not JSON ({error}); the file is damaged or cut off: fetch or write it again."
        ) from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path} holds a JSON {type(values).__name__}; expected an object.")
    return values


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write a JSON object, readable and with a line end."""
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def name_list(names: Iterable[str], limit: int = 8) -> str:
    """Names for an error message: the first few, and how many more there are."""
    names = list(names)
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


@contextlib.contextmanager
def written_whole(directory: Path, stale: Iterable[str] = ()) -> Iterator[Path]:
    """Gives an empty directory to write into; when all went well and is on the disk, what was written moves into place.

    A new directory appears by one rename. Into one that exists, what was written moves by one rename, too, and from
    there file by file; other files stay as they are. Killed in between, `finish_writing` does the rest when the
    directory is next opened. When something goes wrong, nothing of it is left.

    Args:
        directory: Where to write.
        stale: Names of files that go where they are not written anew, for they belong to what was there before.
    """
    # Beside a new directory, inside one that exists: always on the same disk, so that a rename is enough.
    place = directory if directory.is_dir() else directory.parent
    place.mkdir(parents=True, exist_ok=True)
    # Not tempfile.mkdtemp: its directories are closed to other users, and the model's would stay closed.
    partial = place / f".{directory.name}.{uuid.uuid4().hex[:8]}.partial"
    partial.mkdir()
    try:
        yield partial
        for file in partial.rglob("*"):
            sync(file)
        if directory.exists():
            finish_writing(directory)
            gone = [name for name in stale if not (partial / name).exists()]
            write_whole(partial / _STALE, json.dumps(gone))
            partial.rename(directory / _WAITING)
            finish_writing(directory)
        else:
            partial.rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def finish_writing(directory: Path) -> None:
    """Move into place what a writer that was killed had written whole; nothing where there is nothing to do."""
    waiting = directory / _WAITING
    if not waiting.is_dir():
        return
    try:
        if (waiting / _STALE).exists():
            for name in json.loads((waiting / _STALE).read_text(encoding="utf-8")):
                _inside(directory, name).unlink(missing_ok=True)
            (waiting / _STALE).unlink()
        _move_files(waiting, directory)
        shutil.rmtree(waiting)
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"Writing {directory} was interrupted and could not be finished ({error}); what is new is in {waiting}: "
            "open it where it can be written, or save the model again."
        ) from error


def _move_files(source, target):
    for file in sorted(source.rglob("*")):
        place = _inside(target, file.relative_to(source))
        if file.is_dir():
            place.mkdir(exist_ok=True)
        else:
            os.replace(file, place)


def _inside(directory, name):
    """A path in the directory; an error for one that leads out of it, for the directory may be a stranger's."""
    path = directory / name
    if not path.parent.resolve().is_relative_to(directory.resolve()):
        raise ValueError(f"{path} is outside of it")
    return path
