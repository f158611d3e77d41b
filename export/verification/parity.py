"""Compare a file with its task on the same texts, and check that they agree.

`verify` runs both and gives a `ParityReport`; `.check()` raises an error if the file differs more than its recipe
allows. The file is run by its own runtime, as an app runs it.
"""

import copy
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from export.file.metadata import task_settings
from export.file.metadata_reader import FileMetadata
from export.file.ops import OpAudit, audit_ops
from export.recipes import Recipe, find_recipe
from export.runtime import load
from export.serving.rows import ServedRows, find_version
from export.tasks.base.examples import Examples
from export.tasks.base.inputs import read_examples, task_reader
from export.tasks.base.reader import Reader
from export.tasks.base.registry import find_export
from export.tasks.base.tensorflow_process import on_tensorflow
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.tasks.base.task import Task

# How much of the task's metric a file may lose; without labels, the share of answers that may change.
_MOST_LOST, _MOST_CHANGED = 0.01, 0.05
_MOST_TOKENS_CHANGED = 0.15  # of written texts, where ties between tokens are common and rounding decides them
# Of a SavedModel, by its precision; in float32 it computes the same as Keras.
SERVING_TOLERANCES = {"float32": 1e-4, "bfloat16": 5e-2}


class VerificationError(ValueError):
    """A file does not give the answers of its task."""


@dataclass(frozen=True)
class ParityReport:
    """How the answers of a file compare with those of the Keras model. Prints as a small table.

    Args:
        path: The file.
        recipe: The recipe that it was made by.
        tolerance: The largest `relative_error` that the recipe allows.
        examples: How many texts were compared.
        length: The tokens that the file takes; longer texts are cut or read in windows, as the task is set.
        max_error: The largest difference of an output, such as a probability or a token's logit.
        relative_error: The root mean square of the difference of the outputs, divided by that of the Keras outputs.
        agreement: The share of inputs with the same answer: label, entities, part of a context. For regression, the
            correlation of the answers; for vectors, the mean of their cosines.
        tokens_differ: How many texts the runtime's tokenizer splits differently from the task's; expected is 0.
        metric: The metric of the scores; `None` if the texts had no labels.
        keras_score: The score of the Keras model, with its own length.
        file_score: The score of the file.
        ops: The ops of the file.
        same_texts: For a task that writes, the share of texts that the file writes as Keras does; `agreement` is then
            the share of tokens, each chosen after what Keras wrote before it.
    """

    path: Path
    recipe: str
    tolerance: float
    examples: int
    length: int
    max_error: float
    relative_error: float
    agreement: float
    tokens_differ: int
    metric: str | None
    keras_score: float | None
    file_score: float | None
    ops: OpAudit
    same_texts: float | None = None
    agreement_of: str = "same answers"

    @property
    def agreement_words(self) -> str:
        """The agreement of the answers as a phrase."""
        if self.agreement_of in ("same answers", "same tokens"):
            return f"{self.agreement:.2%} of the {self.agreement_of.split()[1]} are the same"
        return f"the {self.agreement_of} of the answers is {self.agreement:.4f}"

    def check(self) -> "ParityReport":
        """Raise a `VerificationError` if the file is not good enough, else give the report."""
        problems = []
        if not self.relative_error <= self.tolerance:
            problems.append(
                f"outputs differ by {self.relative_error:.2g} of their size, expected at most {self.tolerance}"
            )
        if (
            self.keras_score is not None
            and self.file_score is not None
            and not self.file_score >= self.keras_score - self._allowed_loss()
        ):
            problems.append(f"{self.metric} falls from {self.keras_score:.4f} to {self.file_score:.4f}")
        changed = _MOST_CHANGED if self.same_texts is None else _MOST_TOKENS_CHANGED
        if self.keras_score is None and self.agreement < 1 - max(changed, 1.5 / self.examples):
            problems.append(f"only {self.agreement_words}")
        if self.tokens_differ:
            problems.append(f"{self.tokens_differ} texts are split into other tokens")
        if self.ops.custom_ops:
            problems.append(f"it needs {', '.join(self.ops.custom_ops)}, which LiteRT does not build in")
        if problems:
            raise VerificationError(
                f"{self.path} ({self.recipe}) differs too much from its model: {'; '.join(problems)}. Use a recipe "
                "with more bits, or calibrate with more texts like those of its users."
            )
        return self

    def _allowed_loss(self) -> float:
        # With few texts, one changed answer is more than a point, and not a failure.
        return max(_MOST_LOST, 1.5 / self.examples)

    def __str__(self) -> str:
        rows = {
            "file": f"{self.path}  {self.recipe}",
            "texts": f"{self.examples:,}, of at most {self.length} tokens",
            "largest error": f"{self.max_error:.2g}",
            "relative error": f"{self.relative_error:.2g}",
            "agreement": self.agreement_words,
        }
        if self.same_texts is not None:
            rows["same texts"] = f"{self.same_texts:.2%}"
        if self.metric is not None:
            rows[self.metric] = f"Keras {self.keras_score:.4f}, file {self.file_score:.4f}"
        rows["ops"] = ", ".join(f"{name} {count}" for name, count in self.ops.ops.items())
        if self.ops.partitions:
            rows["XNNPACK"] = ", ".join(f"{name}: {count} partitions" for name, count in self.ops.partitions.items())
        return "\n".join(f"{name:<16}{value}" for name, value in rows.items())

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {**asdict(self), "path": self.path.name}


