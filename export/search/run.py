"""Run a search: make, convert and measure each candidate with the device runtime.

Goes through the candidates in order and keeps every finished trial on disk, so that an interrupted search can continue.
Candidates that cannot be finished in time or cannot win are skipped with a reason; a failure becomes a trial with its
error.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from export.recipes import find_recipe
from export.runtime import load
from export.search.candidates import Candidate
from export.search.data import DeploymentData
from export.search.models import ModelMaker
from export.search.trials import FAILED, MEASURED, SKIPPED, Trial, pareto_front
from export.tflite.conversion import convert
from export.tflite.float_graph import FloatGraph, trace_float_graph
from export.verification.stream_latency import StreamLatency, time_stream
from keras_bert.system.progress import hides_bar
from keras_bert.tasks.base.task import Task

FILE = "model.tflite"
_TIMED_ROWS = 64
_REFERENCE = Candidate(recipe="float32")


@dataclass(frozen=True)
class Found:
    """The result of a search.

    Args:
        trials: A trial for each candidate, in order.
        reference: The trial of the teacher's float32 file, which all are compared with.
        teacher_score: The teacher's metric on the validation data.
    """

    trials: tuple[Trial, ...]
    reference: Trial
    teacher_score: float


class Search:
    """A search over candidates.

    Args:
        teacher: The fine-tuned task.
        data: The data to train and measure with.
        directory: The directory for models, files and trials.
        budget: How much of the metric may be lost; it decides which candidates are skipped.
        time_limit: Seconds; nothing is started that would take longer. `None` is no limit.
        verbose: 0 shows nothing, 1 a bar and each trial, 2 the training too.
    """

    def __init__(
        self,
        teacher: Task,
        data: DeploymentData,
        directory: Path,
        *,
        budget: float,
        time_limit: float | None = None,
        verbose: int = 1,
    ):
        self.teacher, self.data, self.directory, self.budget = teacher, data, Path(directory), budget
        self.time_limit, self.verbose, self.start = time_limit, verbose, time.perf_counter()
        training = 2 if verbose > 1 else 0
        self.teacher_score, self.costs = data.measure_teacher(teacher)
        made = directory / "models"
        self.models = ModelMaker(teacher, data, self.teacher_score, made, verbose=training)
        self.trials: list[Trial] = []
        self.reference: Trial | None = None
        self._traced: tuple[Task, object, FloatGraph] | None = None  # successive files often share a graph

    def file_of(self, trial: Trial) -> Path:
        """The path of a trial's file."""
        return self.directory / "files" / trial.key / FILE

    def run(self, candidates: Sequence[Candidate]) -> Found:
        """Try all candidates. The teacher's float32 file is measured first, even if it is not among them."""
        self.reference = self._next(_REFERENCE)
        if not self.reference.is_measured:
            raise RuntimeError(f"The teacher's own float32 file failed: {self.reference.note}")
        self.candidates = {candidate.key: candidate for candidate in candidates}
        with tqdm(total=len(candidates), unit="file", disable=hides_bar(self.verbose >= 1), leave=False) as bar:
            for candidate in candidates:
                bar.set_description(candidate.model.name)
                self.trials.append(self._next(candidate))
                self._drop_beaten_files()
                bar.update()
                if self.verbose >= 1:
                    bar.write(describe(self.trials[-1]))
        return Found(tuple(self.trials), self.reference, self.teacher_score)

    def _next(self, candidate: Candidate) -> Trial:
        """The trial of a candidate: from disk, skipped, or tried. An error becomes its note."""
        known = self.reference if candidate == _REFERENCE else None
        known = known or self._measured_before(candidate)
        if known is not None:
            return known
        start = time.perf_counter()
        try:
            reason = None if candidate == _REFERENCE else self._reason_to_skip(candidate)
            return self._try(candidate) if reason is None else Trial.of(candidate, SKIPPED, note=reason)
        except Exception as error:  # the failure of one candidate must not end the search
            words = f"{type(error).__name__}: {error}".split("\n")[0]
            return Trial.of(candidate, FAILED, note=words[:300], seconds=time.perf_counter() - start)

    def restore_file(self, trial: Trial) -> Path:
        """The file of a trial; made again if it was deleted because a better one was found."""
        file = self.file_of(trial)
        if not file.is_file():
            self._measure(self.candidates[trial.key])
        return file

    def _measured_before(self, candidate: Candidate) -> Trial | None:
        trial = Trial.load(self._row_file(candidate))
        if trial is None or not trial.is_measured or (candidate == _REFERENCE and not self.file_of(trial).is_file()):
            return None
        return trial

    @property
    def _reference_file(self) -> Path:
        return self.directory / "files" / _REFERENCE.key / FILE

    def _row_file(self, candidate: Candidate) -> Path:
        return self.directory / "trials" / f"{candidate.key}.json"

    def _drop_beaten_files(self) -> None:
        """Delete the files of trials that can no longer win, because they are large; their trials stay."""
        kept = {_REFERENCE.key, *(trial.key for trial in pareto_front(self.trials))}
        for trial in self.trials:
            if trial.key not in kept:
                self.file_of(trial).unlink(missing_ok=True)

    # === One candidate ===

    def _try(self, candidate: Candidate) -> Trial:
        """Make, convert and measure a candidate, and keep its trial."""
        start, was_made = time.perf_counter(), self.models.is_made(candidate.model)
        numbers = self._measure(candidate)
        seconds = time.perf_counter() - start
        trial = Trial.of(candidate, MEASURED, seconds=seconds, **numbers)
        model_seconds = 0.0 if was_made else trial.model_seconds
        self.costs.learn(candidate, model_seconds, seconds - model_seconds)
        trial.save(self._row_file(candidate))
        return trial

    def _measure(self, candidate: Candidate) -> dict[str, Any]:
        built = self.models.make(candidate.model)
        place = self.directory / "files" / candidate.key / FILE
        recipe = find_recipe(candidate.recipe)
        data = None if recipe.calibration == "unused" else self.data.calibration
        # The score decides, not the difference of the outputs from Keras.
        options: dict[str, Any] = {
            "calibration": data,
            "check": False,
            "graph": self._float_graph(built.task, candidate.lengths),
        }
        artifact = convert(built.task, place, recipe=recipe, **options)
        score = self.data.score_file(built.task, load(place))
        teacher, ours = time_beside(self.data, (self.teacher, self._reference_file), (built.task, place))
        return {
            "score": score,
            "model_score": built.score,
            "num_bytes": artifact.num_bytes,
            "milliseconds": ours.mean,
            "teacher_milliseconds": teacher.mean,
            "parameters": built.task.model.count_params(),
            "model_seconds": built.seconds,
        }

    def _float_graph(self, task: Task, lengths: Any) -> FloatGraph:
        if self._traced is None or self._traced[0] is not task or self._traced[1] != lengths:
            self._traced = (task, lengths, trace_float_graph(task, lengths))
        return self._traced[2]

    # === Skipping ===

    def _keeps(self, trial: Trial) -> bool:
        return trial.is_measured and trial.score >= self.teacher_score - self.budget

    def _reason_to_skip(self, candidate: Candidate) -> str | None:
        """The reason not to start a candidate, as text; `None` to try it."""
        start = candidate.model.start
        for trial in self.trials:
            lost = 0.0 if trial.model_score is None else self.teacher_score - trial.model_score
            if trial.model == candidate.model.name and lost > self.budget:
                return f"its model loses {100 * lost:.1f} points before it is stored in fewer bits"
            if start is not None and trial.model == start.name and lost > 2 * self.budget:
                return f"{trial.model}, which it begins with, loses {100 * lost:.1f} points"
            if (
                start is not None
                and (trial.model, trial.recipe) == (start.name, candidate.recipe)
                and self._keeps(trial)
            ):
                return "it would be as large as without this training, which is within the budget"
            # Twice the budget, because two trainings of one model differ too.
            if lost > 2 * self.budget and candidate.model.is_smaller(self.candidates[trial.key].model):
                return f"{trial.model}, which is larger, loses {100 * lost:.1f} points"
        if self.time_limit is None:
            return None
        needed = self.costs.of_file(candidate)
        needed += 0 if self.models.is_made(candidate.model) else self.costs.of_model(candidate)
        reserved = 0.0 if self.reference is None else 2 * self.reference.seconds  # to write what was found
        left = self.time_limit - (time.perf_counter() - self.start) - reserved
        if needed <= left:
            return None
        return f"it would take about {in_words(needed)}, and {in_words(max(0, left))} are left"


def time_beside(
    data: DeploymentData, first: tuple[Task, Path], second: tuple[Task, Path], *, rounds: int = 3
) -> list[StreamLatency]:
    """Time two files in turn, on rows with the lengths of the validation data; give a `StreamLatency` for each."""
    lengths = [data.row_lengths(task) for task, _ in (first, second)]
    count = min(_TIMED_ROWS, *map(len, lengths))
    rows = [part[np.linspace(0, len(part) - 1, count).round().astype(int)] for part in lengths]
    return time_stream([first[1], second[1]], rows, rounds=rounds)


def in_words(seconds: float) -> str:
    """A duration as text.

    Example:
        >>> in_words(42), in_words(130)
        ('42 s', '2 min')
    """
    return f"{seconds:.0f} s" if seconds < 99 else f"{seconds / 60:.0f} min"


def describe(trial: Trial) -> str:
    """A trial as one line."""
    if not trial.is_measured:
        return f"{trial.name}: {trial.status}, {trial.note}"
    numbers = f"{trial.score:.4f}  {trial.num_bytes / 1e6:.2f} MB  {trial.milliseconds:.2f} ms"
    return f"{trial.name}: {numbers}  ({in_words(trial.seconds)})"
