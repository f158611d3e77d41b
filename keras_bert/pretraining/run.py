"""Pretrains a model on shards of examples, in a run that can be killed and resumed.

Takes what `pretraining/corpus/writing.py` wrote, gives a model directory with the encoder and both heads, and a history
of losses. It connects input, model, optimizer, devices, saved states and records. A second phase on longer rows is a
second run that starts from the model of the first.
"""

import contextlib
import functools
import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.checkpoint import load_model, save_pretrained
from keras_bert.model.config import BertConfig
from keras_bert.model.heads import bert_model
from keras_bert.model.weights import copy_weights
from keras_bert.pretraining.batches import (
    has_next_sentence,
    masks_on_devices,
    max_predictions,
    plan_masking,
    token_counts,
    training_batches,
    validation_batches,
)
from keras_bert.pretraining.corpus.manifest import load_manifest
from keras_bert.pretraining.growth import stack_blocks
from keras_bert.pretraining.model import (
    TokenCountingModel,
    compile_for_run,
    config_of_run,
    losses_and_metrics,
    pretraining_model,
)
from keras_bert.pretraining.plan import Phase, PretrainingPlan
from keras_bert.pretraining.plateau import WarnOnPlateau
from keras_bert.pretraining.records import (
    HISTORY,
    RecordHistory,
    StopOnNaN,
    describe_examples,
    keep_old_defaults,
    read_history,
    write_plan,
)
from keras_bert.pretraining.rows.batches import one_row
from keras_bert.pretraining.rows.reading import StoredRows
from keras_bert.pretraining.teacher.plan import Teacher
from keras_bert.pretraining.teacher.run import pretrain_with_teacher
from keras_bert.system.directory_claim import claimed
from keras_bert.system.progress import fit_verbosity
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.devices import Devices, choose_devices
from keras_bert.training.resume import (
    SaveState,
    newest_step,
    require_writable,
    restore_state,
    saved_when_terminated,
    steps_of_epoch,
)

# === Runs ===


def pretrain_in_phases(
    phases: Sequence[Phase],
    output: str | os.PathLike[str],
    config: BertConfig | None,
    tokenizer: BertTokenizer,
    *,
    start_from: str | os.PathLike[str] | None = None,
    verbose: int | str = "auto",
) -> list[dict[str, list[float]]]:
    """Pretrain in several phases, such as 90 % of the steps on 128 tokens and the rest on 512, which is cheaper.

    Every phase goes on from the model of the one before, with an optimizer and a schedule of its own. Started again on
    the same `output`, it continues where it was, in whichever phase.

    Args:
        phases: In their order.
        output: Gets `phase-1/`, `phase-2/`, …, each with what `pretrain` writes, and the last model as `model/`.
        config, tokenizer, start_from, verbose: As for `pretrain`; `max_sequence_length` must be enough for all phases.

    Returns:
        The history of each phase.

    Example:
        ```python
        short = Phase(examples="examples-128", plan=PretrainingPlan(steps=9000, batch_size=64))
        long = Phase(examples="examples-512", plan=PretrainingPlan(steps=1000, batch_size=16))
        pretrain_in_phases([short, long], "my-bert", BertConfig.preset("mini"), tokenizer)
        ```
    """
    output, histories, chosen, model = Path(output), [], {}, None
    if not phases:
        raise ValueError("phases is empty; expected at least one Phase.")
    for number, phase in enumerate(phases, start=1):
        kind = (phase.plan.strategy, phase.plan.precision)
        if kind not in chosen:  # several machines can find each other only once
            chosen[kind] = choose_devices(kind[0], precision=kind[1])
        # Handed on in memory: on several machines the chief may still be writing it.
        source = _load_source(start_from) if model is None else model
        directory = output / f"phase-{number}"
        model = _run(phase, directory, config, tokenizer, chosen[kind], source, start_from, verbose)
        histories.append(read_history(directory / HISTORY))
        start_from = directory / "model"
    if chosen[kind].is_chief:
        save_pretrained(model, output / "model", tokenizer=tokenizer)
    return histories