@on_tensorflow()
def verify(
    task: Task,
    file: Any,
    data: Any,
    y: Sequence[Any] | None = None,
    *,
    recipe: str | Recipe | None = None,
    columns: dict[str, Any] | None = None,
) -> ParityReport:
    """Compare a file, run by the device runtime, or a SavedModel with the task that it was made from.

    Args:
        task: The task.
        file: The result of `convert` or `save_serving`, or the path of a `.tflite` file or a SavedModel: a version, or
            the directory of versions, whose highest is taken. A SavedModel is run with ids and with strings.
        data: A list of inputs of `task.predict`; or labelled data that `task.evaluate` takes, and then the scores are
            compared too; or `Examples`.
        y: The labels of texts.
        recipe: The recipe, for its tolerance; by default that of the artifact, or the one that the file names. Pass
            your own `Recipe` here if the file was made with it.
        columns: Columns of a data file, as for `task.evaluate`.

    Example:
        >>> report = verify(classifier, "model.tflite", "dev.tsv")  # doctest: +SKIP
        >>> print(report.check())  # doctest: +SKIP
        file            model.tflite  dynamic_int8
        texts           872, of at most 128 tokens
        largest error   0.031
        …
    """
    path = Path(getattr(file, "path", file)).expanduser()
    examples = data if isinstance(data, Examples) else read_examples(task, data, y, **(columns or {}))
    if (version := find_version(path)) is not None:
        return _verify_served(task, version, examples)
    runtime = load(path)
    _check_same_task(path, runtime.metadata, task)
    recipe = find_recipe(recipe or getattr(file, "recipe", None) or runtime.metadata.settings.get("recipe", "float32"))
    return ParityReport(
        path=path,
        recipe=recipe.name,
        tolerance=recipe.tolerance,
        examples=len(examples.inputs),
        length=runtime.longest,
        ops=audit_ops(path, count_partitions=True),
        **_compare(task, runtime, examples),
    )


def _verify_served(task: Task, version: Path, examples: Examples) -> ParityReport:
    """Compare rows by their ids, and strings by the signatures for them; a difference there means other tokens."""
    served = ServedRows(version, task)
    strings = served.string_errors(examples.inputs)
    numbers = _compare(task, served, examples)
    numbers["max_error"] = max(numbers["max_error"], strings.max(initial=0.0))
    tolerance = SERVING_TOLERANCES[served.precision]
    numbers["tokens_differ"] += int(np.sum(~(strings <= tolerance)))
    return ParityReport(
        path=version,
        recipe="saved_model",
        tolerance=tolerance,
        examples=len(examples.inputs),
        length=served.longest,
        ops=served.audit(),
        **numbers,
    )


