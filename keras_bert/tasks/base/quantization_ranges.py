"""Save and read the ranges that quantization-aware training learned beside the weights.

`LearnedRanges` has plain arrays by name, for one recipe of `export`, which defines what they mean.
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
        recipe: The name of the recipe that they are for.
        exceptions: The recipes of matrices that follow another one, by matrix.
        arrays: The scales, zero points and factors, by matrix and kind, e.g. `block_0/output/input_scale`.
        weights: A checksum of the weight matrices that they were learned with.
    """

    recipe: str
    arrays: Mapping[str, np.ndarray]
    weights: int
    exceptions: Mapping[str, str]


def write_ranges(directory: str | os.PathLike[str], ranges: LearnedRanges) -> None:
    """Write learned ranges into a directory. The file is written completely or not at all."""
    path = Path(directory).expanduser() / FILE
    about = {"recipe": ranges.recipe, "weights": str(ranges.weights), "exceptions": json.dumps(dict(ranges.exceptions))}
    write_whole(path, save({name: np.ascontiguousarray(array) for name, array in ranges.arrays.items()}, about))


def read_ranges(directory: str | os.PathLike[str]) -> LearnedRanges | None:
    """Read what `write_ranges` wrote; `None` if there is nothing.

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
        exceptions = json.loads(about["exceptions"])
        if not isinstance(exceptions, dict) or not all(isinstance(recipe, str) for recipe in exceptions.values()):
            raise ValueError(f"its exceptions are {str(exceptions)[:80]}; expected a recipe by name")
        return LearnedRanges(about["recipe"], arrays, int(about["weights"]), exceptions)
    except (SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is damaged ({error}); copy it again, or delete it to continue without the learned ranges."
        ) from error
