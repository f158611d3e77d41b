"""Compiles the step of a pretraining plan for accelerators that are not there; see `training/ahead_of_time.py`.

No corpus is read: shapes follow from the plan, the sizes of the model and the length of rows.
"""

import math
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from keras_bert.model.config import BertConfig
from keras_bert.pretraining.masking import Masking
from keras_bert.pretraining.model import TokenCountingModel, losses_and_metrics, pretraining_model
from keras_bert.pretraining.plan import PretrainingPlan
from keras_bert.pretraining.rows.layout import as_batch, row_dtype
from keras_bert.pretraining.rows.masking import with_keys
from keras_bert.training.ahead_of_time import CompiledStep, compile_step
from keras_bert.training.chips import Target
from keras_bert.training.optimizers import bert_optimizer


def compile_plan(config: BertConfig, plan: PretrainingPlan, sequence_length: int, target: Target) -> CompiledStep:
    """Compile the step of a plan for some chips, on the JAX backend.

    Args:
        config: The sizes of the model.
        plan: How to train; its precision is the chip's unless it names one.
        sequence_length: The tokens of a row.
        target: The chips.

    Example:
        ```python
        plan = PretrainingPlan(steps=10_000, batch_size=256)
        print(compile_plan(BertConfig.preset("base"), plan, 128, read_target("v5e:2x4")).describe(plan.steps))
        ```
    """
    if plan.batch_size % (target.count * plan.accumulation):
        raise ValueError(
            f"batch_size={plan.batch_size} does not divide among {target.count} chips × {plan.accumulation} parts; use "
            f"a multiple of {target.count * plan.accumulation}."
        )
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(target.chip.precision if plan.precision == "auto" else plan.precision)
    try:
        model = plan_model(config, plan, sequence_length)
        return compile_step(model, plan_batch(plan, config.vocabulary_size, sequence_length), target)
    finally:
        keras.config.set_dtype_policy(before)


def plan_model(config: BertConfig, plan: PretrainingPlan, sequence_length: int) -> keras.Model:
    """Make the model that a plan trains, compiled."""
    plan = plan.for_config(config)
    if plan.dropout is not None:
        config = config.replace(dropout=plan.dropout, attention_dropout=plan.dropout)
    model = pretraining_model(
        config,
        max_predictions=_masked(plan, sequence_length),
        packed=plan.packed,
        negatives=plan.negatives,
        seed=plan.seed,
        model_class=TokenCountingModel,
    )
    rate = 1e-4 if plan.learning_rate is None else plan.learning_rate
    optimizer = bert_optimizer(rate, plan.steps, name=plan.optimizer, warmup=plan.warmup, beta_2=plan.beta_2)
    model.compile(
        optimizer, **losses_and_metrics(model), jit_compile=True, gradient_accumulation_steps=plan.accumulation
    )
    # Which tokens are special, and which continue words, is not known, and takes no other operations.
    unknown = np.zeros(config.vocabulary_size, bool)
    masking = Masking(4, tuple(range(5)), unknown, _masked(plan, sequence_length), unit=plan.mask_unit)
    one = plan_batch(replace(plan, batch_size=plan.accumulation), config.vocabulary_size, sequence_length)
    model.masks_batches(masking, one, sampled=plan.negatives is not None)
    return model


def plan_batch(plan: PretrainingPlan, vocabulary_size: int, sequence_length: int) -> dict[str, Any]:
    """Give a batch of zeros in the shapes of a plan's batches, which the step masks."""
    layout = "packed" if plan.packed else "padded"
    record = row_dtype(layout, sequence_length=sequence_length, vocabulary_size=vocabulary_size)
    return with_keys(as_batch(np.zeros(plan.batch_size, record)), seed=0, step=0, rate=0.0)


def _masked(plan: PretrainingPlan, sequence_length: int) -> int:
    if plan.max_predictions is not None:
        return plan.max_predictions
    return math.ceil(round(max(plan.mask_rate, plan.last_mask_rate) * sequence_length, 6))