def _check_same_task(path: Path, metadata: FileMetadata, task: Task) -> None:
    """Raise an error if the file has other labels or settings than the task, which no number would show."""
    if metadata.labels != (None if task.labels is None else tuple(task.labels)):
        raise ValueError(f"{path} has other labels than the task; pass the task that it was made from.")
    ours = json.loads(json.dumps(task_settings(task)))
    if changed := [name for name, value in ours.items() if metadata.settings.get(name, value) != value]:
        raise ValueError(
            f"{path} has another {' and '.join(changed)} than the task, which has changed since; export it again."
        )


def _compare(task: Task, runtime: Any, examples: Examples) -> dict[str, Any]:
    """Compare the outputs of both at the file's length, row by row, and the scores of each at its own length."""
    shortened, exported = copy.copy(task), find_export(task.name)
    if exported.writes:
        return _compare_texts(task, runtime, examples)
    for name, value in runtime.reader.reading.items():
        setattr(shortened, name, value)
    reader, inputs = task_reader(task, runtime.longest), examples.inputs
    data = reader.prepare(inputs)
    raw = shortened.outputs(data.tokenized)
    ours, theirs = exported.from_task(task, raw, data.tokenized), runtime.outputs(data.tokenized)
    numbers = {
        **_errors(reader, ours, theirs, None if exported.counted is None else exported.counted(data.tokenized)),
        "agreement_of": reader.agreement_of,
        "agreement": reader.agreement(*(reader.answers(part, data, inputs) for part in (ours, theirs))),
        "tokens_differ": count_differences(data, runtime.reader.prepare(inputs)),
    }
    if examples.labelled is None:
        return numbers | {"metric": None, "keras_score": None, "file_score": None}
    rows = shortened.prepare(examples.labelled, None)
    metric = exported.metric(task, rows)
    if not _have_same_rows(rows, data):  # a task may fill up its groups to score them
        raw, theirs = shortened.outputs(rows.tokenized), runtime.outputs(rows.tokenized)
    if runtime.longest == task.sequence_length:
        keras_score = exported.score(task, raw, rows, metric)
    else:
        whole = task.prepare(examples.labelled, None)
        keras_score = exported.score(task, task.outputs(whole.tokenized), whole, metric)
    file_score = exported.score(shortened, exported.to_task(task, theirs, rows.tokenized), rows, metric)
    return numbers | {"metric": metric, "keras_score": keras_score, "file_score": file_score}


def _compare_texts(task: Any, runtime: Any, examples: Examples) -> dict[str, Any]:
    from export.verification.generation import compare_served, compare_writing  # it imports this module

    return (compare_served if isinstance(runtime, ServedRows) else compare_writing)(task, runtime, examples)


def relative_error(expected: np.ndarray, found: np.ndarray) -> float:
    """The root mean square of the difference, divided by that of the expected values.

    Example:
        >>> relative_error(np.array([3.0, 4.0]), np.array([3.0, 4.5]))
        0.1
    """
    return float(np.sqrt(np.mean((found - expected) ** 2) / max(np.mean(expected**2), 1e-12)))


def _have_same_rows(data: PreparedData, other: PreparedData) -> bool:
    ours, theirs = data.tokenized.packed(), other.tokenized.packed()
    return all(np.array_equal(one, another) for one, another in zip(ours, theirs, strict=True))


def _errors(
    reader: Reader, ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray], counted: np.ndarray | None
) -> dict[str, float]:
    pairs = []
    for name in theirs:
        rows = slice(None) if counted is None or name not in reader.token_outputs else counted
        pairs.append([np.ravel(part[name][rows]).astype("float64") for part in (ours, theirs)])
    expected, found = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    return {"max_error": float(np.abs(found - expected).max()), "relative_error": relative_error(expected, found)}


def count_differences(data: PreparedData, other: PreparedData) -> int:
    """Count the inputs whose tokens differ between the two."""
    if len(data.tokenized) != len(other.tokenized):
        return abs(len(data.tokenized) - len(other.tokenized))
    (ids, splits, _), (other_ids, other_splits, _) = data.tokenized.packed(), other.tokenized.packed()
    rows = [
        row
        for row in range(len(data.tokenized))
        if not np.array_equal(ids[splits[row] : splits[row + 1]], other_ids[other_splits[row] : other_splits[row + 1]])
    ]
    return len(set(data.owners[rows].tolist()))
