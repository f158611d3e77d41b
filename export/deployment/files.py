"""Write the directory of a deployment, for an app, a server and a reader.

All files are written to a temporary directory and moved when they are complete, the manifest last. So a directory whose
manifest fits is complete.
"""

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from export.deployment.manifest import write_manifest
from export.deployment.model_card import model_card
from export.deployment.packages import write_golden
from export.deployment.proof import Proof
from export.deployment.report import report_page
from export.deployment.result import Deployment
from export.search.data import DeploymentData
from export.serving.saving import save_serving
from keras_bert.system.atomic_files import temporary_directory
from keras_bert.tasks.base.task import Task
from keras_bert.text.unigram import UnigramTokenizer

_GOLDEN = 20
_VERSION = 1  # the version of the SavedModel


def write_deployment(result: Deployment, task: Task, file: Path, data: DeploymentData, proof: Proof) -> None:
    """Write all files of a deployment to its directory.

    Args:
        result: The result of the search.
        task: The chosen model.
        file: Its `.tflite` file.
        data: The user's data.
        proof: The measurements of the chosen file.
    """
    directory = result.directory
    with temporary_directory(directory, ".new-") as place:
        shutil.copyfile(file, place / "model.tflite")
        task.save(place / "keras")
        if isinstance(task.tokenizer, UnigramTokenizer):
            task.tokenizer.save_vocabulary(place / "sentencepiece.model")
        else:
            _write_words(place / "vocab.txt", task.tokenizer.vocabulary)
        if task.labels is not None:
            _write_words(place / "labels.txt", task.labels)
        write_golden(place / "model.tflite", data.validation.inputs[:_GOLDEN], place / "golden.json")
        served = save_serving(
            task, place / "saved_model", version=_VERSION, name=_name(directory), long_texts=_cut(task)
        )
        (place / "report.html").write_text(report_page(result, task, data, proof, served), encoding="utf-8")
        (place / "model_card.md").write_text(model_card(result, task, data, proof), encoding="utf-8")
        write_manifest(place, _facts(result, task))
        _move_all(place, directory)


def _name(directory: Path) -> str:
    """The model's name in requests: the directory's name, in letters that a URL allows."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", directory.resolve().name).strip("-.") or "model"


def _cut(task: Task) -> str | None:
    # A served graph reads one row of a text; the file and the Keras model read all of its windows.
    return "cut" if task.long_texts == "windows" else None


def _write_words(path: Path, words: Sequence[str]) -> None:
    path.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")


def _facts(result: Deployment, task: Task) -> dict[str, Any]:
    return {
        "task": task.name,
        "metric": result.metric,
        "teacher_score": result.teacher_score,
        "accuracy_budget": result.budget,
        "is_kept": result.is_kept,
        "difference": None if result.interval is None else asdict(result.interval),
        "chosen": asdict(result.chosen),
        "reference": asdict(result.reference),
        "notes": list(result.notes),
        "candidates": [asdict(trial) for trial in result.trials],
    }


def _move_all(place: Path, directory: Path) -> None:
    """Replace old files by new ones, each in one step, the manifest last."""
    old = place / ".old"
    old.mkdir()
    for path in sorted(place.iterdir(), key=lambda path: path.name == "manifest.json"):
        if path == old:
            continue
        target = directory / path.name
        if target.is_dir():
            os.rename(target, old / path.name)
        os.replace(path, target)