def pretrain(
    examples: str | os.PathLike[str],
    output: str | os.PathLike[str],
    config: BertConfig | None,
    tokenizer: BertTokenizer,
    plan: PretrainingPlan,
    *,
    validation: str | os.PathLike[str] | None = None,
    start_from: str | os.PathLike[str] | None = None,
    teacher: Teacher | str | os.PathLike[str] | None = None,
    verbose: int | str = "auto",
) -> dict[str, list[float]]:
    """Pretrain a BERT on the examples in a directory; started again on the same `output`, it continues where it was.

    Args:
        examples: A directory that `write_examples` wrote.
        output: Gets `model/` (opens in `load_model` and in transformers), `state/`, `history.jsonl`, `plan.json` and
            `logs/` (TensorBoard's); `write_report` draws them.
        config: Sizes; `vocabulary_size` must be the tokenizer's. `None` takes those of `start_from`.
        tokenizer: The one that the examples were made with.
        plan: How to train.
        validation: Another directory of examples, measured after every `save_every` steps.
        start_from: A model directory or name whose encoder and heads to go on with, instead of random weights.
        teacher: A model to learn from, with or without a masked LM: a `Teacher`, or a directory or name for one with
            its default settings.
        verbose: As for `fit`.

    Returns:
        The history: a list for each measured number, an entry for each `save_every` steps.

    Example:
        ```python
        plan = PretrainingPlan(steps=10_000, batch_size=64)
        pretrain("examples", "my-bert", BertConfig.preset("mini"), tokenizer, plan)
        ```
    """
    if teacher is not None:
        teacher = teacher if isinstance(teacher, Teacher) else Teacher(model=teacher)
        return pretrain_with_teacher(
            examples,
            output,
            config,
            tokenizer,
            plan,
            teacher,
            validation=validation,
            start_from=start_from,
            verbose=verbose,
        )
    devices = choose_devices(plan.strategy, precision=plan.precision)
    phase = Phase(examples=examples, plan=plan, validation=validation)
    _run(phase, Path(output), config, tokenizer, devices, _load_source(start_from), start_from, verbose)
    return read_history(Path(output) / HISTORY)


