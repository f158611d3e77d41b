"""Estimate how long the next candidate will take, from the durations so far.

A time limit is kept by not starting what cannot be finished.
"""

from dataclasses import dataclass, field

import numpy as np

from export.search.candidates import Candidate
from keras_bert.model.config import BertConfig

_TRAINING_PASSES = 3  # forward and backward together cost about three times as much as forward


def work_of(config: BertConfig) -> float:
    """The multiplications for a token: the matrices of all blocks, and a little for everything else.

    Example:
        >>> work_of(BertConfig(num_layers=2)) / work_of(BertConfig(num_layers=1)) < 2
        True
    """
    width = config.hidden_dim
    return config.num_layers * (4 * width * config.heads_dim + 2 * width * config.intermediate_dim) + 200 * width


@dataclass
class Costs:
    """Records durations and estimates new ones.

    Args:
        teacher: The teacher's sizes.
        tokens: The tokens of all training examples.
        examples: How many there are.
        seconds_per_work: The time of a multiplication; at first from the teacher's pass over the validation data.
    """

    teacher: BertConfig
    tokens: int
    examples: int
    seconds_per_work: float
    files: list[tuple[float, float]] = field(default_factory=list)  # work and seconds of files that were tried
    asked: bool = False  # whether the teacher's outputs for the training texts are computed

    def of_model(self, candidate: Candidate) -> float:
        """Seconds to make the candidate's model."""
        plan = candidate.model
        tokens = self.tokens * (1 + plan.copies)
        work = 0.0 if self.asked and not plan.copies else tokens * work_of(self.teacher)
        if plan.cuts:
            work += (
                min(1.0, 1024 / max(1, self.examples)) * self.tokens * work_of(self.teacher) * self.teacher.num_layers
            )
        if plan.training is not None:
            recipe = plan.training
            examples = max(1, self.examples * (1 + plan.copies))
            epochs = max(recipe.epochs, (recipe.steps or 0) * recipe.batch_size / examples)
            work += _TRAINING_PASSES * epochs * tokens * work_of(self.config_of(candidate))
        return work * self.seconds_per_work

    def of_file(self, candidate: Candidate) -> float:
        """Seconds to write and measure the candidate's file: those of the most similar one so far."""
        if not self.files:
            return 0.0
        work = work_of(self.config_of(candidate))
        return min(self.files, key=lambda row: abs(np.log(row[0] / work)))[1]

    def config_of(self, candidate: Candidate) -> BertConfig:
        """The sizes of the candidate's model, except its vocabulary."""
        plan = candidate.model
        names = {"layers": "num_layers", "heads": "num_heads", "neurons": "intermediate_dim"}
        changes = dict(plan.sizes) | {names[part]: count for part, count in plan.cuts.items()}
        if plan.heads is not None:
            changes["attention_dim"] = plan.heads * self.teacher.head_dim
        return self.teacher.replace(**changes)

    def learn(self, candidate: Candidate, model_seconds: float, file_seconds: float) -> None:
        """Record the durations of a candidate."""
        self.files.append((work_of(self.config_of(candidate)), file_seconds))
        expected = self.of_model(candidate)
        if candidate.model.training is not None and model_seconds and expected:
            # Only half of the correction: small models spend more time outside of their matrices.
            self.seconds_per_work *= (model_seconds / expected) ** 0.5
            self.asked = True
