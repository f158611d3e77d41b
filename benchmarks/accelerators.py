"""python benchmarks/accelerators.py [--sizes tiny mini base] [--chips v5e:2x2 a100] [--lengths 128 512]

Compiles the pretraining step of BERTs of several sizes for accelerators that are not there, each in a process of its
own, and writes what they would need to benchmarks/results/accelerators.json. Nothing runs on a chip: memory and
operations are the compiler's, seconds its estimate (TPUs) or the time at the chip's peak (GPUs). Needs the extras `aot`
and `aot-gpu`. Minutes for a base model on a free core; what is in the file already is not compiled again.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from record import add_output, commit, write_run

SIZES = ("tiny", "mini", "small", "medium", "minilm", "base", "large")
CHIPS = ("v5e:2x2", "v6e:2x2", "a100", "h100", "t4")
VOCABULARY = 30_522


def compile_one(size: str, chips: str, length: int, rows: int) -> dict:
    """The report of one step, or the error of the compiler."""
    words = ["pretrain", "none.txt", "unused", "--json"]
    if size == "minilm":  # 6 layers, width 384, 12 heads of 32
        words += ["--start-from", "all-MiniLM-L6-v2"]
    else:
        words += ["--size", size, "--vocabulary-size", str(VOCABULARY)]
    words += ["--sequence-length", str(length), "--batch-size", str(rows), "--mask-rate", "0.15", "--dropout", "0.1"]
    command = [sys.executable, "-m", "keras_bert.cli", *words, "--compile-for", chips]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    (found,) = json.loads(done.stdout.splitlines()[-1]).values()
    return found


def row_of(name: str, found: dict) -> dict:
    """A row of the table."""
    if "error" in found:
        return {"step": name, "error": found["error"]}
    seconds, fastest, attention = found["seconds"], found["fastest"], found["attention"]
    row = {
        "step": name,
        "GiB a chip": found["memory"] / 2**30,
        "fits": "yes" if found["fits"] else "no",
        "TFLOP of products": found["matmul_flops"] / 1e12,
        "ms at the peak": fastest * 1e3,
        "largest batch": found["largest_batch"],
    }
    if seconds is None:
        return row
    return {
        **row,
        "ms, estimated": seconds * 1e3,
        "of the peak, %": 100 * fastest / seconds,
        "attention, %": 100 * attention,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[2])
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=SIZES)
    parser.add_argument("--chips", nargs="+", default=CHIPS)
    parser.add_argument("--lengths", nargs="+", type=int, default=(128, 512))
    parser.add_argument("--tokens", type=int, default=64 * 128, help="places of a batch for each chip")
    add_output(parser, "accelerators")
    args = parser.parse_args()
    for size in args.sizes:
        found = {row["step"]: row for row in known_rows(args.output, size)}
        for length in args.lengths:
            for chips in args.chips:
                count = 4 if ":" in chips else 1
                rows = args.tokens // length * count
                name = f"{size} {rows} × {length}, {chips}"
                if name not in found or "error" in found[name]:
                    # A later call adds rows to those of earlier code.
                    found[name] = {**row_of(name, compile_one(size, chips, length, rows)), "commit": commit()}
                    packages = ("jax", "jaxlib", "keras", "libtpu", "jax-cuda12-plugin")
                    write_run(args.output, list(found.values()), packages=packages, part=size)
                print(json.dumps(found[name]), flush=True)


def known_rows(path: Path, size: str) -> list[dict]:
    """The rows of a size that are in the file already."""
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    return [row for run in runs if run["part"] == size for row in run["results"]]


if __name__ == "__main__":
    main()
