"""Shards of examples → a pretrained model: one call that trains, and that can be killed and started again.

Takes what `pretraining/corpus.py` wrote, gives a model directory with the encoder and both heads, and a history of
losses. A room of its own because this is where the others meet: reading, masking, the model, the optimizer, the devices
and the state. Every batch is a function of seed and step, which is what makes a resumed run equal to one that was never
killed.
"""

import functools
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_bert.checkpoint import save_pretrained
from keras_bert.config import BertConfig
from keras_bert.pretraining.manifest import load_manifest
from keras_bert.pretraining.masking import Masking, mask_batches
from keras_bert.pretraining.model import features_and_labels, losses_and_metrics, pretraining_model
from keras_bert.pretraining.reading import read_examples
from keras_bert.tokenizer import BertTokenizer
from keras_bert.training.optimizers import bert_optimizer
from keras_bert.training.resume import SaveState, restore_state
from keras_bert.training.strategy import choose_devices
from keras_bert.training.training_model import TrainingModel


@dataclass(frozen=True, kw_only=True)
class PretrainingPlan:
    """How to pretrain: a value that can be printed and changed with `dataclasses.replace`.

    Args:
        steps: Training steps.
        batch_size: Rows of a step, on all devices together.
        learning_rate: The peak of the schedule.
        optimizer: `"adamw"`, or `"lamb"` for batches of thousands.
        warmup: The share of the steps in which the rate climbs.
        max_predictions: The most masked tokens of a row.
        mask_unit: What is hidden together: `"token"`, `"word"` or `"span"`.
        save_every: Steps between two saved states; also the length of what Keras calls an epoch.
        strategy: Which devices; see `choose_devices`.
        seed: Of everything: weights, dropout, order, masks.
    """

    steps: int
    batch_size: int = 32
    learning_rate: float = 1e-4
    optimizer: str = "adamw"
    warmup: float = 0.1
    max_predictions: int = 20
    mask_unit: str = "token"
    save_every: int = 500
    strategy: str = "auto"
    seed: int = 0

    def __post_init__(self):
        if self.save_every < 1 or self.steps < 1 or self.steps % self.save_every:
            raise ValueError(
                f"steps={self.steps} must be a multiple of save_every={self.save_every}, and both at least 1."
            )


def pretrain(
    examples: str | os.PathLike,
    output: str | os.PathLike,
    config: BertConfig,
    tokenizer: BertTokenizer,
    plan: PretrainingPlan,
    *,
    validation: str | os.PathLike | None = None,
    verbose: int | str = "auto",
) -> dict[str, list[float]]:
    """Pretrain a BERT on the examples in a directory; started again on the same `output`, it goes on where it was.

    Args:
        examples: A directory that `write_examples` wrote.
        output: Gets `model/` (opens in `load_model` and in transformers), `state/` and `history.jsonl`.
        config: Sizes; `vocabulary_size` must be the tokenizer's.
        tokenizer: The one that the examples were made with.
        plan: How to train.
        validation: Another directory of examples, measured after every `save_every` steps.
        verbose: As for `fit`.

    Returns:
        The history: a list for each measured number, an entry for each `save_every` steps.

    Example:
        ```python
        plan = PretrainingPlan(steps=10_000, batch_size=64)
        pretrain("examples", "my-bert", BertConfig.preset("mini"), tokenizer, plan)
        ```
    """
    output = Path(output)
    if config.vocabulary_size != tokenizer.vocabulary_size:
        raise ValueError(
            f"config.vocabulary_size={config.vocabulary_size}, but the tokenizer has {tokenizer.vocabulary_size} "
            "tokens; use config.replace(vocabulary_size=tokenizer.vocabulary_size)."
        )
    devices = choose_devices(plan.strategy)
    next_sentence = load_manifest(os.fspath(examples)).settings.pairs != "single"
    with devices.scope():
        model = pretraining_model(
            config,
            max_predictions=plan.max_predictions,
            next_sentence=next_sentence,
            seed=plan.seed,
            model_class=TrainingModel,
        )
        optimizer = bert_optimizer(plan.learning_rate, plan.steps, name=plan.optimizer, warmup=plan.warmup)
        options = devices.compile_options(steps_per_execution=min(8, plan.save_every))
        model.compile(optimizer, **losses_and_metrics(model), **options)
        done = restore_state(model, output / "state")
        batches_from = functools.partial(training_batches, examples, config, tokenizer, plan)
        data = batches_from(done)
        checks = None if validation is None else _validation_batches(validation, config, tokenizer, plan)
        callbacks = [StopOnNaN(output, batches_from), History(output / "history.jsonl", plan, done)]
        if devices.is_chief:
            callbacks.append(SaveState(output / "state"))
        model.fit(
            devices.distribute(data, batch_size=plan.batch_size),
            steps_per_epoch=plan.save_every,
            initial_epoch=done // plan.save_every,
            epochs=plan.steps // plan.save_every,
            validation_data=checks,
            shuffle=False,
            verbose=verbose,
            callbacks=callbacks,
        )
    if devices.is_chief:
        save_pretrained(model, output / "model", tokenizer=tokenizer)
    return read_history(output / "history.jsonl")


