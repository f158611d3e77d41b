"""Finds the number of training steps that fit into a time budget.

Takes a phase and a number of seconds. Measures a training step, an evaluation and saving with the real shapes of the
run. Gives the phase with `steps` and `save_every` chosen so that the learning rate reaches 0 when the time is over. The
decision is stored as `budget.json` in the directory of the run, so that a run that is started again uses it too.
"""

import dataclasses
import gc
import json
import math
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.checkpoint import load_model, save_pretrained
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import encoder_config
from keras_bert.pretraining.batches import masks_on_devices, token_counts, training_batches, validation_batches
from keras_bert.pretraining.plan import Phase, PretrainingPlan
from keras_bert.pretraining.run import compiled_model, plain_model
from keras_bert.system.atomic_files import write_whole
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.devices import Devices, choose_devices
from keras_bert.training.resume import save_state
from keras_bert.training.timings import StepClock, Timings, seconds_of

if TYPE_CHECKING:
    from keras_bert.pretraining.teacher.plan import Teacher

FILE = "budget.json"

_CHECKS = 20  # evaluations and saved states of a run, at most
_CHECKED_SHARE = 0.05  # of the time, for all of these together
_RESERVE = 0.03  # of the time, for steps that are slower than the measured ones
_AT_ONCE = 8  # steps per execution; `save_every` is a multiple of it
_MEASURED_SHARE = 0.01  # of the budget
_MEASURED_SECONDS = (3.0, 60.0)  # at least, at most


def fit_to_budget(
    phase: Phase,
    output: str | os.PathLike[str],
    config: BertConfig | None,
    tokenizer: BertTokenizer,
    budget: float,
    *,
    teacher: "Teacher | None" = None,
    save_every: int | None = None,
    start_from: str | os.PathLike[str] | None = None,
    spent: float = 0.0,
    verbose: bool = True,
) -> Phase:
    """Give a phase as many steps as fit into a number of seconds, with evaluation and saving.

    Args:
        phase: The run, with any number of steps in its plan.
        output: Its directory, as for `pretrain`. A decision that is stored there is used again.
        config, tokenizer, teacher, start_from: As for `pretrain`.
        budget: Seconds from the start of the command to the saved model.
        save_every: Steps between two saved states; `None` evaluates and saves up to 20 times.
        spent: Seconds of the budget that are used already, for example for making examples.
        verbose: Whether to print the decision.

    Example:
        ```python
        phase = Phase(examples="examples", plan=PretrainingPlan(steps=500), validation="validation")
        phase = fit_to_budget(phase, "my-bert", config, tokenizer, budget=3600)
        pretrain(phase.examples, "my-bert", config, tokenizer, phase.plan, validation=phase.validation)
        ```
    """
    output = Path(output)
    if phase.plan.growth:
        raise ValueError(f"growth={phase.plan.growth} goes by steps; give their number instead of a budget.")
    decision: dict[str, Any] | None = _stored_decision(output, budget)
    if decision is None:
        began = time.monotonic()
        timings = _measure(phase, output, config, tokenizer, budget, teacher, start_from)
        left = budget - spent - (time.monotonic() - began)
        steps, every = count_steps(timings, left, budget=budget, save_every=save_every)
        decision = {"budget": budget, "steps": steps, "save_every": every, "seconds": _rounded(timings)}
        write_whole(output / FILE, json.dumps(decision, indent=2) + "\n")
    if verbose:
        seconds = decision["seconds"]
        reading = seconds.get("read", 0.0) * seconds.get("reads", 0.0)
        beside = f" and {reading:.3g} s of the teacher" if reading else ""
        print(
            f"{'budget':<20} {budget:,.0f} s: {decision['steps']:,} steps of {seconds['step']:.3g} s{beside}; measured "
            f"and saved every {decision['save_every']:,} steps, in {seconds['check']:.3g} s"
        )
    plan = dataclasses.replace(phase.plan, steps=decision["steps"], save_every=decision["save_every"])
    return dataclasses.replace(phase, plan=plan)


