"""`keras-bert benchmark`: measure the size, latency and memory of a `.tflite` file."""

import argparse
from typing import Any

from export.cli.texts import read_lengths
from keras_bert.cli.output import add_command


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    command = add_command(commands, "benchmark", run, example="out/model.tflite --threads 2")
    command.add_argument("file", metavar="FILE", help="a file that export wrote")
    command.add_argument("--lengths", help="tokens to time, e.g. 16,64 (default: the file's own)")
    command.add_argument("--threads", type=int, default=1, help="threads (default: %(default)s)")
    command.add_argument("--repeats", type=int, default=50, help="runs of each length (default: %(default)s)")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the size, speed and memory of an exported file, in a process without TensorFlow."""
    from export.verification.latency import benchmark

    lengths = None if arguments.lengths is None else read_lengths(arguments.lengths)
    if isinstance(lengths, str):
        raise ValueError(f"Got --lengths {lengths!r}; expected numbers separated by commas.")
    report = benchmark(arguments.file, lengths=lengths, num_threads=arguments.threads, repeats=arguments.repeats)
    if arguments.json:
        return report.to_dict()
    print(report)
    return {"bytes": report.num_bytes}
