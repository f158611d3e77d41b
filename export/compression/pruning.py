"""Train a task while most weights of its blocks become exactly zero.

`prune` sets the smallest weights of every matrix in the blocks to zero, more and more by a schedule of
tensorflow-model-optimization, while `fit` trains the others (Zhu & Gupta 2017). tfmot's own wrapper does not take Keras
3 layers. So here its schedule decides, and a constraint on each kernel, which Keras applies after every step, keeps to
the masks. The masks are weights of the training model, so that an interrupted run continues with them. The shapes of
the matrices do not change.
"""

import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from export.distillation.losses import DistillationLoss
from export.distillation.training import distill
from export.quantization.tfmot import load_tfmot
from export.tasks.base.teacher_labels import label_texts
from export.tasks.base.tensorflow_process import on_tensorflow
from keras_bert.finetuning.best_weights import Score
from keras_bert.finetuning.layerwise_adamw import layer_depth
from keras_bert.finetuning.recipes import Recipe, find_recipe
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.model.weights import copy_weights, to_numpy
from keras_bert.tasks.base.task import Task
from keras_bert.tasks.base.training_method import TrainingMethod

_LAYER, _STEP = "pruning", "pruning_step"


@dataclass(frozen=True)
class PruneReport:
    """The weights after pruning. Prints as a few lines.

    Args:
        sparsity: The share of zeros of each pruned matrix, by its path, after training.
        weights: How many weights these matrices have.
        begin, end, frequency: The schedule, in steps.
        compressed_before, compressed_after: The bytes of these matrices as float32, compressed by zlib.
        training: The report of the training.
    """

    sparsity: dict[str, float]
    weights: int
    begin: int
    end: int
    frequency: int
    compressed_before: int
    compressed_after: int
    training: FinetuneReport

    def __str__(self) -> str:
        rates = list(self.sparsity.values())
        smaller = 1 - self.compressed_after / self.compressed_before
        return (
            f"{np.mean(rates):.1%} of the {self.weights:,} weights of {len(rates)} matrices are zero "
            f"(of the fullest {min(rates):.1%}), pruned in steps {self.begin} to {self.end}, every {self.frequency}\n"
            f"compressed {self.compressed_before / 1e6:.2f} MB → {self.compressed_after / 1e6:.2f} MB "
            f"({smaller:.0%} less)\n{self.training}"
        )


