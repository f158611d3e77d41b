"""Google's TF1 checkpoints ⇄ weights: `bert_config.json`, `bert_model.ckpt.*`, with names and no graph.

TensorFlow reads and writes the files; it is imported late, so that the rest of the room works where only JAX
is.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from keras_bert.checkpoint.configs import Settings, read_google, write_google
from keras_bert.checkpoint.files import CheckpointError, name_list, read_json, write_json
from keras_bert.checkpoint.stored_weights import Checkpoint, Stored

CONFIG, WEIGHTS = "bert_config.json", "bert_model.ckpt"

# What training leaves beside the weights: the optimizer's moments and counters.
_TRAINING_STATE = re.compile(r".*/(adam_m|adam_v|Adam|Adam_1|lamb_m|lamb_v)|global_step|beta[12]_power")

# === Reading ===


def open_google(directory: Path) -> Checkpoint:
    """The checkpoint in a directory as Google publishes BERT."""
    import tensorflow as tf

    settings = read_google(read_json(directory / CONFIG), directory / CONFIG)
    prefix = str(_find_prefix(directory))
    with _readable(prefix):
        reader = tf.train.load_checkpoint(prefix)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()

    def reading(name):
        def read():
            with _readable(prefix):
                return reader.get_tensor(name)

        return read

    stored = {
        name: Stored(tuple(shape), dtypes[name].name, reading(name))
        for name, shape in shapes.items()
        if not _TRAINING_STATE.fullmatch(name)
    }
    return Checkpoint(directory, "google", settings, stored, {})


def _find_prefix(directory):
    if (directory / f"{WEIGHTS}.index").is_file():
        return directory / WEIGHTS
    others = sorted(path.name for path in directory.glob("*.ckpt*.index"))
    if len(others) != 1:
        found = name_list(others) if others else "none"
        raise CheckpointError(
            f"{directory} has no {WEIGHTS}.index, and of other *.ckpt*.index files: {found}. Expected one "
            "checkpoint; copy the one you want, with its .data file and bert_config.json, to a directory of "
            "its own."
        )
    return directory / others[0].removesuffix(".index")


class _readable:
    """Turns TensorFlow's errors about a checkpoint into one that names the file and says what to do."""

    def __init__(self, prefix):
        self.prefix = prefix

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        import tensorflow as tf

        if isinstance(error, (tf.errors.OpError, IndexError, RuntimeError, ValueError)):
            raise CheckpointError(
                f"{self.prefix}.* is not a whole TensorFlow checkpoint ({error}); a file is missing, cut off "
                "or damaged: fetch or write it again."
            ) from error


# === Writing ===


def write_weights(directory: Path, settings: Settings, arrays: Mapping[str, tuple]) -> None:
    """Write `bert_config.json` and `bert_model.ckpt.*`; `arrays` gives each shape and a way to read it."""
    import tensorflow as tf

    write_json(directory / CONFIG, write_google(settings))
    tf.raw_ops.SaveV2(
        prefix=str(directory / WEIGHTS),
        tensor_names=list(arrays),
        shape_and_slices=[""] * len(arrays),
        tensors=[tf.constant(read(), tf.float32) for _, read in arrays.values()],
    )
