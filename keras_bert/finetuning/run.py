"""Fine-tunes a pretrained model by a recipe; all tasks use it.

Takes a function that builds the model (each seed starts from a new one), a function that gives batches by seed and
epoch, and one that measures. Gives the trained model and a report.
"""

import contextlib
import itertools
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_bert.finetuning.best_weights import KeepBest, Score
from keras_bert.finetuning.heads_first import train_heads
from keras_bert.finetuning.layerwise_adamw import finetuning_optimizer
from keras_bert.finetuning.mixout import MixoutModel
from keras_bert.finetuning.recipes import Recipe, rate_for_width
from keras_bert.finetuning.report import FinetuneReport, Run
from keras_bert.finetuning.run_identity import batch_part, check_same_run, loss_part, model_parts, note_kept, note_parts
from keras_bert.finetuning.trained_parts import choose_trained, reinitialize_top
from keras_bert.finetuning.weight_averaging import RunWeights, average_runs
from keras_bert.model.weights import to_numpy
from keras_bert.system.atomic_files import write_whole
from keras_bert.system.directory_claim import claims_its_directory
from keras_bert.system.progress import fit_verbosity
from keras_bert.training.device_sets import warn_of_unused_accelerator
from keras_bert.training.resume import SaveState, restore_state, saved_when_terminated, steps_of_epoch
from keras_bert.training.training_model import TrainingModel

# XLA takes some seconds to compile a step, which only pays off after many steps. JAX is too slow without it.
_STEPS_THAT_PAY_FOR_XLA = 150


@claims_its_directory
def finetune(
    build: Callable[[int], keras.Model],
    batches: Callable[[int, int, int], tf.data.Dataset],
    recipe: Recipe,
    *,
    loss: dict[str, keras.losses.Loss],
    steps_per_epoch: int,
    measure: Callable[[keras.Model], Score] | None = None,
    metric: str = "score",
    chooses: bool = True,
    directory: str | os.PathLike[str] | None = None,
    depends_on: Callable[[], dict[str, Any]] = dict,
    added_layers: Sequence[str] = (),
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: int | str = "auto",
) -> tuple[keras.Model, FinetuneReport]:
    """Train a model by a recipe, once for each seed, and keep the best run or the mean of several.

    Args:
        build: A function that takes a seed and returns a new model with pretrained weights.
        batches: A function of seed, first epoch and number of epochs that returns batches of
            `(inputs, labels[, weights])`.
        recipe: The recipe.
        loss: The loss of each output.
        steps_per_epoch: The number of batches in an epoch.
        measure: A function that takes the model and returns its `Score` on validation data; `None` keeps the last
            weights.
        metric: The name of the score.
        chooses: Whether the score decides which runs are averaged. Pass `False` if it is measured on training data; it
            then only leaves out degenerate runs.
        directory: Where the state of the run is kept. With the same directory, a killed run resumes, and a finished one
            is not trained again. A directory with the state of a different run is an error.
        depends_on: A function that returns what else identifies a run, such as its data, by name: strings and numbers,
            or large values, which are compared by digests. Recipe, loss, metric, model and weights are always compared.
        added_layers: Layers that a model has only for training; their first weights do not identify a run.
        callbacks: Keras callbacks for the run of each seed, called after the measurement of an epoch.
        verbose: As for `fit`.

    Returns:
        The trained model and the report.

    Example:
        ```python
        model, report = finetune(build, batches, RECIPES["standard"], loss=loss, steps_per_epoch=100)
        print(report)
        ```
    """
    verbose = fit_verbosity(verbose)
    warn_of_unused_accelerator()
    recipe = recipe.for_width(768)  # tasks have already set the rate for their width; the default is BERT-base's
    runs: list[Run] = []
    learned: list[RunWeights] = []
    best: Any = None  # the model and its history; there is at least one seed
    interrupted = False
    parts = {} if directory is None else note_parts({**depends_on(), "metric": metric, "loss": loss_part(loss)})
    seeds, spare = list(recipe.seeds), itertools.count(max(recipe.seeds) + 1)
    restarts = recipe.restarts
    while seeds and not interrupted:
        seed = seeds.pop(0)
        own = replace(recipe, seeds=(seed,), average=False)
        fresh = recipe.seeds[0] if recipe.average else seed  # blocks with different first weights cannot be averaged
        model, state = build(seed), None
        if directory is not None:  # before the trial changes the model: its first weights identify the run
            first = model_parts(model, added_layers) | batch_part(batches(seed, 0, 1))
            state = (Path(directory) / f"seed-{seed}", parts | note_parts(first))
        trial = _Trial(model, batches, own, loss, steps_per_epoch, measure, metric, fresh, callbacks)
        run, interrupted = trial.train(state, verbose)
        runs.append(run)
        if run.degenerate and restarts and not interrupted:
            restarts -= 1
            seeds.append(next(spare))
        report = FinetuneReport(recipe, metric, tuple(runs), trial.parameters, tuple(trial.keeper.history), interrupted)
        if report.best is run:
            best = (trial.model, report.measurements)
        if recipe.average and not run.degenerate:
            learned.append(RunWeights.of(trial.model, seed, run.score))
    report = replace(report, measurements=best[1])
    if len(learned) > 1 and not interrupted:
        averaged, score = average_runs(best[0], learned, measure if chooses else None)
        if measure is not None and not chooses:
            score = measure(best[0]).value
        report = replace(report, averaged=averaged, averaged_score=score)
    if directory is not None:
        note_kept(Path(directory), best[0], added_layers)
    return best[0], report


