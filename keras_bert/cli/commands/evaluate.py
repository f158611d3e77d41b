"""`keras-bert evaluate`: measure a fine-tuned model on labelled texts."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from keras_bert.cli.data_flags import add_data_arguments, check_flags
from keras_bert.cli.models import add_label_arguments, open_task
from keras_bert.cli.output import add_command
from keras_bert.system.atomic_files import write_whole
from keras_bert.tasks.base.registry import find_task


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    command = add_command(commands, "evaluate", run, example="sentiment/ test.tsv --output results.json --plots plots/")
    command.add_argument("model", help="a directory that finetune wrote; with --labels any model")
    command.add_argument("data", metavar="DATA", help="labelled texts, in a form that finetune takes")
    command.add_argument("--split", default="dev", help="with --glue: which split (default: %(default)s)")
    command.add_argument("--output", type=Path, help="write the numbers here, as JSON")
    command.add_argument("--plots", type=Path, help="draw the confusion matrix and the confidence here, as PNG")
    add_label_arguments(command)
    add_data_arguments(command.add_argument_group("data"))


def run(arguments: Namespace) -> dict[str, Any]:
    """Measure a fine-tuned model on labelled texts."""
    task = open_task(arguments)
    check_flags(arguments, task.name)
    rows = find_task(task.name).read(arguments, arguments.data, arguments.split, task)
    report = task.evaluate(rows)
    numbers = report.to_dict()
    if arguments.plots is not None:
        numbers |= _draw(task, rows, report, arguments.plots)
    if arguments.output is not None:
        write_whole(arguments.output, json.dumps(numbers, indent=2, ensure_ascii=False) + "\n")
    if arguments.json:
        return numbers
    print(report)
    read = getattr(rows, "report", None)
    if read is not None and read.dropped:
        print(read)
    done = {"output": str(arguments.output)} if arguments.output else {}
    return done | ({"plots": str(arguments.plots)} if arguments.plots else {}) or {"examples": len(rows)}


def _draw(task: Any, rows: Any, report: Any, directory: Path) -> dict[str, Any]:
    from keras_bert.evaluation.confidence import calibration_report, plot_reliability
    from keras_bert.evaluation.reports import plot_confusion

    kind = getattr(task, "kind", task.name)
    if kind != "single_label":
        raise ValueError(f"--plots is for classes, and this model is {kind}; leave it out.")
    directory.mkdir(parents=True, exist_ok=True)
    plot_confusion(report, directory / "confusion.png")
    calibration = calibration_report(task.logits(rows.inputs), [task.labels.index(label) for label in rows.labels])
    plot_reliability(calibration, directory / "calibration.png")
    print(calibration)
    return {"calibration": calibration.to_dict()}
