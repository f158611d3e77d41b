"""`keras-bert verify`: compare a fine-tuned model with its file or SavedModel; exit code 1 if they differ too much."""

import argparse
from pathlib import Path
from typing import Any

from export.cli.texts import read_examples
from keras_bert.cli.data_flags import add_data_arguments
from keras_bert.cli.output import add_command


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    command = add_command(commands, "verify", run, example="sentiment/ out/model.tflite --data dev.tsv")
    command.add_argument("model", metavar="MODEL", help="the directory that the file was made from")
    command.add_argument("file", metavar="FILE", help="a file that export wrote, or a directory with a SavedModel")
    command.add_argument("--data", metavar="DATA", required=True, help="texts, with labels or one a line (.txt)")
    command.add_argument("--recipe", help="the recipe whose tolerance applies (default: the file's own)")
    command.add_argument(
        "--delegate", choices=("qualcomm", "mediatek", "gpu"), help="also list the ops that an accelerator takes"
    )
    add_data_arguments(command.add_argument_group("columns of DATA"))


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Compare an exported file with the model that it was made from."""
    from export.verification.parity import verify
    from keras_bert.tasks.base.saved_tasks import load_task

    task = load_task(arguments.model)
    data = read_examples(arguments, arguments.data, task)
    report = verify(task, arguments.file, data, recipe=arguments.recipe)
    if not arguments.json:
        print(report)
    found = {} if arguments.delegate is None else _audit(arguments)
    report.check()
    return {**report.to_dict(), **found} if arguments.json else {"verified": arguments.file}


def _audit(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the delegate takes of the file, as its documentation lists it."""
    from export.file.delegates import audit_delegate

    if not Path(arguments.file).is_file():
        raise ValueError(f"Got --delegate for {arguments.file}; expected a .tflite file, which delegates are for.")
    audit = audit_delegate(arguments.file, arguments.delegate)
    if not arguments.json:
        print(audit)
    return {"delegate": audit.to_dict()}
