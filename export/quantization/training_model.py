"""Build the model of quantization-aware training: the same model, with the rounding of its quantized file.

Dense layers and the token table are replaced in place by ones that round as the file does
(`quantization/fake_quantizers.py`), with the numbers of a plan. Weights keep their names, so that they can be copied
between this model and the plain one. What is rounded:

| part | static_int8 | dynamic_int8, weight_int4 |
|---|---|---|
| matrices of all dense layers, heads included | int8, a scale for each output | int8, or int4 with learned scales |
| their inputs | int8, one learned range after factors by channel | int8, by the range of each token |
| their outputs, so queries, keys, values, inputs of GELU and additions to residuals | int8, learned | float |
| biases | int32 in the scale of the products | float |
| the token table | int8, a scale for each row | the same |

Float in the file, so float here: the two products and the softmax of attention (their inputs are rounded already, and
int8 kernels for them would split XNNPACK's one partition), GELU and tanh, the sums of residuals and layer norms (they
cost little, and the next rounding depends on them), and segments.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from export.quantization.fake_quantizers import (
    HIGHEST,
    LOWEST,
    Attached,
    LearnedRange,
    LearnedScales,
    attach,
    last_value,
    of_each_row,
    of_each_token,
    on_grid,
)
from export.quantization.learned_scales import DynamicNumbers, Numbers, StaticNumbers
from export.quantization.matrices import dense_layers
from export.quantization.rounding import SMALLEST_TABLE
from export.quantization.statistics import LayerStatistics, new_statistics, rows_of

# === Products ===


class StaticProduct:
    """A product with integer inputs and outputs."""

    def __init__(self, layer: keras.layers.Dense, numbers: StaticNumbers, inputs: Attached | None = None):
        self.input = inputs or attach(LearnedRange(*_ends(numbers.input_scale)), layer, "input")
        self.output = attach(LearnedRange(*_ends(numbers.output_scale)), layer, "output")
        self.matrix, self.numbers = last_value(8), numbers
        width, units = layer.kernel.shape
        self.divide = _factors(numbers.input_factors, width)
        self.multiply = _factors(numbers.output_factors, units)
        self.evened = self.divide[:, None] / self.multiply

    def __call__(self, inputs: Any, kernel: Any, bias: Any) -> Any:
        kernel = kernel * self.evened
        outputs = ops.matmul(self.input(inputs * (1 / self.divide)), self.matrix(kernel))
        if bias is not None:
            scales = ops.stop_gradient(ops.maximum(ops.max(ops.abs(kernel), axis=0), 1e-12)) / HIGHEST
            step = ops.stop_gradient(self.input.quantizer.scale(self.input.weights)[0]) * scales
            outputs = outputs + on_grid(bias / self.multiply, step)
        return self.output(outputs) * self.multiply

    def rounded(self, kernel: Any) -> Any:
        """The kernel that the integers represent."""
        return self.matrix(kernel * self.evened) / self.evened

    def learned(self) -> StaticNumbers:
        """The current numbers."""
        scales = [(float(scale), int(zero_point)) for scale, zero_point in (self.input.scale(), self.output.scale())]
        return StaticNumbers(self.numbers.input_factors, scales[0], self.numbers.output_factors, scales[1])


class DynamicProduct:
    """A product with an integer matrix and inputs that are scaled token by token."""

    def __init__(self, layer: keras.layers.Dense, numbers: DynamicNumbers):
        self.input, self.numbers = of_each_token(), numbers
        self.matrix = last_value(8)
        if numbers.bits < 8:
            self.matrix = attach(LearnedScales(np.asarray(numbers.scales), numbers.bits), layer, "matrix")

    def __call__(self, inputs: Any, kernel: Any, bias: Any) -> Any:
        return float_product(self.input(inputs), self.matrix(kernel), bias)

    def rounded(self, kernel: Any) -> Any:
        """The kernel that the integers represent."""
        return self.matrix(kernel)

    def learned(self) -> DynamicNumbers:
        """The current numbers."""
        scales = None if self.numbers.bits == 8 else self.matrix.scale()[0]
        return DynamicNumbers(self.numbers.bits, scales)


class ProductMaker:
    """Makes the products of a plan. Call it with a dense layer's path and the layer; it gives a product or `None`."""

    def __init__(self, plan: Mapping[str, Numbers]):
        self.plan = plan
        self.inputs: dict[str, Attached] = {}  # shared by layers that read one tensor, which a file rounds once

    def __call__(self, name: str, layer: keras.layers.Dense) -> StaticProduct | DynamicProduct | None:
        numbers = self.plan.get(name)
        if isinstance(numbers, StaticNumbers):
            product = StaticProduct(layer, numbers, self.inputs.get(_source(name)))
            self.inputs[_source(name)] = product.input
            return product
        return None if numbers is None else DynamicProduct(layer, numbers)


