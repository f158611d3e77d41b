"""Reads and writes Google's TF1 checkpoints: `bert_config.json` and `bert_model.ckpt.*`.

TensorFlow reads and writes the files. It is imported late, so that the rest of the package works with JAX alone.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

import numpy as np

from keras_bert.checkpoint.configs import Settings, read_google, write_google
from keras_bert.checkpoint.files import CheckpointError, name_list, read_json, write_json
from keras_bert.checkpoint.stored_weights import Checkpoint, Stored, ToStore

CONFIG, WEIGHTS = "bert_config.json", "bert_model.ckpt"

# Training also stores the optimizer's moments and counters.
_TRAINING_STATE = re.compile(r".*/(adam_m|adam_v|Adam|Adam_1|lamb_m|lamb_v)|global_step|beta[12]_power")

# === Reading ===


def open_google(directory: Path) -> Checkpoint:
    """Open the checkpoint in a directory as Google publishes BERT."""
    import tensorflow as tf

    settings = read_google(read_json(directory / CONFIG), directory / CONFIG)
    prefix = str(_find_prefix(directory))
    with _readable(prefix):
        reader = tf.train.load_checkpoint(prefix)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()

    def reading(name: str) -> Callable[[], np.ndarray]:
        def read() -> np.ndarray:
            with _readable(prefix):
                return reader.get_tensor(name)

        return read

    stored = {
        name: Stored(tuple(shape), dtypes[name].name, reading(name))
        for name, shape in shapes.items()
        if not _TRAINING_STATE.fullmatch(name)
    }
    return Checkpoint(directory, "google", settings, stored, {})


def _find_prefix(directory: Path) -> Path:
    if (directory / f"{WEIGHTS}.index").is_file():
        return directory / WEIGHTS
    others = sorted(path.name for path in directory.glob("*.ckpt*.index"))
    if len(others) != 1:
        found = name_list(others) if others else "none"
        raise CheckpointError(
            f"{directory} has no {WEIGHTS}.index, and of other *.ckpt*.index files: {found}. Expected one "
            "checkpoint; copy the one you want, with its .data file and bert_config.json, to another directory."
        )
    return directory / others[0].removesuffix(".index")


class _readable:
    """Replaces TensorFlow's errors about a checkpoint by one that names the file and says what to do."""

    def __init__(self, prefix: str):
        self.prefix = prefix

    def __enter__(self) -> "_readable":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import tensorflow as tf

        if isinstance(error, (tf.errors.OpError, IndexError, RuntimeError, ValueError)):
            raise CheckpointError(
                f"{self.prefix}.* is not a complete TensorFlow checkpoint ({error}); a file is missing, cut off "
                "or damaged: download or write it again."
            ) from error


# === Writing ===


def write_weights(directory: Path, settings: Settings, arrays: Mapping[str, ToStore]) -> None:
    """Write `bert_config.json` and `bert_model.ckpt.*`; `arrays` has each shape and a function that reads it."""
    import tensorflow as tf

    write_json(directory / CONFIG, write_google(settings))
    tf.raw_ops.SaveV2(
        prefix=str(directory / WEIGHTS),
        tensor_names=list(arrays),
        shape_and_slices=[""] * len(arrays),
        tensors=[tf.constant(read(), tf.float32) for _, read in arrays.values()],
    )
