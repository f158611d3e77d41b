"""What `keras-bert pretrain` reaches in an hour, with a size, a time and rows of 64 tokens as its only flags.

    python benchmarks/pretraining_hour.py --data DIR --size tiny --budget 1h
    python benchmarks/pretraining_hour.py --data DIR --size tiny --steps 3500
    python benchmarks/pretraining_hour.py --data DIR --size mini --budget 1h

DIR holds `enwiki.txt.gz` and `enwiki_heldout.txt.gz`, prose with a blank line between documents. Writes the curve on
the held-out text to benchmarks/results/pretraining_hour.json. The run is kept in `--work`, and goes on if it was
stopped.
"""

import argparse
import resource
import subprocess
import sys
from pathlib import Path

from record import add_output, write_run

from keras_bert.pretraining.records import read_history


def main():
    """Run the command, and write what its history says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the directory of enwiki.txt.gz")
    parser.add_argument("--size", default="tiny")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--budget", help="a time, such as 1h")
    length.add_argument("--steps", type=int)
    parser.add_argument("--work", type=Path, default=Path("pretraining-hour"), help="where the runs go")
    add_output(parser, "pretraining_hour")
    arguments = parser.parse_args()
    kind = ("--budget", arguments.budget) if arguments.budget else ("--steps", str(arguments.steps))
    output = arguments.work / f"{arguments.size}-{kind[1]}"
    words = [str(arguments.data / "enwiki.txt.gz"), str(output), "--size", arguments.size, "--sequence-length", "64"]
    words += [*kind, "--validation", str(arguments.data / "enwiki_heldout.txt.gz")]
    subprocess.run([sys.executable, "-m", "keras_bert.cli", "pretrain", *words], check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    history = read_history(output / "history.jsonl")
    points = [index for index in range(len(history["step"])) if is_shown(index, len(history["step"]))]
    curve = [
        {
            "step": history["step"][index],
            "masked tokens right, %": 100 * history["val_mlm_logits_accuracy"][index],
            "perplexity": history["val_mlm_logits_perplexity"][index],
            "next sentence right, %": 100 * history["val_nsp_logits_accuracy"][index],
        }
        for index in points
    ]
    settings = {
        "vocabulary": 8000,
        "batch": 32,
        "length": 64,
        "processor minutes": (used.ru_utime + used.ru_stime) / 60,
    }
    about = {"packages": ("tensorflow", "keras"), "seeds": [0], "settings": settings}
    write_run(arguments.output, curve, part=f"{arguments.size}, {' '.join(kind).removeprefix('--')}", **about)


def is_shown(index, count, rows=7):
    """Whether a measurement is one of about seven that are shown; the last one is."""
    return (count - 1 - index) % max(1, round(count / rows)) == 0


if __name__ == "__main__":
    main()
