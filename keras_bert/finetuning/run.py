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
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.finetuning.best_weights import KeepBest, Score
from keras_bert.finetuning.heads_first import train_heads
from keras_bert.finetuning.layerwise_adamw import finetuning_optimizer
from keras_bert.finetuning.mixout import MixoutModel
from keras_bert.finetuning.recipes import RECIPES, Recipe
from keras_bert.finetuning.run_identity import batch_part, check_same_run, loss_part, model_parts, note_kept, note_parts
from keras_bert.finetuning.trained_parts import ParameterCount, choose_trained, reinitialize_top
from keras_bert.finetuning.weight_averaging import RunWeights, average_runs
from keras_bert.model.weights import to_numpy
from keras_bert.system.atomic_files import write_whole
from keras_bert.training.resume import SaveState, restore_state
from keras_bert.training.training_model import TrainingModel

# XLA takes some seconds to compile a step, and saves a sixth of every step after it.
_STEPS_THAT_PAY_FOR_XLA = 150


@dataclass(frozen=True)
class Run:
    """What became of one seed.

    Args:
        seed: The seed.
        score: The best score.
        degenerate: Whether the model gives every text the same answer.
        steps: How many it took.
        seconds: How long.
        epochs: How many times through the data that is, and `planned_epochs` how many the recipe asks for.
        best_epoch: The number of the measurement, as in the history, whose weights were the best.
        stopped_early: Whether it ended because nothing was gained any more (`Recipe.patience`).
        reused: Whether it had ended before, and was taken from its directory.
    """

    seed: int
    score: float
    degenerate: bool
    steps: int
    seconds: float
    epochs: float | None = None
    planned_epochs: float | None = None
    best_epoch: int | None = None
    stopped_early: bool = False
    reused: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        words = [f"{self.steps} steps, {self.seconds:.0f} s"]
        if self.stopped_early:
            words.append(f"stopped early after {self.epochs:.3g} of {self.planned_epochs:.3g} epochs")
        if self.degenerate:
            words.append("degenerate: one class for every text")
        if self.reused:
            words.append("had ended before: taken from its directory")
        return "   ".join(words)


@dataclass(frozen=True)
class FinetuneReport:
    """What a fine-tuning did. Prints as a small table.

    Args:
        recipe: The recipe.
        metric: What `score` measures on the validation data.
        runs: One for each seed, degenerate ones that were started again included.
        parameters: How many parameters trained.
        history: The measurements of the best run.
        interrupted: Whether Ctrl-C ended it; the model is then the best so far.
        averaged: The seeds whose weights the model is the mean of (`Recipe.average`); empty where it is that of `best`.
        averaged_score: The score of that mean.
        notes: What was cut or dropped on the way.
    """

    recipe: Recipe
    metric: str
    runs: tuple[Run, ...]
    parameters: ParameterCount
    history: tuple[dict, ...]
    interrupted: bool = False
    averaged: tuple[int, ...] = ()
    averaged_score: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def score(self) -> float:
        """What the model that was kept scores on the validation data; NaN where there is none."""
        return self.best.score if self.averaged_score is None else self.averaged_score

    @property
    def best(self) -> Run:
        """The best run, whose model was kept unless the runs were averaged."""
        return max(self.runs, key=lambda run: (not run.degenerate, np.nan_to_num(run.score, nan=-np.inf)))

    @property
    def mean(self) -> float:
        """The mean score over the seeds, without degenerate runs that were started again."""
        return float(np.mean([run.score for run in self.counted]))

    @property
    def std(self) -> float:
        """The standard deviation over the seeds."""
        return float(np.std([run.score for run in self.counted]))

    @property
    def counted(self) -> tuple[Run, ...]:
        """One run for each seed that was asked for: degenerate ones only where no restart replaced them."""
        good = [run for run in self.runs if not run.degenerate]
        bad = [run for run in self.runs if run.degenerate]
        return tuple((good + bad)[: max(len(self.recipe.seeds), len(good))])

    def __str__(self) -> str:
        lines = [str(self.recipe), f"{self.parameters}"]
        lines += [f"  seed {run.seed:<6} {self.metric} {run.score:.4f}   {run}" for run in self.runs]
        if len(self.runs) > 1:
            is_mean = len(self.averaged) > 1
            seeds = f"the mean of seeds {', '.join(map(str, self.averaged))}" if is_mean else f"seed {self.best.seed}"
            kept = f"kept {seeds}: {self.score:.4f}"
            lines.append(f"  mean {self.metric} {self.mean:.4f} ± {self.std:.4f}; {kept}")
        if self.interrupted:
            lines.append("  interrupted: the model is the best so far")
        elif self.best.degenerate:
            lines.append(f"  {self._advice()}")
        if any(run.stopped_early for run in self.runs):
            times = f"{self.recipe.patience} measurement{'s' * (self.recipe.patience != 1)}"
            lines.append(f"  stopped early: {times} without a gain; patience=None trains to the end")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _advice(self):
        """What to try when a model has learned nothing."""
        few = RECIPES["few_sample"].steps
        if self.best.steps < few and self.recipe.name != "few_sample":
            own = self.best.steps
            way = f"{own} steps are few: try the recipe few_sample, which takes at least {few}, or more epochs"
        else:
            way = "try another learning rate, and look whether texts and labels belong together"
        return f"the model has learned nothing yet; {way}"


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
        verbose: As for `fit`.

    Returns:
        The trained model and the report.

    Example:
        ```python
        model, report = finetune(build, batches, RECIPES["standard"], loss=loss, steps_per_epoch=100)
        print(report)
        ```
    """
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
        trial = _Trial(model, batches, own, loss, steps_per_epoch, measure, metric, fresh)
        run, interrupted = trial.train(state, verbose)
        runs.append(run)
        if run.degenerate and restarts and not interrupted:
            restarts -= 1
            seeds.append(next(spare))
        report = FinetuneReport(recipe, metric, tuple(runs), trial.parameters, tuple(trial.keeper.history), interrupted)
        if report.best is run:
            best = (trial.model, report.history)
        if recipe.average and not run.degenerate:
            learned.append(RunWeights.of(trial.model, seed, run.score))
    report = replace(report, history=best[1])
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

    def __init__(self, model, batches, recipe, loss, steps_per_epoch, measure, metric, fresh):
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
                if verbose not in (0, "0"):
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
            stopped_early=self.keeper.out_of_patience and steps < self.steps,
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
            callbacks=callbacks,
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
