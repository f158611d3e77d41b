"""The matrices of a file → the dense layers of the Keras model that they were.

Takes a parsed float file and its model, gives a name for the buffer of each matrix. A room of its own because
converters keep weights and lose names: a matrix is found by its values, and by what is left of its name where two are
alike. The converter also multiplies the queries' matrix by 1 / √head_dim, where that follows it; the factor is told
beside the name.
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
        weights: Those of the layer, `[outputs, inputs]`.
        factor: What the file's are multiplied with.
    """

    name: str
    weights: np.ndarray
    factor: float = 1.0


def dense_layers(model: keras.Model) -> dict[str, keras.layers.Dense]:
    """All dense layers of a model, inside of blocks too, by path.

    Example:
        >>> list(dense_layers(bert_model(config, "classification", num_classes=2)))[-2:]  # doctest: +SKIP
        ['pooler/dense', 'classifier']
    """
    layers = (layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.Dense))
    return {layer.kernel.path.rpartition("/")[0]: layer for layer in layers}


def name_matrices(file: TFLiteFile, model: keras.Model) -> Mapping[int, NamedMatrix]:
    """The matrices of a parsed float file that are dense layers of the model, by buffer."""
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
    few = (slice(None, 4), slice(None, 4))  # most pairs differ there already
    return all(np.allclose(values[part], own[part] * factor, rtol=1e-5, atol=0) for part in (few, (...,)))


def _names_around(editor: GraphEditor, operator: Operator) -> str:
    """The names of a product's tensors, without the numbers that TensorFlow adds to each part."""
    names = []
    for index in (*operator.outputs, operator.inputs[1]):
        name = editor.tensor(int(index)).name
        names.append(name.decode() if isinstance(name, bytes) else str(name))
    return ";".join([*names, *(re.sub(r"_\d+(?=/)", "", name) for name in names)])
