"""Find the file that a server serves: a `.tflite` file, a directory with versions, or a model that is converted first.

Conversion needs TensorFlow, so it happens in a process of its own; its result is kept and found again.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert.system.atomic_files import temporary_directory

_FILE, _TASK = "model.tflite", "keras_bert_task.json"


@dataclass(frozen=True)
class Found:
    """A version that was found; `stamp` changes when the file does."""

    number: int
    path: Path
    stamp: tuple[int, ...]


@dataclass(frozen=True)
class Source:
    """Where versions are found: a file, which is version 1, or a directory with `1/model.tflite`, `2/model.tflite` ….

    A file that is replaced is opened again.

    Args:
        path: The file, or the directory.
        name: The name of the model in requests.
    """

    path: Path
    name: str

    def find(self) -> list[Found]:
        """The versions that there are, the highest first."""
        if not self.path.is_dir():
            return [_found(1, self.path)] if self.path.is_file() else []
        files = [(int(place.name), place / _FILE) for place in self.path.iterdir() if place.name.isdecimal()]
        return [_found(number, path) for number, path in sorted(files, reverse=True) if path.is_file()]


def _found(number: int, path: Path) -> Found:
    facts = path.stat()
    return Found(number, path, (facts.st_ino, facts.st_mtime_ns, facts.st_size))


# === What a path means ===


def open_source(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    recipe: str = "dynamic_int8",
    cache: str | os.PathLike[str] | None = None,
    imports: Sequence[str] = (),
) -> Source:
    """Find what to serve; a model directory is converted first.

    Args:
        path: A `.tflite` file; a directory with `model.tflite`, or with versions `1/model.tflite` …; or a model that
            `finetune` wrote.
        name: The name of the model in requests; `None` takes the directory's or the file's.
        recipe: How a model is converted.
        cache: Where converted files are kept; `None` is `keras-bert` in the user's cache directory.
        imports: Modules or files that register the model's task, for the process that converts.

    Example:
        >>> open_source("out/model.tflite").name  # doctest: +SKIP
        'out'
    """
    path = Path(path).expanduser().resolve()
    if not path.exists():
        raise FileNotFoundError(f"There is no {path}; expected a .tflite file, or a directory of a model.")
    name = _check_name(_name_of(path) if name is None else name)
    if path.is_file():
        return Source(path, name)
    versions = [place for place in path.iterdir() if place.name.isdecimal()]
    if any((place / _FILE).is_file() for place in versions):
        return Source(path, name)
    if (path / _FILE).is_file():
        return Source(path / _FILE, name)
    if (path / _TASK).is_file():
        return Source(_converted(path, recipe, cache, imports), name)
    if any((place / "saved_model.pb").is_file() for place in (path, *versions)):
        raise ValueError(
            f"{path} is a SavedModel, which TF Serving serves. This server takes .tflite files: run keras-bert export "
            "MODEL OUT --lengths dynamic, and serve OUT."
        )
    raise ValueError(
        f"{path} has no {_FILE}, no versions such as 1/{_FILE}, and no {_TASK} of a model that finetune wrote."
    )


def _name_of(path: Path) -> str:
    return path.parent.name if path.name == _FILE else path.stem if path.is_file() else path.name


def _check_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
        raise ValueError(
            f"The model's name would be {name!r}; pass --name with only letters, digits, '_', '-' and '.'."
        )
    return name


# === Conversion ===


def _converted(model: Path, recipe: str, cache: str | os.PathLike[str] | None, imports: Sequence[str]) -> Path:
    """The file of a model, from the cache or converted now."""
    place = _default_cache() if cache is None else Path(cache).expanduser()
    target = place / _fingerprint(model, recipe)
    if (target / _FILE).is_file():
        return target / _FILE
    print(f"keras-bert: converting {model} by {recipe}; kept in {target}", file=sys.stderr, flush=True)
    with temporary_directory(place, f".{target.name}.") as partial:
        words = [word for name in imports for word in ("--import", str(name))]
        words += ["export", str(model), str(partial / "new"), "--recipe", recipe]
        if not _writes(model):
            words += ["--lengths", "dynamic"]
        command = [sys.executable, "-m", "keras_bert.cli", *words, "--json"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode or not (partial / "new" / _FILE).is_file():
            reason = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
            raise RuntimeError(
                f"{model} could not be converted: {reason}\nConvert it where TensorFlow is installed, and serve the "
                f"file: keras-bert export {model} OUT --recipe {recipe} --lengths dynamic"
            )
        if not target.exists():
            os.rename(partial / "new", target)
    return target / _FILE


def _writes(model: Path) -> bool:
    """Whether a model writes texts: its file has fixed lengths."""
    from export.tasks.base.registry import find_export

    settings: Any = json.loads((model / _TASK).read_text(encoding="utf-8"))
    try:
        return find_export(settings["task"]).writes
    except (KeyError, TypeError, ValueError):
        return False  # the other process says what is wrong


def _default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "keras-bert" / "served"


def _fingerprint(model: Path, recipe: str) -> str:
    """A name for a model's files as they are, the recipe and the version of this library."""
    import keras_bert

    digest = hashlib.sha256(f"{keras_bert.__version__} {recipe}".encode())
    for path in sorted(model.iterdir()):
        if path.is_file():
            with path.open("rb") as file:
                digest.update(f"\n{path.name} {path.stat().st_size}\n".encode())
                while content := file.read(1 << 20):
                    digest.update(content)
    return f"{model.name}-{recipe}-{digest.hexdigest()[:16]}"
