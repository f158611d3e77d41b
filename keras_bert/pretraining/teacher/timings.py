"""Measures what a run with a teacher costs: a step of the student, a row that the teacher reads, an evaluation.

Takes a phase whose run has not begun, gives `Timings`, from which a number of steps follows. The teacher reads some
hundred rows; the student trains on them for a while, in a directory that is deleted afterwards.
"""

import os
import time
from pathlib import Path

import tensorflow as tf

from keras_bert.checkpoint import save_pretrained
from keras_bert.model.config import BertConfig
from keras_bert.pretraining.plan import Phase
from keras_bert.pretraining.teacher.batches import rows_in_order, shuffled_rows
from keras_bert.pretraining.teacher.plan import Teacher
from keras_bert.pretraining.teacher.run import TaughtRun
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.resume import save_state
from keras_bert.training.timings import StepClock, Timings, seconds_of

_ROWS = 256  # that the teacher reads
_TOKEN_WIDTH = 4  # of a single token, read as a text of its own


def measure_taught(
    phase: Phase,
    directory: Path,
    config: BertConfig | None,
    tokenizer: BertTokenizer,
    teacher: Teacher,
    seconds: float,
    start_from: str | os.PathLike[str] | None = None,
) -> Timings:
    """Measure a run with a teacher.

    Args:
        phase: Its examples and plan, with any number of steps.
        directory: Where to write; nothing in it is needed afterwards.
        config, tokenizer, teacher, start_from: As for `pretrain`.
        seconds: How long the student trains.
    """
    run = TaughtRun(
        phase.examples, directory, config, tokenizer, phase.plan, teacher, phase.validation, start_from, verbose=0
    )
    plan, devices = run.plan, run.devices
    prepared = seconds_of(run.cache.measure)
    few = run.open_cache("measured", phase.examples, min(max(_ROWS, plan.batch_size), run.available))
    began = time.monotonic()
    rows = few.rows(range(1))
    read = (time.monotonic() - began) / len(rows)
    checks, first, later = 0.0, 0.0, 0.0
    clock = StepClock(seconds)
    with devices.scope():
        encoder, model = run.build(None)
        data = run.batches.training(lambda: shuffled_rows(rows, plan.batch_size, 0, seed=(plan.seed,)))
        batches = devices.distribute(data, batch_size=plan.batch_size)
        model.fit(batches, steps_per_epoch=plan.save_every, shuffle=False, verbose=0, callbacks=[clock])
        if count := run.validation_count:
            whole = len(rows) // plan.batch_size
            validation = run.batches.validation(lambda: rows_in_order(rows, plan.batch_size))
            validation = devices.distribute(validation.apply(tf.data.experimental.assert_cardinality(whole)))
            first, later = (seconds_of(model.evaluate, validation, verbose=0) for _ in range(2))
            checks = later * count / (whole * plan.batch_size)
        saving = seconds_of(save_state, model, directory / "state", step=0)
        saved = seconds_of(save_pretrained, run.plain_model(model, encoder), directory / "model", tokenizer=tokenizer)
    tokens = tokenizer.vocabulary_size * _TOKEN_WIDTH / run.length if run.needs_token_vectors else 0
    once = clock.compilation + max(0.0, first - later) + saved + prepared + read * (run.validation_count + tokens)
    live = teacher.cache_gb == 0
    return Timings(
        step=clock.step,
        check=checks + saving,
        once=once,
        read=read,
        reads=plan.batch_size / (1 if live else teacher.passes),
        rows=None if live else run.available,
    )
