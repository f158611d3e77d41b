"""A pretrained model, batches and a recipe → a fine-tuned model and a report of how it went.

Takes a function that builds the model (each seed starts from a fresh one), a function that gives batches by seed and
epoch, and one that measures. A room of its own because every task fine-tunes in the same way: what differs between
them is the model, the loss and the measure, and those are handed in.
"""

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
from keras_bert.finetuning.recipes import Recipe
from keras_bert.finetuning.report import FinetuneReport, Run
from keras_bert.finetuning.run_identity import batch_part, check_same_run, loss_part, model_parts, note_kept, note_parts
from keras_bert.finetuning.trained_parts import choose_trained, reinitialize_top
from keras_bert.finetuning.weight_averaging import RunWeights, average_runs
from keras_bert.model.weights import to_numpy
from keras_bert.system.atomic_files import write_whole
from keras_bert.system.progress import fit_verbosity
from keras_bert.training.resume import SaveState, restore_state
from keras_bert.training.training_model import TrainingModel

# XLA takes some seconds to compile a step, and saves a sixth of every step after it.
_STEPS_THAT_PAY_FOR_XLA = 150


def finetune(
    build: Callable[[int], keras.Model],
    batches: Callable[[int, int, int], tf.data.Dataset],
    recipe: Recipe,
    *,
    loss: dict,
    steps_per_epoch: int,
    measure: Callable[[keras.Model], Score] | None = None,
    metric: str = "score",
    chooses: bool = True,
    directory: str | os.PathLike | None = None,
    depends_on: Callable[[], dict[str, Any]] = dict,
    added_layers: Sequence[str] = (),
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: int | str = "auto",
) -> tuple[keras.Model, FinetuneReport]:
    """Train a model by a recipe, once for each seed, and keep the best, or the mean of those that go together.

    Args:
        build: Gives a fresh model with pretrained weights, by seed.
        batches: Gives the batches, `(inputs, labels[, weights])`, by seed, first epoch and number of epochs.
        recipe: How.
        loss: The loss of each output.
        steps_per_epoch: Batches of an epoch.
        measure: Takes the model in training, gives its `Score` on validation data. Without it the last weights stay.
        metric: What the score is called.
        chooses: Whether the score chooses the runs that are averaged; not where it is one of training data, which all
            runs know by heart. It then only keeps degenerate runs out.
        directory: Where the state of the run is kept; started again with it, a killed run goes on, and one that has
            ended is not trained again. A directory with the state of another run is refused.
        depends_on: Gives what else makes a run another one, such as its data, by name: words and numbers, or large
            values, which are compared by digests. Recipe, loss, metric, model and its weights are always among it.
        added_layers: Layers that a model has for training alone: whatever they start with, it is the same run.
        callbacks: Keras callbacks, called on the run of each seed, after the measurement of an epoch.
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
    recipe = recipe.for_width(768)  # tasks know the width of their models; without one it is BERT-base's
    runs: list = []
    learned: list = []
    best: Any = None  # the model and its history; there is at least one seed
    interrupted = False
    parts = {} if directory is None else note_parts({**depends_on(), "metric": metric, "loss": loss_part(loss)})
    seeds, spare = list(recipe.seeds), itertools.count(max(recipe.seeds) + 1)
    restarts = recipe.restarts
    while seeds and not interrupted:
        seed = seeds.pop(0)
        own = replace(recipe, seeds=(seed,), average=False)
        fresh = recipe.seeds[0] if recipe.average else seed  # the mean of blocks that began apart is neither of them
        model, state = build(seed), None
        if directory is not None:  # before the trial changes the model: its first weights are part of which run it is
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
    """One seed: a model that is trained and measured."""

    def __init__(self, model, batches, recipe, loss, steps_per_epoch, measure, metric, fresh, callbacks=()):
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
            recipe.learning_rate,
            self.steps,
            warmup=recipe.warmup,
            weight_decay=recipe.weight_decay,
            clip_norm=recipe.clip_norm,
            layer_decay=recipe.layer_decay,
            pretrained_decay=recipe.pretrained_decay,
        )
        optimizer.build(self.model.trainable_variables)
        self.model.compile(optimizer, loss=loss, jit_compile=self.steps >= _STEPS_THAT_PAY_FOR_XLA)
        self.keeper = KeepBest(measure, metric=metric, patience=recipe.patience)

    def train(self, state, verbose):
        """Train, or go on where a killed run was; gives the `Run` and whether Ctrl-C ended it."""
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
                    print(f"{place} holds this run, and it has ended: not trained again. Delete it to train anew.")
                self.keeper.restore_best(self.model)
                return finished, False
        try:
            if not done:  # a state that is restored has such heads
                self._fit_heads(verbose)
            self._fit(done, callbacks, verbose)
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

    def _check_same_run(self, place, parts, has_ended):
        settings = {**asdict(self.recipe), "steps_per_epoch": self.steps_per_epoch}
        settings["reinitialize_seed"] = None if self.recipe.reinitialize == 0 else self.fresh
        # A state has all that a run needs, except the first weights where the run goes back to them.
        has_state = any(place.glob("step-*")) and not (self.recipe.mixout or self.recipe.pretrained_decay)
        check_same_run(place, settings, parts, goes_on=has_ended or has_state)

    def _fit_heads(self, verbose):
        steps = round(self.recipe.head_epochs * self.steps_per_epoch)
        if steps:
            epochs = -(-steps // self.steps_per_epoch)
            batches = self.batches(self.seed, 0, epochs)
            train_heads(self.model, batches, steps=steps, loss=self.loss, verbose=verbose)

    def _fit(self, done, callbacks, verbose):
        if done >= self.steps or self.keeper.out_of_patience:  # killed after the last step, before the result
            return
        self.model.fit(
            self._stream(done),
            steps_per_epoch=self.every,
            initial_epoch=done // self.every,
            epochs=-(-self.steps // self.every),
            shuffle=False,
            verbose=verbose,
            callbacks=[*callbacks, *self.callbacks],
        )

    def _stream(self, done):
        """The batches from a step on; the order of an epoch is a function of seed and epoch."""
        first, skip = divmod(done, self.steps_per_epoch)
        # The last evaluation period may go beyond the last step, and `fit` must not run dry in it.
        last = -(-(self.steps + self.every) // self.steps_per_epoch)
        return self.batches(self.seed, first, last - first + 1).skip(skip)


def _read_result(place):
    path = place / "result.json"
    return Run(**json.loads(path.read_text(encoding="utf-8")) | {"reused": True}) if path.exists() else None


def _write_json(path, value):
    write_whole(path, json.dumps(value) + "\n")
