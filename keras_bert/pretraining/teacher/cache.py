"""A teacher's outputs on the disk: made in chunks, each there whole or not at all, and read row by row.

A directory has a `manifest.json` that names teacher, layers, tokenizers and examples; `statistics.npz`; and chunks of
rows with the student's inputs and the teacher's float16 vectors. A chunk is a function of the manifest and its number,
so one that was deleted, or that a kill left unmade, is made again with the same content.
"""

import dataclasses
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from keras_bert.pretraining.teacher.hidden_states import TeacherOutputs
from keras_bert.system.atomic_files import sync, write_whole
from keras_bert.system.progress import hides_bar

MANIFEST, STATISTICS = "manifest.json", "statistics.npz"
CHUNK_ROWS = 1024
_MEASURED_ROWS = 512
_FORMAT = 1

RowSource = Callable[[int], Iterator[dict[str, np.ndarray]]]


class TeacherCache:
    """The outputs of one teacher on one set of examples.

    Args:
        directory: Where they are kept.
        outputs: The teacher.
        rows_from: Number of a chunk → the student's rows from there on, a chunk at a time; always the same.
        description: What decides about the content, ready for JSON.
        progress: Whether to show a bar.

    Example:
        ```python
        cache = TeacherCache("run/teacher", outputs, rows_from, description)
        rows = cache.rows(range(4))  # made where they are missing
        inputs, vectors, counts = rows.take([0, 5, 9])
        ```
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        outputs: TeacherOutputs,
        rows_from: RowSource,
        description: dict[str, Any],
        *,
        progress: bool = True,
    ) -> None:
        self.directory, self.outputs, self.rows_from, self.progress = Path(directory), outputs, rows_from, progress
        self._claim({"format": _FORMAT, **description})

    def measure(self) -> None:
        """Give the teacher the statistics of its columns: those on the disk, or new ones of the first rows."""
        path = self.directory / STATISTICS
        if path.is_file():
            with np.load(path) as stored:
                self.outputs.statistics = {name: stored[name] for name in stored.files}
            return
        rows = next(self.rows_from(0))
        self.outputs.measure({name: values[:_MEASURED_ROWS] for name, values in rows.items()})
        _write_arrays(path, self.outputs.statistics)

    def rows(self, chunks: range) -> "CachedRows":
        """The rows of some chunks; what is not there yet is made now."""
        missing = [chunk for chunk in chunks if not self._place(chunk).is_dir()]
        if missing:
            self._make(missing, len(chunks))
        return CachedRows([self._place(chunk) for chunk in chunks])

    def drop_before(self, chunk: int) -> None:
        """Delete the chunks with lower numbers, to make room."""
        for place in self.directory.glob("chunk-*"):
            if int(place.name.removeprefix("chunk-")) < chunk:
                shutil.rmtree(place)

    def _make(self, missing: list[int], total: int) -> None:
        for partial in self.directory.glob(".chunk-*"):
            shutil.rmtree(partial)
        source: Iterator[dict[str, np.ndarray]] | None = None
        at: int | None = None
        bar = tqdm(total=total, initial=total - len(missing), desc="teacher", unit="chunk", **_bar(self.progress))
        with bar:
            for chunk in missing:
                if source is None or chunk != at:
                    source = self.rows_from(chunk)
                rows = next(source)
                at = chunk + 1
                vectors, counts = self.outputs(rows)
                arrays = {f"row_{name}": values for name, values in rows.items()}
                self._write(chunk, {**arrays, **vectors, "counts": counts})
                bar.set_postfix_str(f"{int(counts.sum()):,} vectors each", refresh=False)
                bar.update()

    def _write(self, chunk: int, arrays: dict[str, np.ndarray]) -> None:
        final = self._place(chunk)
        partial = final.with_name(f".{final.name}.partial")
        try:
            partial.mkdir(parents=True)
            for name, values in arrays.items():
                np.save(partial / f"{name}.npy", values)
                sync(partial / f"{name}.npy")
            sync(partial)
            os.replace(partial, final)
            sync(self.directory)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise OSError(
                f"The teacher's outputs could not be written to {final} ({error}); make room, or set a lower cache_gb. "
                "Started again, the work goes on with this chunk."
            ) from error

    def _place(self, chunk: int) -> Path:
        return self.directory / f"chunk-{chunk:06d}"

    def _claim(self, description: dict[str, Any]) -> None:
        """Note what is kept here, or see that it is what was begun."""
        path = self.directory / MANIFEST
        description = json.loads(json.dumps(description))
        if path.is_file():
            there = json.loads(path.read_text(encoding="utf-8"))
            if different := [name for name in description if there.get(name) != description[name]]:
                raise ValueError(
                    f"{self.directory} holds the outputs of another teacher, layer, tokenizer or text (these differ: "
                    f"{', '.join(different)}); delete it, or choose another output directory."
                )
        write_whole(path, json.dumps(description, indent=1, ensure_ascii=False) + "\n")


@dataclasses.dataclass
class CachedRows:
    """Rows of some chunks, read from the disk when they are asked for.

    Args:
        places: The directories of the chunks, in their order.
    """

    places: list[Path]

    def __post_init__(self) -> None:
        self._chunks = [_open(place) for place in self.places]
        sizes = [len(chunk["counts"]) for chunk in self._chunks]
        self._ends = np.cumsum(sizes)
        self._firsts = [np.concatenate([[0], np.cumsum(chunk["counts"])]) for chunk in self._chunks]
        self.names = [name for name in self._chunks[0] if name != "counts" and not name.startswith("row_")]

    def __len__(self) -> int:
        return int(self._ends[-1])

    def take(
        self, numbers: Sequence[int] | np.ndarray
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray]:
        """The student's inputs `[R, T]`, the teacher's vectors `[R, T, W]` and the units of each row, by number."""
        chunks = np.searchsorted(self._ends, numbers, side="right")
        inside = np.asarray(numbers) - np.concatenate([[0], self._ends])[chunks]
        pairs = list(zip(chunks.tolist(), inside.tolist(), strict=True))
        keys = [name for name in self._chunks[0] if name.startswith("row_")]
        rows = {key.removeprefix("row_"): np.stack([self._chunks[c][key][r] for c, r in pairs]) for key in keys}
        counts = np.array([self._chunks[c]["counts"][r] for c, r in pairs], np.int32)
        flat = {
            name: [self._chunks[c][name][self._firsts[c][r] : self._firsts[c][r + 1]] for c, r in pairs]
            for name in self.names
        }
        return rows, {name: _pad(values, rows["token_ids"].shape[1]) for name, values in flat.items()}, counts


def split_rows(vectors: dict[str, np.ndarray], counts: np.ndarray, length: int) -> dict[str, np.ndarray]:
    """What a teacher gave for rows, `[units, W]`, as `[R, T, W]` with zeros behind each row."""
    ends = np.cumsum(counts)[:-1]
    return {name: _pad(np.split(values, ends), length) for name, values in vectors.items()}


def hash_text(path: str | os.PathLike[str]) -> str:
    """The sha256 of a file, such as the manifest of examples, which names the digests of all shards."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def load_or_make(path: Path, make: Callable[[], np.ndarray]) -> np.ndarray:
    """An array from a file, or a new one that the file then holds."""
    if path.is_file():
        return np.load(path, allow_pickle=False)
    array = make()
    _write_arrays(path, array)
    return array


def _pad(rows: Sequence[np.ndarray], length: int) -> np.ndarray:
    padded = np.zeros((len(rows), length, rows[0].shape[-1]), np.float16)
    for index, values in enumerate(rows):
        padded[index, : len(values)] = values
    return padded


def _open(place: Path) -> dict[str, np.ndarray]:
    return {path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in sorted(place.glob("*.npy"))}


def _write_arrays(path: Path, arrays: np.ndarray | dict[str, Any]) -> None:
    content = io.BytesIO()
    if isinstance(arrays, dict):
        np.savez(content, **arrays)
    else:
        np.save(content, arrays)
    try:
        write_whole(path, content.getvalue())
    except OSError as error:
        raise OSError(f"{path} could not be written ({error}); make room, and start again.") from error


def _bar(progress: bool) -> dict[str, Any]:
    return {"disable": hides_bar(progress)}