def _run(
    phase: Phase,
    output: Path,
    config: BertConfig | None,
    tokenizer: BertTokenizer,
    devices: Devices,
    source: keras.Model | None,
    start_from: str | os.PathLike[str] | None,
    verbose: int | str,
) -> keras.Model:
    """Train one phase from where it was, and save it; gives the model."""
    plan = phase.plan
    require_writable(output)
    devices.replica_batch_size(plan.batch_size // plan.accumulation)
    config = config_of_run(config, source, tokenizer)
    if source is None:
        _check_corpus(phase.examples, tokenizer)
    plan = keep_old_defaults(plan, output).for_config(config)
    phase = replace(phase, plan=plan)
    if source is not None and plan.growth:
        raise ValueError("growth is for models that start from nothing; leave it out, or start_from.")
    done = newest_step(output / "state")
    plan.check_state(done, output)
    with claimed(output) if devices.is_chief else contextlib.nullcontext():
        if devices.is_chief:
            write_plan(output, _describe(phase, config, devices, start_from))
            if verbose:
                print(f"{devices}\n{'steps':<20} {done:,} of {plan.steps:,} done, to {output}")
        with devices.scope():
            model = _train(phase, output, config, tokenizer, devices, done, source, verbose)
        plain = plain_model(model, config)
        if devices.is_chief:
            save_pretrained(plain, output / "model", tokenizer=tokenizer)
    return plain


def _train(
    phase: Phase,
    output: Path,
    config: BertConfig,
    tokenizer: BertTokenizer,
    devices: Devices,
    done: int,
    source: keras.Model | None,
    verbose: int | str,
) -> keras.Model:
    """Train the model of a phase, or one after the other where it grows; gives the last, in training form."""
    plan, counts = phase.plan, token_counts(phase.examples, tokenizer)
    notices = [WarnOnPlateau(counts, plan, config, from_nothing=source is None)]
    stages = plan.stages(config)
    model = None
    # A model whose last step is the newest state is made as well: the next one grows from it.
    for blocks, end in [stage for stage in stages if stage[1] >= done] or stages[-1:]:
        smaller = model
        stage = config.replace(num_layers=blocks)
        model = compiled_model(phase.examples, stage, plan, devices, counts, tokenizer=tokenizer)
        if smaller is not None:
            stack_blocks(smaller, model)
        else:
            if source is not None:
                _start_from(source, model)
            restore_state(model, output / "state")
        while done < end:
            done = _fit(model, phase, output, config, tokenizer, devices, done, end, verbose, notices)
    return model


def _fit(
    model: keras.Model,
    phase: Phase,
    output: Path,
    config: BertConfig,
    tokenizer: BertTokenizer,
    devices: Devices,
    done: int,
    end: int,
    verbose: int | str,
    notices: Sequence[keras.callbacks.Callback],
) -> int:
    """Train to the end, or after a stop within an epoch to the end of that; gives the step there."""
    plan = phase.plan
    batches_from = functools.partial(training_batches, phase.examples, config, tokenizer, plan, devices=devices)
    batches = batches_from(done, masked=not masks_on_devices(phase.examples))
    shard = "none" if plan.service else "data"  # a service has shared the examples out already
    steps, end = steps_of_epoch(done, plan.save_every, end)
    place = {"start": done, "steps_per_epoch": plan.save_every}
    callbacks = [StopOnNaN(output, batches_from, **place)]
    if devices.is_chief:
        saving = SaveState(output / "state", steps_per_epoch=plan.save_every)
        callbacks += [RecordHistory(output, **place), saving, *notices]
    checks = None
    if phase.validation is not None:
        checks = validation_batches(phase.validation, config, tokenizer, plan, replicas=devices.num_replicas)
        checks = devices.distribute(checks)
    try:
        with saved_when_terminated(output / "state", **place) as saves:
            model.fit(
                devices.distribute(batches, batch_size=plan.batch_size, shard=shard),
                initial_epoch=done // plan.save_every,
                epochs=end // plan.save_every,
                steps_per_epoch=steps,
                validation_data=checks,
                shuffle=False,
                verbose=fit_verbosity(verbose),
                callbacks=[*callbacks, saves] if devices.num_workers == 1 else callbacks,
            )
    except KeyboardInterrupt:
        states = sorted((output / "state").glob("step-*"))
        kept = f"the state after step {int(states[-1].name[5:]):,} is in {states[-1]}" if states else "no state yet"
        raise KeyboardInterrupt(f"interrupted; {kept}. Start the same again to go on from there.") from None
    return end


# === The model ===


def compiled_model(
    examples: str | os.PathLike[str],
    config: BertConfig,
    plan: PretrainingPlan,
    devices: Devices,
    counts: Sequence[int] | np.ndarray,
    *,
    tokenizer: BertTokenizer | None = None,
) -> keras.Model:
    """The model of a run, ready for `fit`; to be called in the scope of its devices.

    Args:
        examples: A directory that `write_examples` wrote.
        config: The sizes of the model.
        plan: How to train.
        devices: What trains.
        counts: How often each token occurs, as `token_counts` gives it.
        tokenizer: Where `masks_on_devices(examples)`: the step masks its rows then.
    """
    if plan.dropout is not None:
        config = config.replace(dropout=plan.dropout, attention_dropout=plan.dropout)
    model = pretraining_model(
        config,
        max_predictions=max_predictions(examples, plan),
        next_sentence=has_next_sentence(examples),
        packed=plan.packed,
        negatives=plan.negatives,
        token_counts=counts,
        initial=plan.initial,
        seed=plan.seed,
        model_class=TokenCountingModel,
    )
    compile_for_run(model, config, plan, devices, **losses_and_metrics(model))
    if tokenizer is not None and masks_on_devices(examples):
        model.masks_batches(
            plan_masking(examples, tokenizer, plan),
            one_row(StoredRows(examples)),
            next_sentence=has_next_sentence(examples),
            sampled=plan.negatives is not None,
        )
    return model


def plain_model(model: keras.Model, config: BertConfig) -> keras.Model:
    """The trained weights in an ordinary BERT with both heads: whole precision, one example a row, its own dropout."""
    heads = ["masked_lm"] + (["next_sentence"] if "nsp_logits" in model.output else [])
    plain = bert_model(config, heads)
    copy_weights(model, plain)
    return plain


def _start_from(source: keras.Model, model: keras.Model) -> None:
    if missing := copy_weights(source, model, allow_missing=True):
        warnings.warn(f"The model to start from has no {', '.join(missing)}: these begin at random.", stacklevel=3)


def _load_source(start_from: str | os.PathLike[str] | None) -> keras.Model | None:
    return None if start_from is None else load_model(start_from)[0]


# === Checks and records ===


def _check_corpus(examples: str | os.PathLike[str], tokenizer: BertTokenizer) -> None:
    manifest = load_manifest(os.fspath(examples))
    if manifest.tokens < tokenizer.vocabulary_size:
        raise ValueError(
            f"{examples} has {manifest.tokens:,} tokens, fewer than the vocabulary has entries "
            f"({tokenizer.vocabulary_size:,}): most could not be learned. Pretrain on more text, learn a smaller "
            "vocabulary, or start_from a model that knows the language."
        )


def _describe(
    phase: Phase, config: BertConfig, devices: Devices, start_from: str | os.PathLike[str] | None
) -> dict[str, Any]:
    return {
        "plan": asdict(phase.plan),
        "config": config.to_dict(),
        "examples": describe_examples(phase.examples),
        "devices": f"{devices.name}: {devices.num_replicas} × {devices.device_type}, {devices.precision}",
        "start_from": None if start_from is None else os.fspath(start_from),
    }
