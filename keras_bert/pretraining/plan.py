"""How to pretrain, as frozen values: a plan for one run, and phases, each with a plan.

Takes numbers and names, checks what can be checked without a model, and is written beside the run as `plan.json`. A
room of its own because the input, the model, the records and the command line all read it.
"""

import os
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PretrainingPlan:
    """How to pretrain: a value that can be printed and changed with `dataclasses.replace`.

    Args:
        steps: Training steps.
        batch_size: Rows of a step, on all devices together.
        accumulation: Parts that each device works through its rows in: the memory of a small batch, the step of the
            whole one.
        learning_rate: The peak of the schedule.
        optimizer: `"adamw"`, or `"lamb"` for batches of thousands.
        warmup: The share of the steps in which the rate climbs.
        dropout: Rate while pretraining, 0 is better for short runs; `None` takes the config's. The saved model keeps
            the config's, for fine-tuning.
        max_predictions: The most masked tokens of a row; `None` takes 15 % of its length.
        mask_unit: What is hidden together: `"token"`, `"word"` or `"span"`.
        packed: Whether to put several short examples into one row, so that no compute goes into padding.
        negatives: For large vocabularies: tell each masked token from so many drawn ones, instead of from all.
        save_every: Steps between two saved states; also the length of what Keras calls an epoch.
        validation_steps: The most batches of validation examples that are measured after each of these; `None`: all.
        service: Address of a tf.data service that reads the examples (`grpc://host:port`), for several machines; see
            `read_examples_through_service`. Its order depends on who is faster, so a run that is started again begins a
            new pass over the data instead of going on in the old one.
        strategy: Which devices; see `choose_devices`.
        precision: A dtype policy; `"auto"` is half precision on GPUs and TPUs; see `choose_devices`.
        seed: Of everything: weights, dropout, order, masks.

    Example:
        >>> PretrainingPlan(steps=1000, batch_size=64).learning_rate
        0.0001
    """

    steps: int
    batch_size: int = 32
    accumulation: int = 1
    learning_rate: float = 1e-4
    optimizer: str = "adamw"
    warmup: float = 0.1
    dropout: float | None = None
    max_predictions: int | None = None
    mask_unit: str = "token"
    packed: bool = False
    negatives: int | None = None
    save_every: int = 500
    validation_steps: int | None = 50
    service: str | None = None
    strategy: str = "auto"
    precision: str = "auto"
    seed: int = 0

    def __post_init__(self):
        if self.save_every < 1 or self.steps < 1 or self.steps % self.save_every:
            raise ValueError(
                f"steps={self.steps} must be a multiple of save_every={self.save_every}, and both at least 1."
            )
        if self.accumulation < 1 or self.batch_size < 1 or self.batch_size % self.accumulation:
            raise ValueError(
                f"batch_size={self.batch_size} must be a multiple of accumulation={self.accumulation}, and both at "
                "least 1."
            )


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One part of a pretraining: on which examples, and how.

    Example:
        ```python
        Phase(examples="examples-512", plan=PretrainingPlan(steps=1000, batch_size=8))
        ```
    """

    examples: str | os.PathLike
    plan: PretrainingPlan
    validation: str | os.PathLike | None = None
