"""`keras-bert deploy`: find the smallest file of a fine-tuned model within an accuracy budget."""

import argparse
import re
from pathlib import Path
from typing import Any

from export.cli.texts import read_lengths
from keras_bert.cli.data_flags import add_data_arguments
from keras_bert.cli.output import add_command
from keras_bert.tasks.base.registry import find_task

_UNITS = {"s": 1, "m": 60, "h": 3600}


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    example = "sentiment/ out/ --train train.tsv --validation dev.tsv --budget 0.01 --time-limit 30m"
    command = add_command(commands, "deploy", run, example=example)
    command.add_argument("model", metavar="MODEL", help="a directory that finetune wrote")
    command.add_argument("output", metavar="OUT", type=Path, help="the directory for everything")
    command.add_argument("--train", metavar="FILE", help="training data; without it nothing is trained")
    command.add_argument("--validation", metavar="FILE", required=True, help="data to measure the files on")
    command.add_argument(
        "--budget",
        type=float,
        default=0.01,
        help="how much of the metric may be lost; 0.01 is a point (default: %(default)s)",
    )
    command.add_argument("--time-limit", metavar="TIME", help="such as 90s, 30m or 2h; nothing longer is started")
    command.add_argument(
        "--recipes", help="how numbers may be stored, separated by commas (default: all that are fast)"
    )
    command.add_argument(
        "--lengths",
        help="what the app's runtime takes: dynamic, fixed (browsers, LiteRT on Android), or numbers separated by "
        "commas, one for MediaPipe (default: dynamic or fixed, whichever is smaller)",
    )
    command.add_argument("--seed", type=int, default=0, help="of the training (default: %(default)s)")
    add_data_arguments(command.add_argument_group("columns of both files"))


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Find the smallest file that stays within an accuracy budget, and write all that an app needs."""
    limit = None if arguments.time_limit is None else read_seconds(arguments.time_limit)
    from export.deployment.deploying import deploy
    from keras_bert.tasks.base.saved_tasks import load_task

    task = load_task(arguments.model)
    entry = find_task(task.name)
    train = None if arguments.train is None else entry.read(arguments, arguments.train, "train", task)
    result = deploy(
        task,
        arguments.output,
        train,
        entry.read(arguments, arguments.validation, "dev", task),
        arguments.budget,
        recipes=None if arguments.recipes is None else [name.strip() for name in arguments.recipes.split(",")],
        lengths=_read_lengths(arguments.lengths),
        time_limit=limit,
        seed=arguments.seed,
        verbose=0 if arguments.json else 1,
    )
    if not arguments.json:
        print(result)
    return {
        "tflite": str(result.directory / "model.tflite"),
        "chosen": result.chosen.name,
        "bytes": result.chosen.num_bytes,
        "kept": result.is_kept,
    }


def _read_lengths(words: str | None) -> Any:
    return words if words in (None, "dynamic", "fixed") else read_lengths(words)


def read_seconds(words: str) -> float:
    """Read a time such as `"90"`, `"90s"`, `"30m"` or `"2h"` as seconds.

    Example:
        >>> read_seconds("1.5h")
        5400.0
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", words.strip())
    if found is None or not float(found[1]):
        raise ValueError(f"Got --time-limit {words!r}; expected a time such as 90s, 30m or 2h.")
    return float(found[1]) * _UNITS[found[2] or "s"]