class _Trial:
    """The training of one seed."""

    def __init__(
        self,
        model: keras.Model,
        batches: Callable[[int, int, int], tf.data.Dataset],
        recipe: Recipe,
        loss: dict[str, keras.losses.Loss],
        steps_per_epoch: int,
        measure: Callable[[keras.Model], Score] | None,
        metric: str,
        fresh: int,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ):
        self.callbacks = tuple(callbacks)
        (self.seed,), self.recipe, self.fresh = recipe.seeds, recipe, fresh
        self.steps = max(round(recipe.epochs * steps_per_epoch), recipe.steps or 0, 1)
        evaluations = recipe.evaluations or max(1, round(self.steps / steps_per_epoch))
        self.every = -(-self.steps // min(evaluations, self.steps))
        self.steps_per_epoch, self.batches, self.loss = steps_per_epoch, batches, loss
        reinitialize_top(model, recipe.reinitialize, seed=fresh)
        self.parameters = choose_trained(model, recipe)
        if recipe.mixout:
            self.model = MixoutModel.from_model(model, rate=recipe.mixout, seed=self.seed)
        else:
            self.model = TrainingModel.from_model(model)
        optimizer = finetuning_optimizer(
            recipe.learning_rate or rate_for_width(768),
            self.steps,
            warmup=recipe.warmup,
            weight_decay=recipe.weight_decay,
            clip_norm=recipe.clip_norm,
            layer_decay=recipe.layer_decay,
            pretrained_decay=recipe.pretrained_decay,
        )
        optimizer.build(self.model.trainable_variables)
        self.model.compile(optimizer, loss=loss, jit_compile=_pays_for_xla(self.steps))
        self.keeper = KeepBest(measure, metric=metric, patience=recipe.patience)

    def train(self, state: tuple[Path, dict[str, Any]] | None, verbose: int) -> tuple[Run, bool]:
        """Train, or resume a killed run; return the `Run` and whether Ctrl-C ended it."""
        start, interrupted = time.perf_counter(), False
        place, done, callbacks = None, 0, [self.keeper]
        if state is not None:
            place, parts = state
            finished = _read_result(place)
            self._check_same_run(place, parts, finished is not None)
            done = restore_state(self.model, place)
            self.keeper.keep_in(place, done // self.every)
            callbacks.append(SaveState(place, keep=1))
            if finished is not None:
                if verbose:
                    print(f"{place} holds this run, which is finished: it is not trained again. Delete it to retrain.")
                self.keeper.restore_best(self.model)
                return finished, False
        try:
            if not done:  # the heads of a restored state are already trained
                self._fit_heads(verbose)
            while not self._has_ended(done):
                done = self._fit(done, callbacks, verbose, place)
        except KeyboardInterrupt:
            interrupted = True
        score = self.keeper.finish(self.model)
        steps, seconds = int(to_numpy(self.model.optimizer.iterations)), time.perf_counter() - start
        run = Run(
            self.seed,
            score.value,
            score.degenerate,
            steps,
            seconds,
            epochs=steps / self.steps_per_epoch,
            planned_epochs=self.steps / self.steps_per_epoch,
            best_epoch=self.keeper.best_epoch or None,
            stopped_early=not interrupted and steps < self.steps,
        )
        if place is not None and not interrupted:
            _write_json(place / "result.json", asdict(run))
        return run, interrupted

    def _check_same_run(self, place: Path, parts: dict[str, Any], has_ended: bool) -> None:
        settings = {**asdict(self.recipe), "steps_per_epoch": self.steps_per_epoch}
        settings["reinitialize_seed"] = None if self.recipe.reinitialize == 0 else self.fresh
        # A state has all that a run needs, except the first weights, which mixout and pretrained_decay use.
        has_state = any(place.glob("step-*")) and not (self.recipe.mixout or self.recipe.pretrained_decay)
        check_same_run(place, settings, parts, goes_on=has_ended or has_state)

    def _fit_heads(self, verbose: int) -> None:
        steps = round(self.recipe.head_epochs * self.steps_per_epoch)
        if steps:
            epochs = -(-steps // self.steps_per_epoch)
            batches = self.batches(self.seed, 0, epochs)
            train_heads(self.model, batches, steps=steps, loss=self.loss, verbose=verbose)

    def _has_ended(self, done: int) -> bool:
        # Without patience also where it was killed after the last step, before the result.
        return done >= self.steps or self.keeper.out_of_patience or getattr(self.model, "stop_training", False)

    def _fit(self, done: int, callbacks: list[keras.callbacks.Callback], verbose: int, place: Path | None) -> int:
        """Train to the end, or after a stop within an epoch to the end of that; give the step there."""
        steps, end = steps_of_epoch(done, self.every, -(-self.steps // self.every) * self.every)
        with contextlib.ExitStack() as stack:
            if place is not None:
                saved = saved_when_terminated(place, start=done, steps_per_epoch=self.every, keep=1)
                callbacks = [*callbacks, stack.enter_context(saved)]
            self.model.fit(
                self._stream(done),
                steps_per_epoch=steps,
                initial_epoch=done // self.every,
                epochs=end // self.every,
                shuffle=False,
                verbose=verbose,
                callbacks=[*callbacks, *self.callbacks],
            )
        return end

    def _stream(self, done: int) -> tf.data.Dataset:
        """Return the batches after a step; the order of an epoch depends only on seed and epoch."""
        first, skip = divmod(done, self.steps_per_epoch)
        # The last evaluation period may go beyond the last step, and `fit` must have enough batches for it.
        last = -(-(self.steps + self.every) // self.steps_per_epoch)
        return self.batches(self.seed, first, last - first + 1).skip(skip)


def _pays_for_xla(steps: int) -> bool:
    return keras.backend.backend() == "jax" or steps >= _STEPS_THAT_PAY_FOR_XLA


def _read_result(place: Path) -> Run | None:
    path = place / "result.json"
    return Run(**json.loads(path.read_text(encoding="utf-8")) | {"reused": True}) if path.exists() else None


def _write_json(path: Path, value: Any) -> None:
    write_whole(path, json.dumps(value) + "\n")