@on_tensorflow()
def prune(
    task: Task,
    x: Any,
    y: Any = None,
    *,
    sparsity: float = 0.5,
    begin: int | None = None,
    end: int | None = None,
    frequency: int | None = None,
    teacher: Task | Sequence[Task] | None = None,
    losses: Sequence[DistillationLoss] | None = None,
    label_weight: float = 0.5,
    validation_data: Any = None,
    recipe: str | Recipe = "standard",
    metric: str | None = None,
    directory: str | os.PathLike[str] | None = None,
    columns: dict[str, Any] | None = None,
    callbacks: Sequence[keras.callbacks.Callback] | None = None,
    verbose: int | str = "auto",
    **changes: Any,
) -> tuple[Task, PruneReport]:
    """Train a task until most weights of its blocks are zero.

    Args:
        task: A trained task; it stays as it is.
        x, y: Examples in any form that `task.fit` takes.
        sparsity: The share of zeros of each matrix at the end.
        begin: The step of the first cut; `None` is a tenth of all steps.
        end: The step of the last cut; `None` is two thirds of all steps. The steps after it recover the score.
        frequency: Steps from one cut to the next; `None` makes about 20 cuts.
        teacher: A task to learn from beside the labels, such as the unpruned one; see `distill`.
        losses, label_weight: With a teacher: as for `distill`.
        validation_data: As for `fit`; it decides which weights to keep, among those that are sparse enough.
        recipe: As for `fit`. Its patience is not used, because each cut makes the score worse before it recovers.
        metric, directory, columns, callbacks, verbose: As for `fit`.
        changes: Settings of the recipe to change, e.g. `learning_rate=5e-5, epochs=4`.

    Returns:
        The pruned task and a report.

    Example:
        ```python
        sparse, report = prune(classifier, train, sparsity=0.6, validation_data=dev, teacher=classifier)
        print(report)
        ```
    """
    recipe = replace(find_recipe(recipe, **changes), patience=None)
    if recipe.trains != "all":
        raise ValueError(
            f"The recipe trains {recipe.trains!r}; pruning trains all weights. Use a recipe with trains='all'."
        )
    given = (x, y, columns or {})
    if teacher is not None and not label_weight:  # labels are not needed then
        given = label_texts(teacher if isinstance(teacher, Task) else teacher[0], x, y, **(columns or {}))
    steps = _count_steps(task, *given, recipe)
    schedule = _make_schedule(sparsity, steps, begin, end, frequency)
    pruned = _copied(task)
    before = _matrices(pruned.model)
    options: dict[str, Any] = {"recipe": recipe, "metric": metric, "directory": directory, "columns": columns}
    options |= {"validation_data": validation_data, "callbacks": callbacks, "verbose": verbose}
    options |= {"method": Pruning(schedule)}
    if teacher is None:
        training = pruned.fit(x, y, **options)
    else:
        training = distill(teacher, pruned, x, y, losses=losses, label_weight=label_weight, **options)
    after = _matrices(pruned.model)
    weights = sum(array.size for array in after.values())
    counted = replace(training.parameters, total=training.parameters.total - weights - 1)  # masks are not parameters
    report = PruneReport(
        sparsity={path: float(np.mean(array == 0)) for path, array in after.items()},
        weights=weights,
        begin=schedule.begin_step,
        end=schedule.end_step,
        frequency=schedule.frequency,
        compressed_before=compressed_size(before.values()),
        compressed_after=compressed_size(after.values()),
        training=replace(training, parameters=counted),
    )
    return pruned, report


def compressed_size(arrays: Iterable[np.ndarray]) -> int:
    """The bytes of arrays after zlib, as in a zip file, an APK or a download over HTTP.

    Example:
        >>> compressed_size([np.zeros(1000, np.float32)]) < 100
        True
    """
    packer = zlib.compressobj()
    return sum(len(packer.compress(np.ascontiguousarray(array).tobytes())) for array in arrays) + len(packer.flush())


def _copied(task: Task) -> Task:
    copied = task.on_encoder(task.config)
    copy_weights(task.model, copied.model)
    copied.fresh_heads = task.fresh_heads
    return copied


def _prunes(path: str) -> bool:
    """Whether a weight is a matrix of a block; tables and heads are not pruned."""
    return bool(layer_depth(path)) and path.endswith("kernel")


def _matrices(model: keras.Model) -> dict[str, np.ndarray]:
    return {weight.path: to_numpy(weight) for weight in model.weights if _prunes(weight.path)}


# === The schedule ===


