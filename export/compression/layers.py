"""Remove the blocks of a task that matter least on labelled data.

`remove_layers` tries the model without each of its blocks, removes the one with the least loss, and repeats with the
others, because the value of a block depends on those that are left.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from export.compression.heads import EXAMPLES, describe_cost
from export.compression.students import pick_layers, take_layers
from export.tasks.base.measuring import measure, prepare
from keras_bert.tasks.base.task import Task


@dataclass(frozen=True)
class Trial:
    """A model without one more block: the block, counted from 0, with loss and score."""

    block: int
    loss: float
    score: float


@dataclass(frozen=True)
class LayerRemoval:
    """What was removed. Prints as a small table.

    Args:
        blocks: How many blocks there were.
        kept: The blocks that stay, counted from 0.
        rounds: The trials of each round, each without one more block; the one with the least loss was removed.
        metric: The metric of the scores, on the given data, before any more training.
    """

    blocks: int
    kept: tuple[int, ...]
    rounds: tuple[tuple[Trial, ...], ...]
    metric: str
    score_before: float
    score_after: float
    loss_before: float
    loss_after: float
    parameters_before: int
    parameters_after: int

    @property
    def removed(self) -> tuple[int, ...]:
        """The removed blocks, in the order of removal."""
        return tuple(_least(trials).block for trials in self.rounds)

    def __str__(self) -> str:
        lines = [f"{len(self.kept)} of {self.blocks} blocks stay: {' '.join(str(block + 1) for block in self.kept)}"]
        for trials in self.rounds:
            chosen = _least(trials)
            others = ", ".join(f"{t.block + 1}: {t.loss:.4f}" for t in trials if t is not chosen)
            lines.append(
                f"  without block {chosen.block + 1}: loss {chosen.loss:.4f}, {self.metric} {chosen.score:.4f}"
                + (f"   (others {others})" if others else "")
            )
        return "\n".join([*lines, describe_cost(self)])


def remove_layers(
    task: Task,
    x: Any,
    y: Any = None,
    *,
    keep: int,
    examples: int = EXAMPLES,
    metric: str | None = None,
    columns: dict[str, Any] | None = None,
    verbose: bool = True,
) -> tuple[Task, LayerRemoval]:
    """Remove blocks from a task.

    Args:
        task: A trained task; it stays as it is.
        x, y: Labelled examples to measure on, in any form that `task.fit` takes; a part of the training data is enough.
        keep: How many blocks to keep.
        examples: Measure at most this many rows, the first ones.
        metric: As for `fit`; it is only reported. The loss decides, because scores are often equal.
        columns: As for `fit`.
        verbose: Whether to print what was removed.

    Returns:
        The smaller task and a report. Train the task a little more with `fit`, or with `distill` and the old task as
        the teacher.

    Example:
        ```python
        smaller, report = remove_layers(classifier, "dev.tsv", keep=4)
        ```
    """
    total = task.config.num_layers
    if not isinstance(keep, int) or not 1 <= keep <= total:
        raise ValueError(f"Got keep={keep!r}; the model has {total} blocks, expected 1 to {total}.")
    ready, data = prepare(task, x, y, columns=columns, examples=examples)
    metric = metric or ready.metric_for(data)
    before = after = measure(ready, data, metric)
    left, rounds = tuple(range(total)), []
    while len(left) > keep:
        trials = []
        for block in left:
            without = take_layers(task, pick_layers(total, len(left) - 1, [other for other in left if other != block]))
            trials.append(Trial(block, *measure(without.for_data(data), data, metric)))
        chosen = _least(trials)
        after, left = (chosen.loss, chosen.score), tuple(block for block in left if block != chosen.block)
        rounds.append(tuple(trials))
    smaller = take_layers(task, pick_layers(total, keep, left))
    report = LayerRemoval(
        blocks=total,
        kept=left,
        rounds=tuple(rounds),
        metric=metric,
        score_before=before[1],
        score_after=after[1],
        loss_before=before[0],
        loss_after=after[0],
        parameters_before=task.model.count_params(),
        parameters_after=smaller.model.count_params(),
    )
    if verbose:
        print(report)
    return smaller, report


def _least(trials: Sequence[Trial]) -> Trial:
    return min(trials, key=lambda trial: trial.loss)