def float_product(inputs: Any, kernel: Any, bias: Any) -> Any:
    """The product of a plain dense layer."""
    outputs = ops.matmul(inputs, kernel)
    return outputs if bias is None else outputs + bias


class _Observed:
    """The float product, with statistics of its inputs and outputs."""

    def __init__(self, name: str):
        self.source, self.is_vector = _source(name), False
        self.statistics: LayerStatistics | None = None

    def __call__(self, inputs: Any, kernel: Any, bias: Any) -> Any:
        outputs = float_product(inputs, kernel, bias)
        self.is_vector = len(inputs.shape) < 3
        before, after = (ops.convert_to_numpy(x).reshape(-1, x.shape[-1]) for x in (inputs, outputs))
        if self.statistics is None:
            self.statistics = new_statistics(before.shape[1], after.shape[1], self.source)
        self.statistics.add(before, after, before.T.astype(np.float64) @ before)
        return outputs


def _ends(scale: tuple[float, int]) -> tuple[float, float]:
    """The smallest and the largest value of an int8 range."""
    step, zero_point = scale
    return (LOWEST - zero_point) * step, (HIGHEST - zero_point) * step


def _factors(factors: np.ndarray | None, width: int) -> np.ndarray:
    return np.ones(width, "float32") if factors is None else np.asarray(factors, "float32")


def _source(name: str) -> str:
    """The input of a dense layer, as a name: queries, keys and values read the same."""
    parent, _, last = name.rpartition("/")
    return parent if last in ("query", "key", "value") else name


# === Layers ===


@keras.saving.register_keras_serializable("keras_bert")
class QuantizedDense(keras.layers.Dense):
    """A dense layer whose product is a function of inputs, kernel and bias."""

    product: Any = None

    def call(self, inputs: Any, training: Any = None) -> Any:
        given = [None if part is None else ops.cast(part, "float32") for part in (inputs, self.kernel, self.bias)]
        outputs = ops.cast(self.product(*given), self.compute_dtype)
        return outputs if self.activation is None else self.activation(outputs)


@keras.saving.register_keras_serializable("keras_bert")
class QuantizedTable(keras.layers.ReversibleEmbedding):
    """A token table whose vectors are rounded as rows of int8."""

    def call(self, inputs: Any, reverse: bool = False) -> Any:
        outputs = super().call(inputs, reverse=reverse)
        return outputs if reverse else of_each_row()(outputs)


def exchange(model: keras.Model, make: Callable[[str, keras.layers.Dense], Any]) -> dict[str, Any]:
    """Give the dense layers of a model other products, in place. Layers that have one already keep it.

    Args:
        model: A built model.
        make: Function of a layer's path and the layer; gives its product, or `None` to leave the layer as it is.

    Returns:
        The products, by path.
    """
    products = {}
    for name, layer in dense_layers(model).items():
        if isinstance(layer, QuantizedDense) or (product := make(name, layer)) is None:
            continue
        layer.__class__ = QuantizedDense  # like Keras's own quantize(), which changes built layers in place
        layer.product = products[name] = product
    return products


def quantize_layers(
    model: keras.Model, plan: Mapping[str, Numbers], *, table_size: int = 0, frozen_table: bool = False
) -> keras.Model:
    """Replace the layers that a plan names, and the token table; give the same model.

    Args:
        model: A built model.
        plan: Numbers by the path of a dense layer; layers that it does not name stay float.
        table_size: The number of values of the whole token table; a model in training may have only a part. A file
            keeps small tables as floats.
        frozen_table: Whether the table is rounded already and stays fixed.
    """
    exchange(model, ProductMaker(plan))
    for layer in model.layers:
        if type(layer) is keras.layers.ReversibleEmbedding and table_size >= SMALLEST_TABLE:
            if frozen_table:
                layer.trainable = False
            else:
                layer.__class__ = QuantizedTable
    return model


def learned_numbers(model: keras.Model) -> dict[str, Numbers]:
    """The current numbers of a model in training, by the path of a layer."""
    layers = dense_layers(model).items()
    return {name: layer.product.learned() for name, layer in layers if isinstance(layer, QuantizedDense)}


def rounded_kernels(model: keras.Model) -> dict[str, np.ndarray]:
    """The kernels of a model in training as its file has them, by the path of a layer."""
    return {
        name: ops.convert_to_numpy(layer.product.rounded(layer.kernel))
        for name, layer in dense_layers(model).items()
        if isinstance(layer, QuantizedDense)
    }


def observe(model: keras.Model, rows: Iterable[Any]) -> tuple[dict[str, LayerStatistics], set[str]]:
    """Collect statistics of the dense layers of a float model, and find those that see a single vector per text.

    Args:
        model: A model to use up: its layers are replaced.
        rows: Batches or rows of model inputs; padding is left out.
    """
    products = exchange(model, lambda name, layer: _Observed(name))
    for row in rows_of(rows):
        model(row, training=False)
    vectors = {name for name, product in products.items() if product.is_vector}
    return {name: product.statistics for name, product in products.items()}, vectors
