"""Measure the size, speed and memory of a `.tflite` file, without TensorFlow.

`benchmark` starts a fresh process for the file, so that loading and memory are those of an app, and gives a
`BenchmarkReport`.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from export.verification.fresh_process import ask_fresh_process, registration, repeat_registration

_WARM_UP = 3


@dataclass(frozen=True)
class Latency:
    """The time of one text of a length in milliseconds: minimum, median, and 90th percentile."""

    length: int
    minimum: float
    p50: float
    p90: float


@dataclass(frozen=True)
class BenchmarkReport:
    """The costs of a file. Prints as a small table.

    Args:
        path: The file.
        num_bytes: Its size.
        num_threads: The number of threads.
        start_ms: The cold start: from starting Python to the first answer, with all imports.
        load_ms: The part of it after NumPy is imported: opening, tokenizer, interpreter, one short text.
        peak_mb: The most memory that the process used, in MB.
        latencies: One for each length.
    """

    path: Path
    num_bytes: int
    num_threads: int
    start_ms: float
    load_ms: float
    peak_mb: float
    latencies: tuple[Latency, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.path}  {self.num_bytes / 1e6:.1f} MB, {self.num_threads} thread{'s' * (self.num_threads > 1)}",
            f"first answer {self.start_ms:.0f} ms after a cold start, of which loading takes {self.load_ms:.0f}; "
            f"at most {self.peak_mb:.0f} MB of memory",
            f"{'tokens':>8}{'min ms':>10}{'p50 ms':>10}{'p90 ms':>10}",
        ]
        return "\n".join(
            lines + [f"{row.length:>8}{row.minimum:>10.2f}{row.p50:>10.2f}{row.p90:>10.2f}" for row in self.latencies]
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {**asdict(self), "path": self.path.name}


def benchmark(
    file: Any, *, lengths: Sequence[int] | None = None, num_threads: int = 1, repeats: int = 50
) -> BenchmarkReport:
    """Measure a file that `export.convert` wrote from a task.

    Args:
        file: An `Artifact`, or the path.
        lengths: Tokens of the rows to time; by default the file's own lengths, or 16, 64 and the longest if it takes
            any.
        num_threads: Threads of the interpreter.
        repeats: How often each length runs. Other work on the machine affects `p90` first.

    Example:
        >>> print(benchmark("model.tflite"))  # doctest: +SKIP
        model.tflite  23.3 MB, 1 thread
        first answer 210 ms after a cold start, of which loading takes 130; at most 96 MB of memory
          tokens    min ms    p50 ms    p90 ms
              32      7.20      7.31      7.70
             128     30.60     30.90     31.80
    """
    path = Path(getattr(file, "path", file)).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}; expected a .tflite file that export.convert wrote.")
    if repeats < 1 or num_threads < 1:
        raise ValueError(f"Got repeats={repeats} and num_threads={num_threads}; expected at least 1 for both.")
    request = {
        "path": str(path),
        "lengths": lengths,
        "num_threads": num_threads,
        "repeats": repeats,
        "registration": registration(path),
        "started": time.monotonic(),  # a clock that all processes of a machine share
    }
    found = ask_fresh_process("export.verification.latency", "_measure_here", request, str(path))
    latencies = tuple(Latency(**row) for row in found.pop("latencies"))
    return BenchmarkReport(path, path.stat().st_size, num_threads, latencies=latencies, **found)


def _measure_here() -> None:
    """Measure in the fresh process: read a request from standard input, print the numbers."""
    request = json.load(sys.stdin)
    start = time.perf_counter()
    from export.runtime import load

    repeat_registration(request["registration"])
    runtime = load(request["path"], num_threads=request["num_threads"])
    runtime([runtime.reader.sample])
    load_ms, start_ms = (time.perf_counter() - start) * 1e3, (time.monotonic() - request["started"]) * 1e3
    own = [length for length in runtime.metadata.signatures.values() if length is not None]
    lengths = request["lengths"] or own or sorted({min(16, runtime.longest), min(64, runtime.longest), runtime.longest})
    latencies = [_time_rows(runtime, length, request["repeats"]) for length in lengths]
    found = {"start_ms": start_ms, "load_ms": load_ms, "peak_mb": _peak_mb()}
    print(json.dumps({**found, "latencies": [asdict(row) for row in latencies]}))


def _time_rows(runtime: Any, length: int, repeats: int) -> Latency:
    row = runtime.row_of(length)
    for _ in range(_WARM_UP):
        runtime.outputs(row)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        runtime.outputs(row)
        times.append((time.perf_counter() - start) * 1e3)
    return Latency(length, *(float(np.quantile(times, share)) for share in (0.0, 0.5, 0.9)))


def _peak_mb() -> float:
    """The peak memory of this process; `ru_maxrss` would count the parent's too."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):  # not Linux
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
