"""Choose the few matrices of a recipe that need more bits, on the user's data.

Each matrix is rounded alone, and the change of the outputs is measured. Then the worst matrices get a wider type, as
few as the budget needs. The result is a `Recipe` for `convert` or `train_quantized`, and prints as a table. Everything
is measured in Keras, which computes what the file computes (`quantization/training_model.py`), so that no matrix needs
a conversion of its own. Needs the extra `quantize`.
"""

import copy
import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from export.quantization.matrices import dense_layers
from export.quantization.statistics import token_rows
from export.recipes import RECIPES, Recipe, find_recipe
from export.tasks.base.inputs import read_examples, task_reader
from export.tasks.base.registry import find_export
from export.tasks.base.tensorflow_process import on_tensorflow
from export.verification.parity import relative_error
from keras_bert.model.weights import copy_weights
from keras_bert.system.progress import hides_bar
from keras_bert.tasks.base.task import Task

_WIDER = {"int4": "dynamic_int8", "int8": "float16"}  # by the type of stored matrices
_FLOAT, _NARROW, _WIDE = range(3)


@dataclass(frozen=True)
class MatrixError:
    """The change of the outputs when one matrix alone is rounded: root mean square, relative to the outputs."""

    name: str
    error: float
    values: int


@dataclass(frozen=True)
class MeasuredRecipe(Recipe):
    """A recipe with exceptions that were chosen by measurement. Prints as a small table.

    Args:
        matrices: All matrices, the worst first, and last those that are wide already.
        metric: The metric of the budget.
        float_score: The score without quantization.
        base_score: The score of the recipe without exceptions.
        score: The score of this recipe.
        budget: How much lower than `float_score` it may be.
        examples: How many examples were measured.
    """

    matrices: tuple[MatrixError, ...] = ()
    metric: str = ""
    float_score: float = 0.0
    base_score: float = 0.0
    score: float = 0.0
    budget: float = 0.0
    examples: int = 0

    @property
    def holds(self) -> bool:
        """Whether the budget is kept."""
        return self.score >= self.float_score - self.budget - 1e-9

    def __str__(self) -> str:
        wide = [one for one in self.matrices if one.name in self.exceptions]
        rest = [one for one in self.matrices if one.name not in self.exceptions]
        share = sum(one.values for one in wide) / max(1, sum(one.values for one in self.matrices))
        lines = [
            f"{self.name} with {len(wide)} of {len(self.matrices)} matrices ({share:.0%} of their weights) wider; "
            f"{self.metric} on {self.examples:,} examples:",
            f"  float {self.float_score:.4f}   all {self.name} {self.base_score:.4f}   this {self.score:.4f}   "
            + (f"within {self.budget:g}" if self.holds else f"NOT within {self.budget:g}"),
        ]
        lines += [f"  {one.name:<32}{one.error:>8.4f}   {self.exceptions[one.name]}" for one in wide]
        lines += [f"  {one.name:<32}{one.error:>8.4f}" for one in rest[:3]]
        return "\n".join(lines + ([f"  … {len(rest) - 3} more"] if len(rest) > 3 else []))


@on_tensorflow()
def choose_precision(
    task: Task,
    data: Any,
    y: Any = None,
    *,
    recipe: str | Recipe = "weight_int4",
    budget: float = 0.01,
    wider: str | None = None,
    metric: str | None = None,
    examples: int = 256,
    columns: dict[str, Any] | None = None,
    verbose: int | str = "auto",
) -> MeasuredRecipe:
    """Find the matrices that a recipe should not round, or round less.

    Args:
        task: A trained task.
        data: Inputs of `task.predict`, or labelled data in any form that `task.evaluate` takes.
        y: The labels, where `data` is inputs.
        recipe: `"weight_int4"`, `"static_int8"` or `"dynamic_int8"`.
        budget: With labels, how much of the metric may be lost (0.01 is a point); without, the share of answers that
            may change.
        wider: The recipe of the worst matrices: by default `"dynamic_int8"` for int4 and `"float16"` for int8;
            `"float32"` is possible too. On a CPU, files with any of them are one XNNPACK partition.
        metric: The metric; `None` is the task's own, `"agreement"` the share of answers that stay the same.
        examples: Use at most this many examples, the first ones. With few, one changed answer may exceed the budget.
        columns: Columns of a data file, as for `task.evaluate`.
        verbose: 0 for no progress bar.

    Returns:
        A `Recipe` for `convert`; calibrate with the same data. If the budget cannot be kept, every matrix is wide and
        `.holds` is false.

    Example:
        ```python
        mixed = export.choose_precision(classifier, "dev.tsv", recipe="weight_int4", budget=0.005)
        print(mixed)
        export.convert(classifier, "model.tflite", recipe=mixed, calibration="dev.tsv")
        ```
    """
    base = find_recipe(recipe)
    wider = wider or _WIDER.get(base.weights, "float32")
    _check(task, base, wider, budget)
    measure = _Measure(task, data, y, metric, examples, columns or {})
    switches = measure.switch_products(base, RECIPES[wider])
    expected = measure.outputs()
    errors = _errors_alone(measure, switches, expected, verbose)
    worst = sorted(switches, key=lambda name: (name in measure.unchanged, -errors[name]))

    @functools.cache
    def score(count: int) -> float:
        """The score with that many of the worst matrices wide, and all others narrow."""
        for place, name in enumerate(worst):
            switches[name].assign(_WIDE if place < count else _NARROW)
        return measure.score(expected, measure.outputs())

    float_score = measure.score(expected, expected)
    most = len(worst) - len(measure.unchanged)
    # One after the other: with few examples, one more may be worse by chance, which would mislead a bisection.
    count = next((count for count in range(most) if score(count) >= float_score - budget - 1e-9), most)
    sizes = {name: int(np.prod(layer.kernel.shape)) for name, layer in dense_layers(task.model).items()}
    return MeasuredRecipe(
        **{**asdict(base), "exceptions": dict.fromkeys(worst[:count], wider)},
        matrices=tuple(MatrixError(name, errors[name], sizes[name]) for name in worst),
        metric=measure.metric,
        float_score=float_score,
        base_score=score(0),
        score=score(count),
        budget=budget,
        examples=measure.count,
    )


