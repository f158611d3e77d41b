"""Time files on rows with the lengths of real texts, side by side in a fresh process without TensorFlow.

`benchmark` repeats one length. An app sees short and long texts in turn, and a file for any length pays for each
change. Here rows run in the order of the texts, some dozens through each file in turn. So other work on the machine
affects all files alike, and a large file does not push a small one out of the processor's caches before each row.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from export.verification.fresh_process import ask_fresh_process, registration, repeat_registration

_TURN = 32  # rows


@dataclass(frozen=True)
class StreamLatency:
    """The time of a file for each row, in milliseconds, batch 1: the least of several rounds.

    Args:
        lengths: The tokens of each row.
        milliseconds: The time of each row.
    """

    lengths: tuple[int, ...]
    milliseconds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the rows."""
        return float(np.mean(self.milliseconds))

    def by_length(self, bands: int = 8) -> list[tuple[int, float]]:
        """The mean length and mean milliseconds of rows of similar length, shortest first."""
        order = np.argsort(self.lengths, kind="stable")
        parts = [part for part in np.array_split(order, min(bands, len(order))) if len(part)]
        lengths, times = np.array(self.lengths), np.array(self.milliseconds)
        return [(round(float(lengths[part].mean())), float(times[part].mean())) for part in parts]


def time_stream(
    files: Sequence[Any], lengths: Sequence[Sequence[int]], *, rounds: int = 3, num_threads: int = 1
) -> list[StreamLatency]:
    """Time files on rows of given lengths, in turn.

    Args:
        files: Paths of `.tflite` files that `export.convert` wrote from tasks, or `Artifact`s.
        lengths: The tokens of each row, for each file; the same number of rows for all. The same texts may have other
            lengths in another vocabulary.
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
        raise ValueError(
            f"Got {len(paths)} files, and lengths for {[len(part) for part in rows]} rows; expected the same number "
            "of rows for each file."
        )
    request = {"paths": paths, "lengths": rows, "rounds": rounds, "num_threads": num_threads}
    request["registrations"] = [registration(Path(path)) for path in paths]
    found = ask_fresh_process("export.verification.stream_latency", "_measure_here", request, ", ".join(paths))
    return [StreamLatency(tuple(row["lengths"]), tuple(row["milliseconds"])) for row in found]


def _measure_here() -> None:
    """Measure in the fresh process: read a request from standard input, print the numbers."""
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
