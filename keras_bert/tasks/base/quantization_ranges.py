"""What quantization-aware training learned beside the weights ⇄ a file in the task's directory.

Takes and gives `LearnedRanges`: plain arrays by name, for one recipe of the export. A room of its own because a task
keeps them with its model and knows nothing of what they mean: that is the export's.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from keras_bert.system.atomic_files import write_whole

FILE = "quantization.safetensors"


@dataclass(frozen=True)
class LearnedRanges:
    """The scales that a model was trained with.

    Args:
        recipe: The name of the recipe whose files compute with them.
        exceptions: Matrices that follow another recipe, by name.
        arrays: The scales, zero points and factors, by matrix and kind, e.g. `block_0/output/input_scale`.
        weights: A checksum of the matrices that they were learned with.
    """

    recipe: str
    arrays: Mapping[str, np.ndarray]
    weights: int
    exceptions: Mapping[str, str]


def write_ranges(directory: str | os.PathLike, ranges: LearnedRanges) -> None:
    """Write them into a directory, whole or not at all."""
    path = Path(directory).expanduser() / FILE
    about = {"recipe": ranges.recipe, "weights": str(ranges.weights), "exceptions": json.dumps(dict(ranges.exceptions))}
    write_whole(path, save({name: np.ascontiguousarray(array) for name, array in ranges.arrays.items()}, about))


def read_ranges(directory: str | os.PathLike) -> LearnedRanges | None:
    """What `write_ranges` wrote; `None` where there is nothing.

    Example:
        >>> read_ranges("sentiment-int8").recipe  # doctest: +SKIP
        'static_int8'
    """
    path = Path(directory).expanduser() / FILE
    if not path.is_file():
        return None
    try:
        with safe_open(path, "numpy") as file:
            about = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dictionary
        return LearnedRanges(about["recipe"], arrays, int(about["weights"]), json.loads(about["exceptions"]))
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged ({error}); copy it again, or delete it to go on without what it learned."
        ) from error
