"""Remove the attention heads or neurons of a task that matter least on labelled data.

`remove_heads` and `remove_neurons` measure the parts on the user's data (`compression/importance.py`) and cut them out
of the matrices, so that the model and every file made from it are smaller. Every block keeps the same number of parts,
because the config has one number for all. The matrix after the parts is fitted again by least squares on the same data,
so that the remaining parts give as nearly as possible what all parts gave.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from export.compression.importance import PartStatistics, part_importance
from export.tasks.base.measuring import measure, prepare
from export.tasks.base.tensorflow_process import on_tensorflow
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.model.weights import to_numpy
from keras_bert.tasks.base.task import Task

EXAMPLES = 1024


@dataclass(frozen=True, eq=False)
class PartRemoval:
    """What was removed. Prints as a small table.

    Args:
        part: `"heads"` or `"neurons"`.
        kept: The parts that each block keeps, counted from 0.
        importance: The importance of each part, `[L, parts]`.
        metric: The metric of `score_before` and `score_after`, on the given data, before any more training.
    """

    part: str
    kept: tuple[tuple[int, ...], ...]
    importance: np.ndarray
    metric: str
    score_before: float
    score_after: float
    loss_before: float
    loss_after: float
    parameters_before: int
    parameters_after: int

    def __str__(self) -> str:
        total, left = self.importance.shape[1], len(self.kept[0])
        lines = [f"{left} of {total} {self.part} stay in every block"]
        for index, (kept, importance) in enumerate(zip(self.kept, self.importance, strict=True), 1):
            share = importance[list(kept)].sum() / max(importance.sum(), 1e-30)
            line = f"  block {index:<3} {share:6.1%} of the importance stays"
            if total <= 32:
                gone = [str(part + 1) for part in range(total) if part not in kept]
                line += f"; without {self.part} {' '.join(gone) or 'none'}"
            lines.append(line)
        lines.append(describe_cost(self))
        return "\n".join(lines)


def describe_cost(report: Any) -> str:
    """What a removal saves and costs, as one line, for the reports of parts and of blocks."""
    saved = 1 - report.parameters_after / report.parameters_before
    return (
        f"{report.parameters_after:,} parameters instead of {report.parameters_before:,} ({saved:.0%} less); untrained "
        f"{report.metric} {report.score_before:.4f} → {report.score_after:.4f}, "
        f"loss {report.loss_before:.4f} → {report.loss_after:.4f}"
    )


@on_tensorflow()
def remove_heads(
    task: Task,
    x: Any,
    y: Any = None,
    *,
    keep: int | None = None,
    share: float | None = None,
    examples: int = EXAMPLES,
    metric: str | None = None,
    columns: dict[str, Any] | None = None,
    verbose: bool = True,
) -> tuple[Task, PartRemoval]:
    """Remove attention heads from every block of a task.

    Args:
        task: A trained task; it stays as it is.
        x, y: Labelled examples to measure on, in any form that `task.fit` takes; a part of the training data is enough.
        keep: How many heads each block keeps.
        share: Instead of `keep`: the share of heads to remove, such as 0.25.
        examples: Measure at most this many rows, the first ones.
        metric: As for `fit`.
        columns: As for `fit`.
        verbose: Whether to print what was removed.

    Returns:
        The smaller task and a report. Train the task a little more with `fit`, or with `distill` and the old task as
        the teacher. Its saved directories open in this library, but not in transformers.

    Example:
        ```python
        smaller, report = remove_heads(classifier, "dev.tsv", keep=8)
        ```
    """
    count = _how_many(task.config.num_heads, keep, share, "heads")
    ready, data = prepare(task, x, y, columns=columns, examples=examples)
    found = part_importance(ready, data, "heads")
    smaller = task.on_encoder(task.config.replace(num_heads=count, attention_dim=count * task.config.head_dim))
    kept = _copy_best(task, smaller, found, count, _HEADS)
    return smaller, _reported("heads", ready, smaller, data, kept, found.importance, metric, verbose)


@on_tensorflow()
def remove_neurons(
    task: Task,
    x: Any,
    y: Any = None,
    *,
    keep: int | None = None,
    share: float | None = None,
    examples: int = EXAMPLES,
    metric: str | None = None,
    columns: dict[str, Any] | None = None,
    verbose: bool = True,
) -> tuple[Task, PartRemoval]:
    """Remove neurons from the feed-forward part of every block of a task; arguments as for `remove_heads`.

    Example:
        ```python
        smaller, report = remove_neurons(classifier, "dev.tsv", share=0.5)
        ```
    """
    count = _how_many(task.config.intermediate_dim, keep, share, "neurons")
    ready, data = prepare(task, x, y, columns=columns, examples=examples)
    found = part_importance(ready, data, "neurons")
    smaller = task.on_encoder(task.config.replace(intermediate_dim=count))
    kept = _copy_best(task, smaller, found, count, _NEURONS)
    return smaller, _reported("neurons", ready, smaller, data, kept, found.importance, metric, verbose)


def _how_many(total: int, keep: int | None, share: float | None, what: str) -> int:
    if (keep is None) == (share is None):
        raise ValueError(
            f"Got keep={keep!r} and share={share!r}; pass one of the two: how many {what} to keep, or the share to "
            "remove."
        )
    if share is not None:
        if not 0 <= share < 1:
            raise ValueError(f"Got share={share!r}; expected the share of {what} to remove, at least 0 and below 1.")
        return max(1, round(total * (1 - share)))
    if not isinstance(keep, int) or not 1 <= keep <= total:
        raise ValueError(f"Got keep={keep!r}; a block has {total} {what}, expected 1 to {total}.")
    return keep


# === Matrices ===

# The layers of a block whose columns belong to parts, and the layer whose rows do.
_HEADS = (("attention/query", "attention/key", "attention/value"), "attention/output")
_NEURONS = (("intermediate",), "output")


# The ridge of the least squares, as a share of the mean variance: few texts say little about rare parts.
_RIDGE = 1e-2


def _copy_best(
    task: Task, smaller: Task, found: PartStatistics, count: int, layers: tuple[tuple[str, ...], str]
) -> tuple[tuple[int, ...], ...]:
    """Copy the weights of the most important parts to the smaller task; give these parts for each block."""
    before, behind = layers
    values = {weight.path: to_numpy(weight) for weight in task.model.weights}
    each, all_kept = found.means.shape[1] // found.importance.shape[1], []
    for index, importance in enumerate(found.importance):
        kept, block = np.sort(np.argsort(-importance, kind="stable")[:count]), f"block_{index}"
        places = (kept[:, None] * each + np.arange(each)).reshape(-1)
        for layer in before:
            for name in ("kernel", "bias"):
                values[f"{block}/{layer}/{name}"] = values[f"{block}/{layer}/{name}"][..., places]
        kernel, bias = f"{block}/{behind}/kernel", f"{block}/{behind}/bias"
        fitted = _fit(values[kernel], values[bias], places, found.means[index], found.covariances[index])
        values[kernel], values[bias] = fitted
        all_kept.append(tuple(map(int, kept)))
    for weight in smaller.model.weights:
        weight.assign(values[weight.path])
    smaller.fresh_heads = False
    return tuple(all_kept)


def _fit(
    kernel: np.ndarray, bias: np.ndarray, places: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The matrix and bias with which the inputs at `places` give, as nearly as possible, what all inputs gave."""
    kernel, covariance = kernel.astype(np.float64), covariance.astype(np.float64)
    own = covariance[np.ix_(places, places)]
    # The ridge pulls towards the old matrix, so that nothing changes if nothing is removed.
    ridge = _RIDGE * np.trace(own) / len(own) + 1e-12
    wanted = covariance[places] @ kernel + ridge * kernel[places]
    fitted = np.linalg.solve(own + ridge * np.eye(len(own)), wanted)
    return fitted.astype(np.float32), (bias + mean @ kernel - mean[places] @ fitted).astype(np.float32)


def _reported(
    part: str,
    ready: Task,
    smaller: Task,
    data: PreparedData,
    kept: tuple[tuple[int, ...], ...],
    importance: np.ndarray,
    metric: str | None,
    verbose: bool,
) -> PartRemoval:
    metric = metric or ready.metric_for(data)
    loss_before, score_before = measure(ready, data, metric)
    loss_after, score_after = measure(smaller.for_data(data), data, metric)
    report = PartRemoval(
        part=part,
        kept=kept,
        importance=importance,
        metric=metric,
        score_before=score_before,
        score_after=score_after,
        loss_before=loss_before,
        loss_after=loss_after,
        parameters_before=ready.model.count_params(),
        parameters_after=smaller.model.count_params(),
    )
    if verbose:
        print(report)
    return report