def _count_steps(task: Task, x: Any, y: Any, columns: dict[str, Any], recipe: Recipe) -> int:
    data = task.prepare(x, y, **columns)
    per_epoch = -(-len(data.tokenized) // (data.texts_per_example * recipe.batch_size))
    return max(round(recipe.epochs * per_epoch), recipe.steps or 0, 1)


def _make_schedule(sparsity: float, steps: int, begin: int | None, end: int | None, frequency: int | None) -> Any:
    """tfmot's polynomial decay, with a cut on its last step, so that the full sparsity is reached."""
    if not 0 < sparsity < 1:
        raise ValueError(f"Got sparsity={sparsity!r}; expected the share of zeros, between 0 and 1.")
    begin = steps // 10 if begin is None else begin
    end = max(begin + 1, 2 * steps // 3) if end is None else end
    if not 0 <= begin < end <= steps:
        raise ValueError(
            f"Got begin={begin} and end={end}; expected 0 ≤ begin < end ≤ {steps:,}, the steps of the training. For "
            "more steps, use more epochs or a smaller batch_size."
        )
    frequency = max(1, (end - begin) // 20) if frequency is None else frequency
    if not 1 <= frequency <= end - begin:
        raise ValueError(f"Got frequency={frequency}; expected 1 to {end - begin}, the steps from begin to end.")
    end = begin + (end - begin) // frequency * frequency
    return load_tfmot().sparsity.keras.PolynomialDecay(
        initial_sparsity=0.0, final_sparsity=sparsity, begin_step=begin, end_step=end, frequency=frequency
    )


# === The masks ===


class PruningMasks(keras.layers.Layer):
    """Passes its input through, counts training steps, and holds a mask for each kernel.

    Args:
        kernels: Variables that the model trains; each gets a constraint that applies its mask.
        schedule: A schedule of tfmot: takes a step, gives whether to cut and the share of zeros.
    """

    def __init__(self, kernels: list[keras.Variable], schedule: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.schedule = schedule
        self.step = self.add_weight(name="step", shape=(), dtype="int32", initializer="zeros", trainable=False)
        self.masks = []
        for index, kernel in enumerate(kernels):
            options = {"dtype": "bool", "initializer": "ones", "trainable": False}
            mask = self.add_weight(name=f"mask_{index}", shape=kernel.shape, **options)
            self.masks.append(mask)
            kernel.constraint = self._keep_to(mask)
        self.built = True

    def call(self, outputs: Any, training: Any = None) -> Any:
        if training:
            self.step.assign_add(1)
        return outputs

    def compute_output_spec(self, outputs: Any, training: Any = None) -> Any:
        return keras.tree.map_structure(lambda output: keras.KerasTensor(output.shape, output.dtype), outputs)

    def _keep_to(self, mask: Any) -> Callable[[Any], Any]:
        def constrain(kernel: Any) -> Any:
            kernel = tf.convert_to_tensor(kernel)
            due, share = self.schedule(self.step.value)
            mask.assign(tf.cond(due, lambda: _largest(kernel, share), lambda: tf.convert_to_tensor(mask.value)))
            return tf.where(mask.value, kernel, 0.0)

        return constrain


def _largest(kernel: Any, share: Any) -> Any:
    """The mask of the weights that stay: all but the share of the smallest magnitude."""
    # The bits of positive floats have the same order as the floats, so the limit is found bit by bit, from the highest
    # down. This is exact, and much faster than sorting.
    bits = tf.bitcast(tf.abs(kernel), tf.int32)
    zeros = tf.cast(tf.round(share * tf.cast(tf.size(bits), tf.float32)), tf.int32)

    def add_bit(place: Any, limit: Any) -> tuple[Any, Any]:
        higher = limit + tf.bitwise.left_shift(1, place)
        fewer = tf.reduce_sum(tf.cast(bits < higher, tf.int32)) < zeros
        return place - 1, tf.where(fewer, higher, limit)

    _, limit = tf.while_loop(lambda place, _: place >= 0, add_bit, (tf.constant(30), tf.constant(0)))
    return (bits > limit) | (zeros == 0)


class Pruning(TrainingMethod):
    """Training with masks on the matrices of the blocks.

    Args:
        schedule: A schedule of tfmot: takes a step, gives whether to cut and the share of zeros.
    """

    def __init__(self, schedule: Any):
        self.schedule = schedule

    def layer_names(self) -> tuple[str, ...]:
        return (_LAYER,)

    def change_training_model(self, model: keras.Model, encoder: keras.Model) -> keras.Model:
        kernels = [weight for weight in model.trainable_weights if _prunes(weight.path)]
        masks = PruningMasks(kernels, self.schedule, name=_LAYER)
        return keras.Model(model.input, masks(model.output), name=model.name)

    def state(self, model: keras.Model) -> dict[str, np.ndarray]:
        return {_STEP: to_numpy(model.get_layer(_LAYER).step)}

    def score(self, score: Score, state: dict[str, np.ndarray]) -> Score:
        if int(state[_STEP]) >= self.schedule.end_step:
            return score
        # Not sparse enough yet: these weights must not be kept, however good they are.
        return Score(-np.inf, score.degenerate, {**score.details, "not_yet_sparse": score.value})