def count_steps(
    timings: Timings, seconds: float, *, budget: float | None = None, save_every: int | None = None
) -> tuple[int, int]:
    """Count the steps that fit into a time, and the steps between two saved states.

    Args:
        timings: The measured times.
        seconds: The time that is left for the run.
        budget: The whole budget, to name it in an error.
        save_every: The steps between two saved states; `None` chooses them.

    Example:
        >>> count_steps(Timings(step=0.1, check=2.0, once=20.0), 3600)
        (34240, 1712)
    """
    if timings.reads:
        return _count_taught_steps(timings, seconds, budget=budget, save_every=save_every)
    left = (seconds - timings.once) * (1 - _RESERVE)
    if save_every is None:
        most = max(1, int(min(_CHECKS, _CHECKED_SHARE * left / max(timings.check, 1e-9))))
        choices = [
            (int((left / n - timings.check) / timings.step) // _AT_ONCE * _AT_ONCE, n) for n in range(1, most + 1)
        ]
        longest = max((every * n for every, n in choices), default=0)
        # The most checks that cost few steps, with those lost by rounding.
        good = [choice for choice in choices if choice[0] * choice[1] >= (1 - _CHECKED_SHARE) * longest]
        every, checks = good[-1] if good else (0, 0)
    else:
        every = save_every
        checks = int(left / (every * timings.step + timings.check))
    if every < 1 or checks < 1:
        least = (save_every or _AT_ONCE) * timings.step + timings.check
        missing = least / (1 - _RESERVE) + timings.once - seconds
        raise ValueError(
            f"The budget of {budget or seconds:,.0f} s is too short: {max(0.0, seconds):,.0f} s of it are left after "
            f"making examples and measuring a step, and one evaluation with the steps before it takes "
            f"{least + timings.once:,.0f} s. Give at least {math.ceil((budget or seconds) + missing):,} s."
        )
    return every * checks, every


def _count_taught_steps(timings: Timings, seconds: float, **options: Any) -> tuple[int, int]:
    """The teacher's part of a step is counted with it, unless it reads all text and the steps go on."""
    per_step = dataclasses.replace(timings, step=timings.step + timings.reads * timings.read, reads=0.0)
    steps, every = count_steps(per_step, seconds, **options)
    if timings.rows is not None and steps * timings.reads > timings.rows:
        at_first = dataclasses.replace(timings, once=timings.once + timings.rows * timings.read, reads=0.0)
        return count_steps(at_first, seconds, **options)
    return steps, every


# === Measuring ===


def _measure(
    phase: Phase,
    output: Path,
    config: BertConfig | None,
    tokenizer: BertTokenizer,
    budget: float,
    teacher: "Teacher | None",
    start_from: str | os.PathLike[str] | None,
) -> Timings:
    if config is None:
        if start_from is None:
            raise ValueError("config=None; expected a BertConfig, or a model to start_from.")
        config = encoder_config(load_model(start_from)[0])
    devices = choose_devices(phase.plan.strategy, precision=phase.plan.precision)
    if devices.num_workers > 1:
        raise ValueError(
            f"A budget needs one process, but this run has {devices.num_workers}; give the number of steps instead."
        )
    plan, scratch = _measured_plan(phase.plan, config), output / ".budget"
    low, high = _MEASURED_SECONDS
    seconds = min(high, max(low, _MEASURED_SHARE * budget))
    try:
        if teacher is not None:
            from keras_bert.pretraining.teacher.timings import measure_taught

            phase = dataclasses.replace(phase, plan=plan)
            return measure_taught(phase, scratch, config, tokenizer, teacher, seconds, start_from)
        return _measure_plain(phase, scratch, config, tokenizer, plan, devices, seconds)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        gc.collect()


def _measure_plain(
    phase: Phase,
    scratch: Path,
    config: BertConfig,
    tokenizer: BertTokenizer,
    plan: PretrainingPlan,
    devices: Devices,
    seconds: float,
) -> Timings:
    clock = StepClock(seconds)
    counts = token_counts(phase.examples, tokenizer).tolist()
    with devices.scope():
        model = compiled_model(phase.examples, config, plan, devices, counts, tokenizer=tokenizer)
        masked = not masks_on_devices(phase.examples)
        batches = training_batches(phase.examples, config, tokenizer, plan, devices=devices, masked=masked)
        batches = devices.distribute(batches, batch_size=plan.batch_size)
        model.fit(batches, steps_per_epoch=plan.save_every, shuffle=False, verbose=0, callbacks=[clock])
        first, later = 0.0, 0.0
        if phase.validation is not None:
            checks = validation_batches(phase.validation, config, tokenizer, plan, replicas=devices.num_replicas)
            checks = devices.distribute(checks)
            first, later = (seconds_of(model.evaluate, checks, verbose=0) for _ in range(2))
        saving = seconds_of(save_state, model, scratch / "state", step=0)
        once = seconds_of(save_pretrained, plain_model(model, config), scratch / "model", tokenizer=tokenizer)
    return Timings(step=clock.step, check=later + saving, once=clock.compilation + max(0.0, first - later) + once)


def _measured_plan(plan: PretrainingPlan, config: BertConfig) -> PretrainingPlan:
    """The plan with so many steps that measuring is ended by time."""
    return dataclasses.replace(plan.for_config(config), steps=_AT_ONCE * 10**6, save_every=_AT_ONCE * 10**6)


def _rounded(timings: Timings) -> dict[str, Any]:
    return {name: value and float(f"{value:.4g}") for name, value in dataclasses.asdict(timings).items()}


def _stored_decision(output: Path, budget: float) -> dict[str, Any] | None:
    path = output / FILE
    if not path.exists():
        if list((output / "state").glob("step-*")):
            raise ValueError(
                f"{output} was begun with a number of steps, not with a budget; go on with that number, or use "
                "another directory."
            )
        return None
    decision = json.loads(path.read_text(encoding="utf-8"))
    if decision["budget"] != budget:
        raise ValueError(
            f"{output} was begun with a budget of {decision['budget']:,.0f} s ({decision['steps']:,} steps), not "
            f"{budget:,.0f} s; go on with that one, or use another directory."
        )
    return decision
