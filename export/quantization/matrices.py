"""Match the matrices of a float file with the dense layers of the Keras model.

Converters keep weights and lose names. A matrix is found by its values, and by what is left of its name if two are
equal. The converter may multiply the matrix of the queries by 1 / √head_dim; the factor is given beside the name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import keras
import numpy as np

from export.file.editor import GraphEditor, editors
from export.file.parsed import Operator, TFLiteFile
from export.quantization.statistics import matrix_of
from keras_bert.model.encoder import encoder_config
from keras_bert.model.weights import to_numpy


@dataclass(frozen=True)
class NamedMatrix:
    """A matrix of a file.

    Args:
        name: The path of its dense layer, e.g. `block_0/attention/query`.
        weights: The weights of the layer, `[outputs, inputs]`.
        factor: The file's weights are the layer's times this.
    """

    name: str
    weights: np.ndarray
    factor: float = 1.0


def dense_layers(model: keras.Model) -> dict[str, keras.layers.Dense]:
    """Find all dense layers of a model, also inside blocks, by path.

    Example:
        >>> list(dense_layers(bert_model(config, "classification", num_classes=2)))[-2:]  # doctest: +SKIP
        ['pooler/dense', 'classifier']
    """
    layers = (layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.Dense))
    return {layer.kernel.path.rpartition("/")[0]: layer for layer in layers}


def name_matrices(file: TFLiteFile, model: keras.Model) -> Mapping[int, NamedMatrix]:
    """Find the matrices of a parsed float file that are dense layers of the model, by buffer."""
    weights = {name: np.ascontiguousarray(to_numpy(layer.kernel).T) for name, layer in dense_layers(model).items()}
    factors = (1.0, encoder_config(model).head_dim ** -0.5)
    named: dict[int, NamedMatrix] = {}
    for editor in editors(file):
        for operator in editor.graph.operators:
            values = matrix_of(editor, operator)
            buffer = None if values is None else editor.tensor(int(operator.inputs[1])).buffer
            if values is None or buffer is None or buffer in named:
                continue
            alike = [
                NamedMatrix(name, own, factor)
                for name, own in weights.items()
                for factor in factors
                if own.shape == values.shape and _are_equal(values, own, factor)
            ]
            if len(alike) > 1:
                alike = [one for one in alike if one.name in _names_around(editor, operator)] or alike
            if alike:
                named[buffer] = alike[0]
    return named


def _are_equal(values: np.ndarray, own: np.ndarray, factor: float) -> bool:
    few = (slice(None, 4), slice(None, 4))  # enough for most pairs
    return all(np.allclose(values[part], own[part] * factor, rtol=1e-5, atol=0) for part in (few, (...,)))


def _names_around(editor: GraphEditor, operator: Operator) -> str:
    """The names of a product's tensors, without the numbers that TensorFlow adds to them."""
    names = []
    for index in (*operator.outputs, operator.inputs[1]):
        name = editor.tensor(int(index)).name
        names.append(name.decode() if isinstance(name, bytes) else str(name))
    return ";".join([*names, *(re.sub(r"_\d+(?=/)", "", name) for name in names)])
