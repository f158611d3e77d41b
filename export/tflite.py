"""Keras model → a `.tflite` file that needs neither Keras nor this library.

Takes a functional model with the three inputs of the encoder, gives a file with one signature per sequence length; the
signatures share their weights. Built-in ops alone: a graph that would need a Flex or custom op does not convert.
"""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import keras
import tensorflow as tf

from keras_bert.encoder import INPUT_NAMES

RECIPES = ("float32", "float16", "dynamic_int8")


@dataclass(frozen=True)
class Artifact:
    """A file that was written."""

    path: Path
    recipe: str
    lengths: tuple[int, ...]
    num_bytes: int

    def __str__(self) -> str:
        lengths = "/".join(map(str, self.lengths))
        return f"{self.path}  {self.recipe}  lengths {lengths}  {self.num_bytes / 1e6:.1f} MB"


def convert(
    model: keras.Model,
    path: str | Path,
    *,
    recipe: str = "dynamic_int8",
    lengths: int | Sequence[int] = 128,
) -> Artifact:
    """Write a model as TFLite, batch 1, with a signature `length_T` for each sequence length T.

    Args:
        model: A functional model that takes `token_ids, segment_ids, padding_mask` and gives outputs by name.
        path: The `.tflite` file to write; it is replaced in one step.
        recipe: `"float32"`, `"float16"` (weights), or `"dynamic_int8"` (int8 weights, activations on the fly).
        lengths: One or several sequence lengths; a text pays for the shortest one that it fits.

    Example:
        >>> artifact = convert(model, "model.tflite", lengths=(32, 128))  # doctest: +SKIP
        >>> print(artifact)  # doctest: +SKIP
        model.tflite  dynamic_int8  lengths 32/128  23.4 MB
    """
    if recipe not in RECIPES:
        raise ValueError(f"recipe={recipe!r} is unknown; choose one of {', '.join(RECIPES)}.")
    lengths = (lengths,) if isinstance(lengths, int) else tuple(sorted(set(lengths)))
    if not lengths or min(lengths) < 3:
        raise ValueError(f"lengths={lengths!r}: expected one or more sequence lengths of at least 3 tokens.")
    inputs = [tensor.name for tensor in model.inputs]
    if set(inputs) != set(INPUT_NAMES) or not isinstance(model.output, dict):
        raise ValueError(
            f"The model takes {inputs}; expected {', '.join(INPUT_NAMES)} and a dictionary of outputs, "
            "as bert_encoder and bert_model make them."
        )
    with tempfile.TemporaryDirectory() as directory:
        keys = _save_signatures(model, directory, lengths)
        content = _convert_saved_model(directory, keys, recipe)
    return Artifact(_write_atomically(Path(path), content), recipe, lengths, len(content))


def _save_signatures(model, directory, lengths):
    """A SavedModel with one function per length: the converter turns variables into constants only from there."""
    archive = keras.export.ExportArchive()
    archive.track(model)
    keys = []
    for length in lengths:
        spec = {name: tf.TensorSpec((1, length), tf.int32, name=name) for name in INPUT_NAMES}
        keys.append(f"length_{length}")
        archive.add_endpoint(keys[-1], lambda inputs: model(inputs, training=False), input_signature=[spec])
    archive.write_out(directory, verbose=False)
    return keys


def _convert_saved_model(directory, keys, recipe):
    converter = tf.lite.TFLiteConverter.from_saved_model(directory, signature_keys=keys)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if recipe != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if recipe == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()


def _write_atomically(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    with open(partial, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    return path
