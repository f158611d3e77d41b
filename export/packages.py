"""A task → a directory that an app can take over: the file, its report, and golden answers for the app's tests.

A room of its own because an artifact counts as done only when it has been verified: `write_package` converts, compares
the file with the task through the device runtime, and keeps the report beside it.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from export.recipes import Recipe
from export.runtime import load
from export.tflite import Artifact, convert, write_atomically
from export.verification import ParityReport, verify
from keras_bert.tasks.inputs import as_rows
from keras_bert.tasks.task import Task

# What every file is tried with where there is no data: plain words, accents, CJK, emoji, punctuation, a long one.
PROBES = (
    "What a lovely film!",
    "wake me at quarter to six on Monday",
    "Der Kaffee im Café München war naïve 5½ Sterne wert.",
    "今天天气很好，我们去公园吧。",
    "great 👍🏽 … not!",
    "a " * 200,
    "?",
)
_GOLDEN_TEXTS = 20


@dataclass(frozen=True)
class Package:
    """What `write_package` wrote."""

    artifact: Artifact
    report: ParityReport


def write_package(
    task: Task,
    directory: str | os.PathLike,
    *,
    recipe: str | Recipe = "dynamic_int8",
    lengths: int | Sequence[int] | None = 128,
    calibration: Iterable | None = None,
    data=None,
    check: bool = True,
) -> Package:
    """Write `model.tflite`, `report.json` and `golden.json`, and verify the file.

    Args:
        task: The task.
        directory: Where to. Existing files are replaced once the new ones are verified, the model last.
        recipe: As for `convert`.
        lengths: As for `convert`.
        calibration: As for `convert`.
        data: Texts, with labels or without, to verify with; `None` takes a handful of texts of several kinds.
        check: Whether a file that is too far from the task is an error.

    Example:
        >>> package = write_package(classifier, "out", recipe="float32", data="dev.tsv")  # doctest: +SKIP
        >>> print(package.report)  # doctest: +SKIP
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    rows = as_rows(list(PROBES) if data is None else data, numeric=getattr(task, "kind", None) == "regression")
    with tempfile.TemporaryDirectory(prefix=".package-", dir=directory) as place:
        new, path = Path(place), directory / "model.tflite"
        artifact = convert(task, new / path.name, recipe=recipe, lengths=lengths, calibration=calibration)
        report = replace(verify(task, artifact, rows, recipe=recipe), path=path)
        if check:
            report.check()
        _write_json(new / "report.json", report.to_dict())
        write_golden(artifact, rows.inputs[:_GOLDEN_TEXTS], new / "golden.json")
        for name in ("report.json", "golden.json", path.name):
            os.replace(new / name, directory / name)
    return Package(replace(artifact, path=path), report)


def write_golden(file, texts: Sequence, path: str | os.PathLike) -> None:
    """Inputs and outputs of some texts as JSON, with which an app can test its own tokenizer and interpreter.

    A text that is read in several windows has several rows.

    Example:
        >>> write_golden("model.tflite", ["wake me at seven"], "golden.json")  # doctest: +SKIP
    """
    runtime = load(getattr(file, "path", file))
    rows = []
    for text in texts:
        tokenized, _ = runtime.tokenize(*([text], None) if isinstance(text, str) else ([text[0]], [text[1]]))
        outputs = runtime.outputs(tokenized)
        ids, splits, second_begins = tokenized.packed()
        for row in range(len(tokenized)):
            token_ids = ids[splits[row] : splits[row + 1]]
            segments = np.arange(len(token_ids)) >= second_begins[row]
            numbers = {name: np.asarray(value[row], "float64").round(6).tolist() for name, value in outputs.items()}
            given = {"token_ids": token_ids.tolist(), "segment_ids": segments.astype(int).tolist()}
            rows.append({"text": text, **given, "outputs": numbers})
    _write_json(Path(path), rows)


def _write_json(path, value):
    write_atomically(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())
