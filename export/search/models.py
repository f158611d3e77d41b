"""Make and train the model of a plan, and keep it on disk.

Takes `ModelPlan`s and gives tasks. Several files are made from one model, and an interrupted search continues with the
models that it has.
"""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from export.compression.heads import remove_heads, remove_neurons
from export.compression.layers import remove_layers
from export.compression.students import make_student
from export.compression.vocabulary import trim_vocabulary
from export.distillation.losses import DistillationLoss, Hidden, Logits
from export.distillation.training import distill
from export.quantization.training import train_quantized
from export.search.candidates import ModelPlan
from export.search.data import DeploymentData
from export.tasks.base.examples import Examples
from export.tasks.base.registry import find_export
from keras_bert.data.augmentation import NearestWords, augment
from keras_bert.data.inputs import as_rows
from keras_bert.model.weights import copy_weights
from keras_bert.system.atomic_files import write_whole
from keras_bert.tasks.base.saved_tasks import load_task
from keras_bert.tasks.base.task import Task
from keras_bert.text.tokenizer import require_wordpiece

_DONE = "done.json"
_REMOVE: dict[str, Callable[..., tuple[Task, Any]]] = {
    "heads": remove_heads,
    "layers": remove_layers,
    "neurons": remove_neurons,
}


@dataclass(frozen=True)
class BuiltModel:
    """A model made from a plan.

    Args:
        task: The model as a task.
        score: The metric on the validation data, in Keras.
        seconds: The time to make it.
        notes: What was done, as text.
    """

    task: Task
    score: float
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


