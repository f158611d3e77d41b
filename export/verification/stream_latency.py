"""Files and the lengths of real texts → how long each file takes for such texts, side by side in a fresh process.

`benchmark` repeats one length; an app sees short and long texts in turn, and a file that takes any length pays for each
change. Here rows of the texts' own lengths run one after the other, some dozens through each file in turn, so that what
else the machine does disturbs all files alike and a large file does not drive a small one out of the processor's caches
before each of its rows. A room of its own because the search, the report and the benchmarks compare files
by it. The process has no TensorFlow.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from export.verification.fresh_process import ask_fresh_process, registration, repeat_registration

_TURN = 32  # rows


@dataclass(frozen=True)
class StreamLatency:
    """How long a file took for each row, in milliseconds, batch 1: the least of several rounds.

    Args:
        lengths: The tokens of each row.
        milliseconds: What each took.
    """

    lengths: tuple[int, ...]
    milliseconds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the rows."""
        return float(np.mean(self.milliseconds))

    def by_length(self, bands: int = 8) -> list[tuple[int, float]]:
        """Mean length and mean milliseconds of rows of similar length, shortest first."""
        order = np.argsort(self.lengths, kind="stable")
        parts = [part for part in np.array_split(order, min(bands, len(order))) if len(part)]
        lengths, times = np.array(self.lengths), np.array(self.milliseconds)
        return [(round(float(lengths[part].mean())), float(times[part].mean())) for part in parts]


def time_stream(
    files: Sequence, lengths: Sequence[Sequence[int]], *, rounds: int = 3, num_threads: int = 1
) -> list[StreamLatency]:
    """Measure files on rows of given lengths, interleaved.

    Args:
        files: Paths of `.tflite` files that `export.convert` wrote from tasks, or `Artifact`s.
        lengths: For each file the tokens of its rows, as many for every file: the same texts may have other lengths in
            another vocabulary.
        rounds: How often each row runs; the fastest counts.
        num_threads: Threads of the interpreter.

    Example:
        >>> slow, fast = time_stream(["teacher.tflite", "student.tflite"], [[12, 40], [13, 41]])  # doctest: +SKIP
        >>> slow.mean / fast.mean  # doctest: +SKIP
        14.2
    """
    paths = [str(getattr(file, "path", file)) for file in files]
    rows = [[int(length) for length in part] for part in lengths]
    if len(rows) != len(paths) or not rows or len(set(map(len, rows))) != 1 or not rows[0]:
        raise ValueError(f"{len(paths)} files, and lengths for {[len(part) for part in rows]} rows; expected as many.")
    request = {"paths": paths, "lengths": rows, "rounds": rounds, "num_threads": num_threads}
    request["registrations"] = [registration(Path(path)) for path in paths]
    found = ask_fresh_process("export.verification.stream_latency", "_measure_here", request, ", ".join(paths))
    return [StreamLatency(tuple(row["lengths"]), tuple(row["milliseconds"])) for row in found]


def _measure_here():
    """What the fresh process does: a request comes on standard input, the numbers go to standard output."""
    request = json.load(sys.stdin)
    from export.runtime import load

    for found in request["registrations"]:
        repeat_registration(found)
    runtimes = [load(path, num_threads=request["num_threads"]) for path in request["paths"]]
    rows = [
        [runtime.row_of(max(3, min(length, runtime.longest))) for length in lengths]
        for runtime, lengths in zip(runtimes, request["lengths"], strict=True)
    ]
    for runtime, own in zip(runtimes, rows, strict=True):  # every signature and length once, untimed
        for row in own[:4]:
            runtime.outputs(row)
    times = np.full((len(runtimes), len(rows[0])), np.inf)
    turns = np.array_split(np.arange(len(rows[0])), -(-len(rows[0]) // _TURN))
    for turn in turns * request["rounds"]:
        for number, runtime in enumerate(runtimes):
            for place in turn:
                start = time.perf_counter()
                runtime.outputs(rows[number][place])
                times[number, place] = min(times[number, place], (time.perf_counter() - start) * 1e3)
    found = [
        {"lengths": [int(row.lengths[0]) for row in own], "milliseconds": spent.tolist()}
        for own, spent in zip(rows, times, strict=True)
    ]
    print(json.dumps(found))
