"""`keras-bert export`: write a fine-tuned model as files that need neither Keras nor this library."""

import argparse
from pathlib import Path
from typing import Any

from export.cli.texts import read_calibration, read_examples, read_lengths
from keras_bert.cli.data_flags import add_data_arguments
from keras_bert.cli.output import add_command

FORMATS = ("tflite", "saved_model")


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    example = "sentiment/ out/ --format tflite,saved_model --recipe dynamic_int8 --lengths 32,128"
    command = add_command(commands, "export", run, example=example)
    command.add_argument("model", metavar="MODEL", help="a directory that finetune wrote")
    command.add_argument("output", metavar="OUT", type=Path, help="the directory for the files")
    command.add_argument("--format", default="tflite", help=f"{' or '.join(FORMATS)}, or both separated by a comma")
    command.add_argument("--recipe", default="dynamic_int8", help="how the numbers are stored (default: %(default)s)")
    command.add_argument(
        "--lengths",
        default="auto",
        help="tokens, e.g. 128 or 32,128; or dynamic (default: 128, for questions 384, or the model's where less)",
    )
    command.add_argument("--calibration", metavar="FILE", help="texts like those of the app, one a line or as --data")
    command.add_argument("--data", metavar="FILE", help="labelled data that the file is verified with, as for finetune")
    command.add_argument("--version", type=int, default=1, help="of the SavedModel (default: %(default)s)")
    command.add_argument(
        "--precision", default="float32", help="of the SavedModel: float32, or bfloat16 for processors that have it"
    )
    command.add_argument(
        "--cut-long-texts", action="store_true", help="serve a model that reads windows with texts cut instead"
    )
    add_data_arguments(command.add_argument_group("columns of both files"))


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Write a fine-tuned model as TFLite for apps, or as a SavedModel for TF Serving, and verify it."""
    formats = [name.strip() for name in arguments.format.split(",")]
    if unknown := [name for name in formats if name not in FORMATS]:
        raise ValueError(f"Got --format {unknown[0]!r}; expected one of {', '.join(FORMATS)}.")
    from keras_bert.tasks.base.saved_tasks import load_task

    task = load_task(arguments.model)
    written: dict[str, Any] = {}
    if "tflite" in formats:
        written |= _write_tflite(task, arguments)
    if "saved_model" in formats:
        written |= _write_saved_model(task, arguments)
    return written


def _write_saved_model(task: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    from export.deployment.packages import write_json
    from export.serving.saving import save_serving
    from export.verification.parity import verify

    artifact = save_serving(
        task,
        arguments.output / "serving",
        version=arguments.version,
        name=arguments.output.resolve().name,  # the model's name in requests
        precision=arguments.precision,
        long_texts="cut" if arguments.cut_long_texts else None,
    )
    report = verify(task, artifact, _read_data(task, arguments)).check()
    write_json(artifact.path.parent / f"report_{artifact.version}.json", report.to_dict())
    if not arguments.json:
        print(artifact)
        print(report)
    return {"saved_model": str(artifact.path)}


def _read_data(task: Any, arguments: argparse.Namespace) -> Any:
    return None if arguments.data is None else read_examples(arguments, arguments.data, task)


def _write_tflite(task: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    from export.deployment.packages import write_package

    package = write_package(
        task,
        arguments.output,
        recipe=arguments.recipe,
        lengths=read_lengths(arguments.lengths),
        calibration=None if arguments.calibration is None else read_calibration(arguments, arguments.calibration, task),
        data=_read_data(task, arguments),
    )
    if not arguments.json:
        print(package.report)
    return {"tflite": str(package.artifact.path), "bytes": package.artifact.num_bytes}
