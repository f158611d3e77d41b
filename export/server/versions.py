"""Open a file for several threads, and its new versions while the old one answers.

A version is copied to a private directory first, so that nothing that happens to the original disturbs a running
interpreter. It is served only after it has answered a sample; one that cannot is refused, and the old one stays.
"""

import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from export.file.metadata_reader import FileMetadata
from export.runtime import Runtime, load
from export.server.answering import run_rows
from export.server.source import Found, Source
from export.tasks.base.definition import ExportedTask
from export.tasks.base.registry import find_export
from export.tasks.base.served_file import FORMS, Columns, ServedFile
from keras_bert.system.allocator import trim_memory
from keras_bert.system.mapped_files import release_mapped

# === One version ===


@dataclass(frozen=True, eq=False)
class Version:
    """An open version of a model: an interpreter for each thread.

    Attributes:
        number: The number of the version.
        runtimes: The file, open once for each thread.
        served: How the task answers rows.
        sample: The columns of one row, from which the outputs are described.
    """

    number: int
    runtimes: tuple[Runtime, ...]
    served: ServedFile
    sample: Columns

    @property
    def metadata(self) -> FileMetadata:
        """The metadata of the file."""
        return self.runtimes[0].metadata

    @property
    def task(self) -> ExportedTask:
        """The task of the file."""
        return find_export(self.metadata.task)


def open_version(number: int, path: Path, num_threads: int, *, threads_each: int = 1) -> Version:
    """Open a file as a version, and try it on a sample.

    Args:
        number: The number of the version.
        path: The file.
        num_threads: How many threads run it at the same time.
        threads_each: Threads of each interpreter.

    Example:
        >>> open_version(1, Path("model.tflite"), 2).metadata.task  # doctest: +SKIP
        'classification'
    """
    with tempfile.TemporaryDirectory(prefix="keras-bert-serve-", ignore_cleanup_errors=True) as place:
        copy = Path(place) / path.name
        shutil.copyfile(path, copy)
        try:
            first = load(copy, num_threads=threads_each)
        except ValueError as error:
            raise ValueError(str(error).replace(str(copy), str(path))) from None
        runtimes = (first, *(first.another() for _ in range(num_threads - 1)))
        served = find_export(first.metadata.task).served_file(first.reader)
        samples = [_sample(runtime, served) for runtime in runtimes]  # also prepares each interpreter
        release_mapped(copy)  # the matrices, which each interpreter has packed for the processor
    # The files are mapped into memory, and stay until the interpreters are gone.
    return Version(number, runtimes, served, samples[0])


def _sample(runtime: Runtime, served: ServedFile) -> Columns:
    """The answer to a row of the task's own form; an error if it is not made of numbers."""
    given = runtime.reader.sample
    row = (given,) if isinstance(given, str) else tuple(part if isinstance(part, str) else part[0] for part in given)
    row = (row * 2)[: len(FORMS[served.forms[0]])]
    options = next(iter(served.variants.values()), {})
    columns = run_rows(runtime, served, [row], {**options, "max_length": 2} if served.variants else {}).columns
    for name, values in columns.items():
        if not np.all(np.isfinite(np.asarray(values[0], np.float64)) if _is_numeric(values[0]) else True):
            raise ValueError(f"The file gives {name} that are not numbers for a sample.")
    return columns


def _is_numeric(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "fiu"


# === Versions ===


@dataclass
class Refusal:
    """A version that could not be opened, and why; `stamp` changes when the file does."""

    number: int
    stamp: Any
    reason: str


@dataclass
class Versions:
    """The version that answers, and those that come after it.

    Args:
        source: Where versions are found.
        num_threads: How many threads run a version at the same time.
        threads_each: Threads of each interpreter.
        watch: Called with a word (`"loaded"`, `"refused"`), the number of the version, and the type of an error.
    """

    source: Source
    num_threads: int
    threads_each: int = 1
    watch: Callable[[str, int, str], None] = lambda word, number, error: None
    refused: dict[int, Refusal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        found = self.source.find()
        if not found:
            raise FileNotFoundError(f"There is no version in {self.source.path}; expected 1/model.tflite in it.")
        self._current, self._stamp = self._open_best(found)

    @property
    def current(self) -> Version:
        """The version that answers now. A request keeps the one that it began with."""
        return self._current

    def refresh(self) -> bool:
        """Look for a new version, and move over to it; says whether there was one."""
        current = (self._current.number, self._stamp)
        for found in self.source.find():
            if (found.number, found.stamp) == current or found.number < current[0]:
                return False
            if (version := self._try(found)) is not None:
                self._current, self._stamp = version, found.stamp
                trim_memory()
                return True
        return False

    def start(self, seconds: float) -> None:
        """Refresh every so many seconds, in a thread."""

        def watch() -> None:
            while not self._stop.wait(seconds):
                self.refresh()

        self._thread = threading.Thread(target=watch, name="versions", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _open_best(self, found: Sequence[Found]) -> tuple[Version, Any]:
        for one in found:
            if (version := self._try(one)) is not None:
                return version, one.stamp
        reasons = "\n".join(refusal.reason for refusal in self.refused.values())
        raise ValueError(f"No version can be served.\n{reasons}")

    def _try(self, found: Found) -> Version | None:
        """Open a version; `None` if it cannot be, or could not be before and has not changed."""
        known = self.refused.get(found.number)
        if known is not None and known.stamp == found.stamp:
            return None
        try:
            version = open_version(found.number, found.path, self.num_threads, threads_each=self.threads_each)
        except Exception as error:  # whatever is wrong with a new file, the old one goes on
            self.refused[found.number] = Refusal(found.number, found.stamp, f"{type(error).__name__}: {error}")
            self.watch("refused", found.number, type(error).__name__)
            return None
        self.refused.pop(found.number, None)
        self.watch("loaded", found.number, "")
        return version
