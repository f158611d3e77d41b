"""Checks the weights in a checkpoint's files, and reads them into a model.

Names, shapes and types are checked before a model is built; one error lists all that is missing, left over or of
another shape. Weights are then read one at a time, so that memory holds one model and one weight.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from keras_bert.checkpoint.configs import Settings
from keras_bert.checkpoint.files import CheckpointError, name_list
from keras_bert.checkpoint.names import ENCODER_PARTS, HEAD_PARTS, Weight, from_stored, stored_shape, weights

ToStore = tuple[tuple[int, ...], Callable[[], np.ndarray]]  # a weight's shape, and a function that reads it

_FLOATS = ("F64", "F32", "F16", "BF16", "float64", "float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Stored:
    """One weight in a file: its shape, the format's name of its data type, and a function that reads it."""

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], np.ndarray]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's settings and its weights, by the names that its format has in the table."""

    directory: Path
    format: str
    settings: Settings
    stored: Mapping[str, Stored]
    tied: Mapping[str, str]  # names of weights that must equal another one

    def name(self, weight: Weight) -> str:
        """Return the name of a weight in this checkpoint's format."""
        return getattr(weight, self.format)

    def __post_init__(self) -> None:
        # Before any loop over the layers: a wrong number in a config could make it very long.
        if self.settings.config.num_layers > len(self.stored):
            raise CheckpointError(
                f"The config in {self.directory} says {self.settings.config.num_layers} layers, but its files "
                f"hold {len(self.stored)} weights in all. Check that config and weights belong together."
            )

    def has(self, part: str) -> bool:
        """Return whether the checkpoint has any weight of a part."""
        return any(self.name(row) in self.stored for row in weights(self.settings.config, [part]))


def check_weights(
    checkpoint: Checkpoint, rows: Iterable[Weight], classes: Mapping[str, int], *, ignore_extra: bool = False
) -> None:
    """Compare names and shapes in the files with those of the rows; one error lists all differences."""
    config, format = checkpoint.settings.config, checkpoint.format
    rows = list(rows)
    complaints = []
    missing = [checkpoint.name(row) for row in rows if checkpoint.name(row) not in checkpoint.stored]
    if missing:
        complaints.append(f"missing weights: {name_list(missing)}")
    extra = [] if ignore_extra else _extra(checkpoint)
    if extra:
        complaints.append(
            f"weights that do not belong to a BERT with this config: {name_list(extra)} (ignore_extra=True skips them)"
        )
    for row in rows:
        name, expected = checkpoint.name(row), stored_shape(row, format, config, classes)
        found = checkpoint.stored.get(name)
        if found is not None and found.shape != expected:
            complaints.append(f"{name} has shape {list(found.shape)}, expected {list(expected)}")
        if found is not None and found.dtype not in _FLOATS:
            complaints.append(f"{name} is stored as {found.dtype}, expected floats (dequantize a quantized model)")
    if complaints:
        raise CheckpointError(
            f"The weights in {checkpoint.directory} do not fit its config: {'; '.join(complaints[:8])}. "
            "Check that config and weights belong together and that no file is cut off."
        )


def _extra(checkpoint: Checkpoint) -> list[str]:
    parts = {*ENCODER_PARTS, *(part for parts in HEAD_PARTS.values() for part in parts)}
    config = checkpoint.settings.config
    possible = [row for part in parts for row in weights(config, [part])] + weights(config, parts)
    known = {checkpoint.name(row) for row in possible} | set(checkpoint.tied)
    return sorted(set(checkpoint.stored) - known)


def assign_weights(model: keras.Model, checkpoint: Checkpoint, rows: Iterable[Weight]) -> None:
    """Read each weight and assign it to a newly built model."""
    rows = list(rows)
    for row in rows:
        array = _read(checkpoint, checkpoint.name(row))
        find_variable(model, row).assign(from_stored(array, row, checkpoint.format))
    if any(row.part == "mlm_bias" for row in rows):
        _check_tied(checkpoint)


def find_variable(model: keras.Model, weight: Weight) -> keras.Variable:
    """Return the variable of a model that a row of the table names."""
    layer, *attributes = weight.ours.split(".")
    found = model.get_layer(layer)
    for attribute in attributes:
        found = getattr(found, attribute)
    return found


def _read(checkpoint: Checkpoint, name: str) -> np.ndarray:
    array = np.asarray(checkpoint.stored[name].read(), np.float32)
    if not np.isfinite(array).all():
        count = int(array.size - np.isfinite(array).sum())
        raise CheckpointError(
            f"{name} in {checkpoint.directory} has {count} of {array.size} values that are not finite; the "
            "training diverged or the file is damaged: use an earlier checkpoint."
        )
    return array


def _check_tied(checkpoint: Checkpoint) -> None:
    for name, twin in checkpoint.tied.items():
        if name in checkpoint.stored:
            first, second = checkpoint.stored[name].read(), checkpoint.stored[twin].read()
            if not np.array_equal(first, second):
                raise CheckpointError(
                    f"{name} in {checkpoint.directory} differs from {twin}, but BERT's MLM head shares that "
                    "weight. This checkpoint was trained untied, so its MLM head cannot be read; "
                    "load_encoder reads the rest."
                )