class ModelMaker:
    """Makes the models of a search.

    Args:
        teacher: The fine-tuned task.
        data: The data to train on; its validation data decides which weights to keep.
        teacher_score: The teacher's metric on the validation data.
        directory: Where models are kept.
        verbose: As for `fit`.
    """

    def __init__(self, teacher: Task, data: DeploymentData, teacher_score: float, directory: Path, *, verbose: int = 0):
        self.teacher, self.data, self.teacher_score = teacher, data, teacher_score
        self.train, self.validation = data.train, data.validation
        self.directory, self.verbose = directory, verbose
        self._augmented: dict[int, Examples] = {}
        self._last: tuple[str, BuiltModel] | None = None  # successive files often share a model

    def is_made(self, plan: ModelPlan) -> bool:
        """Whether the model exists already."""
        return not plan.needs_training or (self.directory / plan.key / _DONE).is_file()

    def make(self, plan: ModelPlan) -> BuiltModel:
        """Give the model of a plan, from disk if it was made before."""
        if not plan.needs_training:
            return BuiltModel(self.teacher, self.teacher_score)
        if self._last is None or self._last[0] != plan.key:
            self._last = (plan.key, self._open(plan) if self.is_made(plan) else self._build(plan))
        return self._last[1]

    def _open(self, plan: ModelPlan) -> BuiltModel:
        place = self.directory / plan.key
        known = json.loads((place / _DONE).read_text(encoding="utf-8"))
        return BuiltModel(load_task(place / "task"), known["score"], known["seconds"], tuple(known["notes"]))

    def _build(self, plan: ModelPlan) -> BuiltModel:
        self._training_data(plan)
        place, start = self.directory / plan.key, time.perf_counter()
        task, notes = self._shrink(plan) if plan.start is None else (self._copy_of(plan.start), ())
        if plan.training is not None:
            task = self._train(plan, task, place / "state")
        built = BuiltModel(task, self.data.score_task(task), time.perf_counter() - start, notes)
        shutil.rmtree(place / "task", ignore_errors=True)  # from an interrupted run
        task.save(place / "task")
        known = {"score": built.score, "seconds": built.seconds, "notes": notes, "plan": repr(plan)}
        write_whole(place / _DONE, json.dumps(known, ensure_ascii=False) + "\n")
        shutil.rmtree(place / "state", ignore_errors=True)
        return built

    def _copy_of(self, plan: ModelPlan) -> Task:
        """A copy of the finished model of a plan, to be changed."""
        task = self.make(plan).task
        twin = task.on_encoder(task.config)
        copy_weights(task.model, twin.model)
        twin.fresh_heads = False
        return twin

    # === Sizes ===

    def _shrink(self, plan: ModelPlan) -> tuple[Task, tuple[str, ...]]:
        """Make the teacher smaller as the plan says; give the task and notes on what was done."""
        task, notes = self.teacher, []
        seed = 0 if plan.training is None else plan.training.seeds[0]
        if plan.encoder is not None:
            return make_student(task, encoder=plan.encoder, seed=seed, verbose=False), ()
        if plan.trim is not None:
            texts, others = (flat_texts(part) for part in (self._texts(plan).inputs, self.validation.inputs))
            task, report = trim_vocabulary(task, texts, held_out=others, min_count=plan.trim)
            notes.append(str(report))
        for part, keep in plan.cuts.items():
            task, report = _REMOVE[part](task, self._training_data(plan).labelled, keep=keep, verbose=False)
            notes.append(str(report))
        if plan.sizes:
            sizes: dict[str, Any] = dict(plan.sizes)
            task = make_student(task, seed=seed, verbose=False, **sizes)
        return task, tuple(notes)

    # === Training ===

    def _training_data(self, plan: ModelPlan) -> Examples:
        if self.train is None:
            raise ValueError(f"The model {plan.name!r} needs training data, and there is none; pass train=.")
        return self.train

    def _texts(self, plan: ModelPlan) -> Examples:
        """The training data, with augmented copies if the plan asks for them."""
        if not plan.copies:
            return self._training_data(plan)
        if plan.copies not in self._augmented:
            self._augmented[plan.copies] = self._augment(plan)
        return self._augmented[plan.copies]

    def _augment(self, plan: ModelPlan) -> Examples:
        rows = self._training_data(plan).labelled
        if not find_export(self.teacher.name).plain_rows:
            raise ValueError(
                f"Got copies={plan.copies}, which are for classifiers of texts; this is {self.teacher.name}. Use "
                "copies=0."
            )
        more = augment(
            rows.texts,
            rows.pairs if rows.has_pairs else None,
            proposer=NearestWords(self.teacher.model, require_wordpiece(self.teacher.tokenizer, "copies=")),
            seed=self.data.seed,
            per_text=plan.copies,
            progress=False,
        )
        inputs = more.texts if more.pairs is None else list(zip(more.texts, more.pairs, strict=True))
        labels = rows.labels
        spread = [labels[row] for row in more.rows]
        return Examples(inputs, as_rows(inputs, spread, numeric=getattr(self.teacher, "kind", None) == "regression"))

    def _train(self, plan: ModelPlan, task: Task, state: Path) -> Task:
        """Train a smaller model on the teacher's outputs and the labels."""
        options = {
            "validation_data": self.validation.labelled,
            "recipe": plan.training,
            "cache": self.directory / "teacher",
            "directory": state,
            "verbose": self.verbose,
        }
        if plan.copies:
            options["label_weight"] = 0.0  # another word may change the label of a text
        rows = self._texts(plan).labelled
        if plan.quantized is None:
            # A student of the same width can learn from the teacher's last states, which say more than its answers.
            is_wide = plan.cuts and not plan.sizes and find_export(self.teacher.name).matches_states
            losses: list[DistillationLoss] | None = [Logits(), Hidden()] if is_wide else None
            distill(self.teacher, task, rows, losses=losses, **options)
        else:
            train_quantized(task, rows, teacher=self.teacher, quantization=plan.quantized, **options)
        return task


def flat_texts(inputs: Any) -> list[str]:
    """Collect all strings in a task's inputs: texts, pairs, words, contexts with choices, marked texts.

    Example:
        >>> flat_texts(["a", ("b", ["c", "d"])])
        ['a', 'b', 'c', 'd']
    """
    texts = []
    for part in inputs:
        part = getattr(part, "text", part)
        texts += [part] if isinstance(part, str) else flat_texts(part)
    return texts
