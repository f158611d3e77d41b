"""The settings of pretraining, as frozen dataclasses: a plan for one run, and phases, each with a plan.

A plan checks its values as far as that is possible without a model. It is written into the directory of the run as
`plan.json`.
"""

import itertools
import os
from dataclasses import dataclass, replace

from keras_bert.model.config import BertConfig
from keras_bert.model.neighbour_heads import NeighbourHeads, initial_heads

_STEPS_PER_EXECUTION = 8


@dataclass(frozen=True, kw_only=True)
class PretrainingPlan:
    """How to pretrain: a value that can be printed and changed with `dataclasses.replace`.

    Args:
        steps: Training steps.
        batch_size: Rows of a step, on all devices together.
        accumulation: Parts that each device works through its rows in: the memory of a small batch, the step of the
            whole one.
        learning_rate: The peak of the schedule; `None` goes by the model's size (`pretraining_rate`).
        optimizer: `"adamw"`, or `"lamb"` for batches of thousands.
        beta_2: Of the optimizer: how slowly its mean of squared gradients changes.
        warmup: The share of the steps in which the rate climbs.
        dropout: Rate while pretraining; 0 is better for runs that see their text a few times. `None` takes the
            config's. The saved model keeps the config's, for fine-tuning.
        initial: Weights of a model that starts from nothing: `"neighbours"`, `"random"` or a `NeighbourHeads`; see
            `bert_encoder`.
        growth: Models with fewer blocks to begin with, as `(blocks, step)`: so many blocks until that step, then a
            multiple of them, with the same optimizer and schedule, such as `((1, 1000),)` for a model of 2 blocks.
        mask_rate: The share of tokens to predict, at the start of the run.
        final_mask_rate: At its end, with a straight line between the two; validation has this one all the time. `None`:
            the rate stays as it is.
        max_predictions: The most masked tokens of a row; `None` takes the larger mask rate of its length.
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
        >>> PretrainingPlan(steps=1000, batch_size=64).for_config(BertConfig.preset("mini")).learning_rate
        0.001
    """

    steps: int
    batch_size: int = 32
    accumulation: int = 1
    learning_rate: float | None = None
    optimizer: str = "adamw"
    beta_2: float = 0.999
    warmup: float = 0.05
    dropout: float | None = 0.0
    initial: str | NeighbourHeads = "neighbours"
    growth: tuple[tuple[int, int], ...] = ()
    mask_rate: float = 0.3
    final_mask_rate: float | None = 0.15
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

    def __post_init__(self) -> None:
        if self.save_every < 1 or self.steps < 1 or self.steps % self.save_every:
            raise ValueError(
                f"steps={self.steps} must be a multiple of save_every={self.save_every}, and both at least 1."
            )
        if self.accumulation < 1 or self.batch_size < 1 or self.batch_size % self.accumulation:
            raise ValueError(
                f"batch_size={self.batch_size} must be a multiple of accumulation={self.accumulation}, and both at "
                "least 1."
            )
        for name in ("mask_rate", "final_mask_rate"):
            rate = getattr(self, name)
            if not (name == "final_mask_rate" and rate is None) and not 0 < rate < 1:
                raise ValueError(f"{name}={rate!r} is not a share of the tokens; expected a number between 0 and 1.")
        initial_heads(self.initial)
        steps = [0, *(step for _, step in self.growth), self.steps]
        if any(step % self.save_every or step <= before for before, step in itertools.pairwise(steps)):
            raise ValueError(
                f"growth={self.growth}: expected (blocks, step) pairs whose steps rise, are multiples of "
                f"save_every={self.save_every} and stay below steps={self.steps}."
            )

    @property
    def last_mask_rate(self) -> float:
        """The share of tokens to predict at the end of the run, and in validation."""
        return self.mask_rate if self.final_mask_rate is None else self.final_mask_rate

    def mask_rate_at(self, step: int) -> float:
        """The share of tokens to predict at a step."""
        return self.mask_rate + (self.last_mask_rate - self.mask_rate) * min(step / self.steps, 1.0)

    def stages(self, config: BertConfig) -> list[tuple[int, int]]:
        """The blocks of the model and the step until which it has them, for each model that the run passes through.

        Example:
            >>> PretrainingPlan(steps=3000, growth=((1, 1000),)).stages(BertConfig.preset("tiny"))
            [(1, 1000), (2, 3000)]
        """
        stages = [*self.growth, (config.num_layers, self.steps)]
        for (few, _), (many, _) in itertools.pairwise(stages):
            if few < 1 or many % few:
                raise ValueError(
                    f"growth={self.growth} of a model of {config.num_layers} blocks: {many} blocks are no multiple of "
                    f"{few}; grow by whole copies, such as 2, 4, 8."
                )
        return stages

    @property
    def steps_at_once(self) -> int:
        """How many steps run in one execution: Keras rounds an epoch up to whole ones, so they must divide it."""
        return next(count for count in range(_STEPS_PER_EXECUTION, 0, -1) if self.save_every % count == 0)

    def check_state(self, step: int, directory: str | os.PathLike[str]) -> None:
        """Raise an error if this plan cannot go on from a saved state.

        Args:
            step: The step of the state, which may stand within an epoch.
            directory: The run's directory, for the message.
        """
        if step % self.steps_at_once:
            raise ValueError(
                f"{directory} has the state of step {step}, but with save_every={self.save_every} "
                f"{self.steps_at_once} steps run at once; go on with the save_every that the run began with."
            )

    def for_config(self, config: BertConfig) -> "PretrainingPlan":
        """The plan with a number for its learning rate."""
        return self if self.learning_rate is not None else replace(self, learning_rate=pretraining_rate(config))


def pretraining_rate(config: BertConfig) -> float:
    """The peak learning rate that suits a model's width and depth, for batches of a few thousand tokens.

    Example:
        >>> [pretraining_rate(BertConfig.preset(size)) for size in ("tiny", "mini", "base")]
        [0.002, 0.001, 0.00019]
    """
    depth = min(1.0, (4 / config.num_layers) ** 0.5)
    rate = min(2e-3, 2e-3 * 128 / config.hidden_dim) * depth
    return float(f"{rate:.2g}")


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One part of a pretraining: on which examples, and how.

    Example:
        ```python
        Phase(examples="examples-512", plan=PretrainingPlan(steps=1000, batch_size=8))
        ```
    """

    examples: str | os.PathLike[str]
    plan: PretrainingPlan
    validation: str | os.PathLike[str] | None = None
