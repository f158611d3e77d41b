"""Write a directory for an app: the verified file, its report, and golden answers for the app's tests.

`write_package` converts a task, compares the file with the task through the device runtime, and keeps the report beside
it.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from export.recipes import Recipe
from export.runtime import load
from export.tasks.base.inputs import read_examples
from export.tflite.conversion import Artifact, convert
from export.verification.parity import ParityReport, verify
from keras_bert.system.atomic_files import write_whole
from keras_bert.tasks.base.task import Task

_GOLDEN_TEXTS = 20


@dataclass(frozen=True)
class Package:
    """The result of `write_package`."""

    artifact: Artifact
    report: ParityReport


def write_package(
    task: Task,
    directory: str | os.PathLike[str],
    *,
    recipe: str | Recipe = "dynamic_int8",
    lengths: int | Sequence[int] | str | None = "auto",
    calibration: Iterable[Any] | str | os.PathLike[str] | None = None,
    data: Any = None,
    check: bool = True,
) -> Package:
    """Write `model.tflite`, `report.json` and `golden.json`, and verify the file.

    Args:
        task: The task.
        directory: The directory. Existing files are replaced when the new ones are verified, the model last.
        recipe: As for `convert`.
        lengths: As for `convert`.
        calibration: As for `convert`.
        data: The data to verify with, as for `verify`, with labels or without; `None` takes a few built-in texts.
        check: Whether to raise an error if the file differs too much from the task.

    Example:
        >>> package = write_package(classifier, "out", recipe="float32", data="dev.tsv")  # doctest: +SKIP
        >>> print(package.report)  # doctest: +SKIP
    """
    directory = Path(directory).expanduser()
    directory.mkdir(parents=True, exist_ok=True)
    examples = read_examples(task, data)
    with tempfile.TemporaryDirectory(prefix=".package-", dir=directory) as place:
        new, path = Path(place), directory / "model.tflite"
        artifact = convert(task, new / path.name, recipe=recipe, lengths=lengths, calibration=calibration, check=False)
        report = replace(verify(task, artifact, examples, recipe=recipe), path=path)
        if check:
            report.check()
        write_json(new / "report.json", report.to_dict())
        write_golden(artifact, examples.inputs[:_GOLDEN_TEXTS], new / "golden.json")
        for name in ("report.json", "golden.json", path.name):
            os.replace(new / name, directory / name)
    return Package(replace(artifact, path=path), report)


def write_golden(file: Any, inputs: Sequence[Any], path: str | os.PathLike[str]) -> None:
    """Write the tokens, outputs and answers of some inputs as JSON, to test an app's own code with.

    A text that is read in several windows has several rows, with the same answer. Outputs for each token have no
    padding.

    Args:
        file: An `Artifact`, or the path.
        inputs: Inputs of the runtime: texts, pairs, questions with their contexts.
        path: The JSON file to write.

    Example:
        >>> write_golden("model.tflite", ["wake me at seven"], "golden.json")  # doctest: +SKIP
    """
    runtime, rows = load(getattr(file, "path", file)), []
    for given in inputs:
        data = runtime.reader.prepare([given])
        outputs = runtime.outputs(data.tokenized)
        (answer,) = runtime.reader.answers(outputs, data, [given])
        ids, splits, second_begins = data.tokenized.packed()
        for row in range(len(data.tokenized)):
            tokens = slice(splits[row], splits[row + 1])
            segments = np.arange(splits[row + 1] - splits[row]) >= second_begins[row]
            numbers = {
                name: _rounded(value[tokens if name in runtime.reader.token_outputs else row])
                for name, value in outputs.items()
            }
            rows.append(
                {
                    "text": _plain(given),
                    "token_ids": ids[tokens].tolist(),
                    "segment_ids": segments.astype(int).tolist(),
                    "outputs": {name: value.tolist() for name, value in numbers.items()},
                    "answer": _plain(answer),
                }
            )
    write_json(Path(path), rows)


def _rounded(values: Any) -> np.ndarray:
    values = np.asarray(values)
    return values if values.dtype.kind == "i" else values.astype("float64").round(6)


def _plain(answer: Any) -> Any:
    """An input or an answer as plain values, for JSON."""
    if isinstance(answer, list | tuple):
        return [_plain(part) for part in answer]
    if isinstance(answer, np.ndarray):
        return answer.astype("float64").round(6).tolist()
    return asdict(answer) if is_dataclass(answer) and not isinstance(answer, type) else answer


def write_json(path: Path, value: Any) -> None:
    """Write a report as JSON, in one step."""
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")