def _errors_alone(
    measure: "_Measure", switches: dict[str, tf.Variable], expected: dict[str, np.ndarray], verbose: int | str
) -> dict[str, float]:
    """The change of the outputs when each matrix is rounded while all others are float, by name."""
    errors = {}
    for name, switch in tqdm(
        switches.items(), desc="matrices", unit="matrix", disable=hides_bar(verbose not in (0, "0"))
    ):
        switch.assign(_NARROW)
        found = measure.outputs()
        changes = [relative_error(expected[output], found[output]) for output in expected]
        errors[name] = float(np.sqrt(np.mean(np.square(changes))))
        switch.assign(_FLOAT)
    return errors


def _check(task: Any, base: Recipe, wider: str, budget: float) -> None:
    if not isinstance(task, Task):
        raise ValueError(f"Expected a task, such as a TextClassifier; got {type(task).__name__}.")
    if task.fresh_heads:
        raise ValueError(f"The heads of this {type(task).__name__} are untrained; call fit() first.")
    if base.exceptions:
        raise ValueError(f"The recipe {base.name!r} has exceptions already; pass the recipe without them, by its name.")
    if wider not in ("dynamic_int8", "float16", "float32"):
        raise ValueError(f"Got wider={wider!r}; expected 'dynamic_int8', 'float16' or 'float32'.")
    if not 0 <= budget < 1:
        raise ValueError(
            f"Got budget={budget!r}; expected a number of at least 0 and below 1, such as 0.01 for one point."
        )
    from export.quantization.plan import check_simulated

    check_simulated(base)


class _Switched:
    """A product that a variable makes float, narrow or wide, so that the graph is traced only once."""

    def __init__(
        self, mode: tf.Variable, products: tuple[Callable[..., Any], ...], narrow_kernel: np.ndarray | None
    ) -> None:
        self.mode, self.products = mode, products
        self.narrow_kernel = None if narrow_kernel is None else tf.constant(narrow_kernel)

    def __call__(self, inputs: Any, kernel: Any, bias: Any) -> Any:
        kernels = [kernel, kernel if self.narrow_kernel is None else self.narrow_kernel, kernel]
        branches = [
            functools.partial(product, inputs, one, bias) for product, one in zip(self.products, kernels, strict=True)
        ]
        return tf.switch_case(tf.identity(self.mode), branches)


class _Measure:
    """The data, a model whose products can be switched, and the scores of its outputs."""

    def __init__(
        self, task: Task, data: Any, y: Any, metric: str | None, examples: int, columns: dict[str, Any]
    ) -> None:
        found = read_examples(task, data, y, **columns)
        self.task, self.app = copy.copy(task), find_export(task.name)
        self.unchanged: set[str] = set()  # matrices that are wide already
        if found.labelled is not None and metric != "agreement":
            self.data = task.prepare(found.labelled, None).first_rows(examples)
            self.metric = metric or self.app.metric(task, self.data)
            self.count = self.data.num_examples
            return
        if metric not in (None, "agreement"):
            raise ValueError(
                f"Got metric={metric!r}, which needs labels, and the data has none; pass labels, or metric=None."
            )
        self.metric, self.inputs = "agreement", list(found.inputs[:examples])
        self.reader = task_reader(task, task.sequence_length)
        self.data, self.count = self.reader.prepare(self.inputs), len(self.inputs)

    def switch_products(self, base: Recipe, wide: Recipe) -> dict[str, tf.Variable]:
        """Make a variable for each matrix that the recipe rounds: whether it is float, narrow or wide."""
        from export.quantization.learned_scales import DynamicNumbers
        from export.quantization.plan import plan_quantization
        from export.quantization.training_model import DynamicProduct, ProductMaker, exchange, float_product

        plan = plan_quantization(self._fresh_model(), base, token_rows(self.data.tokenized), static_vectors=False)
        make_narrow, switches = ProductMaker(plan.numbers), {}
        self.unchanged = set()

        def make(name: str, layer: Any) -> _Switched | None:
            if (narrow := make_narrow(name, layer)) is None:
                return None
            wider = DynamicProduct(layer, DynamicNumbers(8)) if wide.weights == "int8" else float_product
            if wide.weights == "int8" and plan.numbers[name] == DynamicNumbers(8):
                self.unchanged.add(name)
            switches[name] = tf.Variable(_FLOAT, trainable=False)
            return _Switched(switches[name], (float_product, narrow, wider), plan.kernels.get(name))

        self.model = self._fresh_model()
        exchange(self.model, make)
        return switches

    def _fresh_model(self) -> keras.Model:
        model = self.task.build_from_config(self.task.config)
        copy_weights(self.task.model, model)
        return model

    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs of the model with its products as they are switched now."""
        return self.task.outputs(self.data.tokenized, self.model)

    def score(self, expected: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> float:
        """The score of outputs, compared with those of the float model."""
        if self.metric != "agreement":
            return float(self.app.score(self.task, outputs, self.data, self.metric))
        rows = self.data.tokenized
        answers = [
            self.reader.answers(self.app.from_task(self.task, part, rows), self.data, self.inputs)
            for part in (expected, outputs)
        ]
        return float(self.reader.agreement(*answers))
