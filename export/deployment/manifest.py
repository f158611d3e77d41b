"""Write and check `manifest.json`: the hash of each file, and the versions that wrote them."""

import hashlib
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import keras_bert

FORMAT = 1
_PACKAGES = ("tensorflow", "tensorflow-text", "keras", "ai-edge-litert", "numpy", "tokenizers")


def write_manifest(directory: Path, facts: dict[str, Any]) -> Path:
    """Write `manifest.json` for all files of a directory.

    Args:
        directory: The directory.
        facts: More entries, as plain values.

    Example:
        ```python
        write_manifest(Path("out"), {"chosen": "student 3×192"})
        check_manifest(Path("out"))  # the files that differ: []
        ```
    """
    values = {"format": FORMAT, **facts, "versions": versions(), "files": describe_files(directory)}
    path = directory / "manifest.json"
    path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def check_manifest(directory: Path) -> list[str]:
    """The files that are missing or differ from the manifest."""
    said = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))["files"]
    found = describe_files(directory)
    return sorted(name for name, facts in said.items() if found.get(name) != facts)


def describe_files(directory: Path) -> dict[str, dict[str, Any]]:
    """The size and SHA-256 of each file, by its path; hidden files and the manifest are left out."""
    found = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory)
        if (
            path.is_file()
            and name.as_posix() != "manifest.json"
            and not any(part.startswith(".") for part in name.parts)
        ):
            found[name.as_posix()] = {"bytes": path.stat().st_size, "sha256": _hash(path)}
    return found


def versions() -> dict[str, str]:
    """The versions of this library, Python, the machine and the important packages."""
    found = {"keras-bert-edge": keras_bert.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**found, "machine": f"{platform.system()} {platform.machine()}"}


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()
