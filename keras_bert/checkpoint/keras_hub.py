"""Reads and writes the encoder of keras-hub presets: `config.json` and `model.weights.h5`.

It works without keras-hub: nothing in a preset is deserialized, so no code in it can run, and links to other files are
refused.
"""

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path

import h5py
import keras
import numpy as np

from keras_bert.checkpoint.configs import Settings, read_keras_hub, write_keras_hub
from keras_bert.checkpoint.files import CheckpointError, read_json, write_json
from keras_bert.checkpoint.stored_weights import Checkpoint, Stored, ToStore

CONFIG, METADATA, WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
SHARDS = "model.weights.json"

# === Reading ===


def open_keras_hub(directory: Path) -> Checkpoint:
    """Open the checkpoint in a keras-hub preset."""
    settings = read_keras_hub(read_json(directory / CONFIG), directory / CONFIG)
    path = directory / WEIGHTS
    if not path.is_file():
        hint = " (it is in shards, which this library does not read)" if (directory / SHARDS).exists() else ""
        raise CheckpointError(f"{path} is missing{hint}; expected the weights of the preset in it.")
    stored: dict[str, Stored] = {}
    try:
        with h5py.File(path, "r") as file:
            _collect(file, path, stored)
    except (OSError, RuntimeError, KeyError) as error:
        raise CheckpointError(
            f"{path} is not a complete HDF5 file ({error}); it is cut off or damaged: download or write it again."
        ) from error
    return Checkpoint(directory, "keras_hub", settings, stored, {})


def _collect(group: h5py.Group, path: Path, stored: dict[str, Stored]) -> None:
    for key in group:
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            raise CheckpointError(f"{path}: {group.name}/{key} is a link to elsewhere; expected only weights.")
        item = group[key]
        if isinstance(item, h5py.Group):
            _collect(item, path, stored)
        elif not isinstance(item, h5py.Dataset):
            raise CheckpointError(f"{path}: {group.name}/{key} is a type without values; expected only weights.")
        elif item.external or item.is_virtual:
            raise CheckpointError(f"{path}: {item.name} has its values in another file; expected them in this one.")
        elif item.dtype.kind == "f":
            name = item.name.lstrip("/")
            stored[name] = Stored(item.shape, str(item.dtype), _reading(path, name))


def _reading(path: Path, name: str) -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
        try:
            with h5py.File(path, "r") as file:
                return file[name][()]
        except OSError as error:
            raise CheckpointError(
                f"{path}: {name} cannot be read ({error}); the file is damaged: download or write it again."
            ) from error

    return read


# === Writing ===


def write_weights(directory: Path, settings: Settings, arrays: Mapping[str, ToStore]) -> None:
    """Write the config, metadata and `model.weights.h5`; `arrays` has each shape and a function that reads it."""
    write_json(directory / CONFIG, write_keras_hub(settings))
    write_json(
        directory / METADATA,
        {
            "keras_version": keras.__version__,
            "keras_hub_version": "0.32.0",  # the version whose layout of model.weights.h5 the table describes
            "parameter_count": sum(int(np.prod(shape)) for shape, _ in arrays.values()),
            "date_saved": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d@%H:%M:%S"),
        },
    )
    with h5py.File(directory / WEIGHTS, "w") as file:
        for name, (_, read) in arrays.items():
            file.create_dataset(name, data=np.asarray(read(), "float32"))
