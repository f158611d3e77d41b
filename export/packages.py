"""A task → a directory that an app can take over: the file, its report, and golden answers for the app's tests.

A room of its own because an artifact counts as done only when it has been verified: `write_package` converts, compares
the file with the task through the device runtime, and keeps the report beside it.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from export.recipes import Recipe
from export.tflite import Artifact, convert
from export.verification import ParityReport, verify, write_golden
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
        directory: Where to; existing files are replaced, each in one step.
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
    artifact = convert(task, directory / "model.tflite", recipe=recipe, lengths=lengths, calibration=calibration)
    rows = as_rows(list(PROBES) if data is None else data, numeric=getattr(task, "kind", None) == "regression")
    report = verify(task, artifact, rows)
    _write_json(directory / "report.json", report.to_dict())
    pairs = any(pair is not None for pair in rows.pairs)
    texts = list(zip(rows.texts, rows.pairs, strict=True)) if pairs else rows.texts
    write_golden(artifact, texts[:_GOLDEN_TEXTS], directory / "golden.json")
    return Package(artifact, report.check() if check else report)


def _write_json(path, value):
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(partial, path)