# === Input ===


def training_batches(
    examples: str | os.PathLike, config: BertConfig, tokenizer: BertTokenizer, plan: PretrainingPlan, start: int = 0
) -> tf.data.Dataset:
    """The endless batches of a plan from a step on, as `fit` takes them."""
    data = read_examples(examples, batch_size=plan.batch_size, tokenizer=tokenizer, seed=plan.seed, drop_remainder=True)
    return _masked(data.repeat().skip(start), examples, config, tokenizer, plan, start)


def _validation_batches(examples, config, tokenizer, plan):
    data = read_examples(examples, batch_size=plan.batch_size, tokenizer=tokenizer, shuffle=False, drop_remainder=True)
    return _masked(data, examples, config, tokenizer, plan, start=0).cache()


def _masked(data, examples, config, tokenizer, plan, start):
    settings = load_manifest(os.fspath(examples)).settings
    if settings.sequence_length > config.max_sequence_length:
        raise ValueError(
            f"{examples} has rows of {settings.sequence_length} tokens, over max_sequence_length="
            f"{config.max_sequence_length}; write the examples shorter, or make the model longer."
        )
    masking = Masking.for_tokenizer(tokenizer, max_predictions=plan.max_predictions, unit=plan.mask_unit)
    padded = data.map(lambda batch: _pad(batch, settings.sequence_length, tokenizer.pad_id), tf.data.AUTOTUNE)
    masked = mask_batches(padded, masking, seed=plan.seed, start=start)
    next_sentence = settings.pairs != "single"
    return masked.map(lambda batch: features_and_labels(batch, next_sentence=next_sentence)).prefetch(4)


def _pad(batch, length, pad_id):
    tokens, shape = batch["token_ids"], [None, length]
    return {
        "token_ids": tokens.to_tensor(pad_id, shape=shape),
        "segment_ids": batch["segment_ids"].to_tensor(0, shape=shape),
        "padding_mask": tf.ones_like(tokens).to_tensor(0, shape=shape),
        "next_sentence_label": batch["next_sentence_label"],
    }


# === Looking on ===


class StopOnNaN(keras.callbacks.Callback):
    """Stops at the first loss that is no number, and saves the batch for a look. The last good state stays."""

    def __init__(self, directory: Path, batches_from: Callable[[int], tf.data.Dataset]):
        super().__init__()
        self.directory, self.batches_from = directory, batches_from

    def on_train_batch_end(self, batch, logs=None):
        if np.isfinite(logs["loss"]):
            return
        step = int(keras.ops.convert_to_numpy(self.model.optimizer.iterations))
        path = self.directory / f"nan-batch-{step}.npz"
        inputs, labels, _ = next(iter(self.batches_from(step - 1)))  # drawn again, by seed and step
        np.savez(path, **{name: value.numpy() for name, value in {**inputs, **labels}.items()})
        raise FloatingPointError(
            f"The loss at step {step} is {logs['loss']}; its batch is in {path}. Start again from the last good state "
            "with a lower learning rate or stronger clipping."
        )


class History(keras.callbacks.Callback):
    """Writes a line of JSON at the end of every epoch; after a resume, what a killed run wrote too much is cut off."""

    def __init__(self, path: Path, plan: PretrainingPlan, start: int):
        super().__init__()
        self.path, self.plan, self.start = path, plan, start

    def on_train_begin(self, logs=None):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rows = [row for row in _rows(self.path) if row["step"] <= self.start]
        self.path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        (self.path.parent / "plan.json").write_text(json.dumps(asdict(self.plan), indent=2) + "\n", encoding="utf-8")

    def on_epoch_end(self, epoch, logs=None):
        row = {"step": (epoch + 1) * self.plan.save_every, **{name: float(value) for name, value in logs.items()}}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def read_history(path: str | os.PathLike) -> dict[str, list[float]]:
    """The columns of a `history.jsonl`."""
    rows = _rows(Path(path))
    return {name: [row.get(name, float("nan")) for row in rows] for name in (rows[0] if rows else {})}


def _rows(path):
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]  # a killed run may leave half a line
