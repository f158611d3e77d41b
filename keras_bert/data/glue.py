"""Read the nine GLUE tasks, compute their metrics, and write submission files.

`read_glue` takes a task's name and the directory of the official download, and gives `TextRows` like every other
reader. The columns, metrics and labels of the tasks are a table in `data/glue_tasks.py`.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.data.glue_tasks import GLUE, GlueSplit, GlueTask, glue_task
from keras_bert.data.labelled_texts import Dropped, RowReport, TextRows, read_rows
from keras_bert.evaluation.class_arrays import class_numbers, finite_numbers
from keras_bert.evaluation.reports import classification_report, regression_report

__all__ = ["GLUE", "GlueSplit", "GlueTask", "glue_metrics", "glue_score", "glue_task", "read_glue", "write_submission"]

# === Reading ===


def read_glue(task: str | GlueTask, directory: str | os.PathLike[str], split: str) -> TextRows:
    """Read a split of a task from the official files.

    Broken rows of train and dev are dropped and named in `.report`. A test set must be complete, because its
    rows are answered by position: a broken row raises an error, and an empty text is kept.

    Args:
        task: The name of the task.
        directory: The directory of the task, or the one above it.
        split: `"train"`, `"dev"` or `"test"`; MNLI has `dev_matched`, `dev_mismatched`, `test_matched`,
            `test_mismatched` and `diagnostic`, MRPC also `test_labelled`.

    Example:
        >>> rows = read_glue("RTE", "glue", "dev")  # doctest: +SKIP
        >>> rows[0].label  # doctest: +SKIP
        'not_entailment'
    """
    task = glue_task(task)
    wanted = task.split(split)
    path = _find(task, Path(directory), wanted)
    is_test = wanted.submission is not None
    rows = read_rows(
        path,
        text=wanted.text,
        pair=wanted.pair,
        label=wanted.label,
        header=wanted.header,
        format="tsv",
        numeric=task.kind == "regression",
        allowed_labels=task.labels or None,
        keep_empty=is_test,
        strict=is_test,
    )
    return _mrpc_part(rows, path, wanted.name) if path.name == "msr_paraphrase_train.txt" else rows


def _find(task: GlueTask, directory: Path, split: GlueSplit) -> Path:
    for base in (directory / task.name, directory):
        for path in (base / name for name in split.files):
            if path.is_file():
                return path
    raise FileNotFoundError(
        f"{task.name} {split.name}: none of {', '.join(split.files)} in {directory} or {directory / task.name}; "
        "pass the directory of the official GLUE download."
    )


def _mrpc_part(rows: TextRows, path: Path, split: str) -> TextRows:
    """Train or dev of Microsoft's single file: `dev_ids.tsv` of the GLUE download lists the rows of dev."""
    ids = path.with_name("dev_ids.tsv")
    if not ids.is_file():
        raise FileNotFoundError(f"{path} has train and dev in one file; {ids} is needed to separate them.")
    dev_ids = {tuple(line.split("\t")) for line in ids.read_text(encoding="utf-8").splitlines()}
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")

    def belongs(line: int) -> bool:
        return (tuple(lines[line - 1].split("\t")[1:3]) in dev_ids) == (split == "dev")

    examples = tuple(example for example in rows if belongs(example.row))
    dropped: tuple[Dropped, ...] = tuple(drop for drop in rows.report.dropped if belongs(drop.line))
    return TextRows(examples, RowReport(rows.report.files, len(examples) + len(dropped), len(examples), dropped))


# === Metrics ===


def glue_metrics(task: str | GlueTask, predictions: Sequence[Any], labels: Sequence[Any]) -> dict[str, float]:
    """Compute the metrics that GLUE ranks a task by, between 0 and 1 (correlations between −1 and 1).

    F1 is for class `"1"`, paraphrase or duplicate. A correlation with constant predictions is NaN.

    Args:
        task: The name of the task.
        predictions: Labels as words, class numbers in the order of `labels` of the task, or scores
            `[examples, classes]`; numbers for STS-B.
        labels: The true labels, in the same form.

    Example:
        >>> glue_metrics("MRPC", ["1", "1", "0"], ["1", "0", "0"])
        {'accuracy': 0.6666666666666666, 'f1': 0.6666666666666666}
    """
    task = glue_task(task)
    if task.kind == "regression":
        numbers = regression_report(labels, predictions)
        return {name: getattr(numbers, name) for name in task.metrics}
    report = classification_report(labels, predictions, names=task.labels)
    values = {"accuracy": report.accuracy, "matthews": report.matthews, "f1": report.classes[-1].f1}
    return {name: values[name] for name in task.metrics}


def glue_score(metrics: Mapping[str, float]) -> float:
    """Compute a task's number in GLUE's table: the mean of its metrics, times 100.

    Example:
        >>> round(glue_score({"accuracy": 0.9, "f1": 0.8}), 2)
        85.0
    """
    return 100 * sum(metrics.values()) / len(metrics)


# === Submissions ===


def write_submission(
    task: str | GlueTask,
    predictions: Sequence[Any],
    directory: str | os.PathLike[str],
    *,
    split: str = "test",
    check_size: bool = True,
) -> Path:
    """Write predictions for a test set in GLUE's format: `index<TAB>prediction`, with the official file name.

    Args:
        task: The name of the task.
        predictions: As for `glue_metrics`, in the order of the test file. STS-B is clipped to 0–5.
        directory: Where the file is written; it is created if needed.
        split: For MNLI `"test_matched"`, `"test_mismatched"` or `"diagnostic"` (MNLI-m, MNLI-mm and AX).
        check_size: Whether the number of predictions must be that of the official test set.

    Example:
        >>> write_submission("SST-2", ["1", "0"], "submission", check_size=False)  # doctest: +SKIP
        PosixPath('submission/SST-2.tsv')
    """
    task = glue_task(task)
    wanted = task.split(split)
    if wanted.submission is None:
        answered = [split.name for split in task.splits if split.submission]
        raise ValueError(f"{task.name} {wanted.name} is not submitted; choose one of {', '.join(answered)}.")
    if check_size and len(predictions) != wanted.size:
        raise ValueError(
            f"There are {len(predictions):,} predictions, but {task.name} {wanted.name} has {wanted.size:,} examples; "
            "predict every row of the test file, or pass check_size=False."
        )
    words = _stsb_words(predictions) if task.kind == "regression" else _label_words(task, predictions)
    path = Path(directory) / wanted.submission
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["index\tprediction", *(f"{index}\t{word}" for index, word in enumerate(words))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _label_words(task: GlueTask, predictions: Sequence[Any]) -> list[str]:
    names, _, found = class_numbers([0] * len(predictions), predictions, task.labels)
    return [names[number] for number in found]


def _stsb_words(predictions: Sequence[float]) -> list[str]:
    return [f"{number:.3f}" for number in np.clip(finite_numbers(predictions, role="predictions"), 0.0, 5.0)]
