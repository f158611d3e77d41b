"""Compiles the step of a pretraining plan for accelerators that are not there; see `training/ahead_of_time.py`.

No corpus is read: shapes follow from the plan, the sizes of the model and the length of rows.
"""

import math
from typing import Any

import keras
import numpy as np

from keras_bert.model.config import BertConfig
from keras_bert.pretraining.model import MAX_EXAMPLES, TokenCountingModel, losses_and_metrics, pretraining_model
from keras_bert.pretraining.plan import PretrainingPlan
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
        return compile_step(model, plan_batch(plan, sequence_length), target)
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
    return model


def plan_batch(plan: PretrainingPlan, sequence_length: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Give a batch of zeros in the shapes of a plan's batches."""
    rows, masked = plan.batch_size, _masked(plan, sequence_length)
    ids, places = np.zeros((rows, sequence_length), np.int32), np.zeros((rows, masked), np.int32)
    inputs = {"token_ids": ids, "segment_ids": ids, "padding_mask": ids, "masked_positions": places}
    if plan.negatives is not None:
        inputs["masked_ids"] = places
    next_sentence = np.zeros((rows, MAX_EXAMPLES) if plan.packed else rows, np.int32)
    if plan.packed:
        inputs["example_starts"] = next_sentence
    labels = {"mlm_logits": places, "nsp_logits": next_sentence}
    return inputs, labels, {name: np.zeros(value.shape, np.float32) for name, value in labels.items()}


def _masked(plan: PretrainingPlan, sequence_length: int) -> int:
    if plan.max_predictions is not None:
        return plan.max_predictions
    return math.ceil(round(max(plan.mask_rate, plan.last_mask_rate) * sequence_length, 6))
