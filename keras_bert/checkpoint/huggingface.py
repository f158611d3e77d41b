"""Reads and writes Hugging Face directories: `config.json` and `model.safetensors`, in one file or in shards.

This is also the library's own format, which can hold every model. A safetensors file is a JSON header and bytes, so
reading it runs no code. Reading a pickle (`pytorch_model.bin`) would, so pickles are refused.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checkpoint.configs import Settings, read_huggingface, write_huggingface
from keras_bert.checkpoint.families import XLM_ROBERTA, Family, find_family
from keras_bert.checkpoint.files import CheckpointError, name_list, read_json, write_json
from keras_bert.checkpoint.stored_weights import Checkpoint, Stored, ToStore

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}

# Buffers of older versions with positions and segments; they are not trained.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
# XLM-R has the dense layer before its classifier under this name, and its pooler, if it has one, under the other.
_ROBERTA_CLASSIFIER, _ROBERTA_POOLER = "classifier.dense", "roberta.pooler.dense"

# === Reading ===


def open_huggingface(directory: Path) -> Checkpoint:
    """Open the checkpoint in a Hugging Face directory."""
    settings = read_huggingface(read_json(directory / CONFIG), directory / CONFIG)
    family = find_family(settings.config)
    stored: dict[str, Stored] = {}
    for name, weight in _open_files(directory):
        name = _canonical(name, family)
        if name.removeprefix(family.prefix) in _BUFFERS:
            continue
        if name in stored:
            raise CheckpointError(
                f"{directory} holds {name} twice, with and without a prefix or under an old name; expected it once. "
                "Save the model again."
            )
        stored[name] = weight
    for name, twin in family.tied.items():
        if name in stored and twin not in stored:
            stored[twin] = stored.pop(name)
    if family is XLM_ROBERTA:  # the layer that the classifier was trained on, if the file has both
        for ending in (".weight", ".bias"):
            if _ROBERTA_CLASSIFIER + ending in stored:
                stored[_ROBERTA_POOLER + ending] = stored.pop(_ROBERTA_CLASSIFIER + ending)
    return Checkpoint(directory, "huggingface", settings, stored, family.tied)


def _canonical(name: str, family: Family) -> str:
    """Return the full name of today: with the family's prefix, and LayerNorm's weight and bias for gamma and beta."""
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
    is_bare = re.match(r"(embeddings|embeddings_project|encoder|transformer|pooler)\.", name)
    return family.prefix + name if is_bare else name


def _open_files(directory: Path) -> Iterator[tuple[str, Stored]]:
    if (directory / WEIGHTS).is_file():
        return iter(open_safetensors(directory / WEIGHTS).items())
    if (directory / INDEX).is_file():
        return _open_shards(directory)
    pickles = [name for name in _PICKLES if (directory / name).exists()]
    if pickles:
        raise CheckpointError(
            f"{directory} has its weights only in {pickles[0]}, a pickle. Opening one runs the code in it, so this "
            "library does not. If you trust it, convert it: "
            "transformers.AutoModel.from_pretrained(directory).save_pretrained(directory) writes "
            "model.safetensors."
        )
    raise CheckpointError(f"{directory} has neither {WEIGHTS} nor {INDEX}; expected the weights in one of them.")


def _open_shards(directory: Path) -> Iterator[tuple[str, Stored]]:
    path = directory / INDEX
    places = read_json(path).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise CheckpointError(f"{path}: no weight_map; expected an object of weight names to file names.")
    shards = {}
    for file in sorted(set(places.values())):
        if Path(file).name != file or "\\" in file or not file.endswith(".safetensors"):
            raise CheckpointError(
                f"{path} names the file {file!r}; expected a .safetensors file beside it, without a path."
            )
        if not (directory / file).is_file():
            raise CheckpointError(f"{path} names {file}, which is missing; download that shard, too.")
        shards[file] = open_safetensors(directory / file)
    lost = [name for name, file in places.items() if name not in shards[file]]
    if lost:
        raise CheckpointError(
            f"{path} names weights that are not in their shards: {name_list(lost)}; download the model again."
        )
    for name, file in places.items():
        yield name, shards[file][name]


def open_safetensors(path: Path) -> dict[str, Stored]:
    """Return the weights in one safetensors file, without reading them yet."""
    from safetensors import SafetensorError, safe_open

    try:
        # The library checks the header, the offsets, and that the bytes fill the file to its end.
        with safe_open(path, framework="numpy"):
            pass
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is not a complete safetensors file ({error}); it is cut off or damaged: download or write it "
            "again."
        ) from error
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {name: _stored(path, entry, 8 + length) for name, entry in header.items()}


def _stored(path: Path, entry: dict[str, Any], base: int) -> Stored:
    shape, dtype = tuple(entry["shape"]), entry["dtype"]

    def read() -> np.ndarray:
        # Not through safetensors, which has no bfloat16 for NumPy. A bfloat16 is the upper half of a float32.
        raw = np.memmap(path, _DTYPES[dtype], "r", base + entry["data_offsets"][0], shape)
        if dtype == "BF16":
            return (raw.astype("<u4") << 16).view("<f4")
        return raw

    return Stored(shape, dtype, read)


# === Writing ===


def write_weights(
    directory: Path, settings: Settings, arrays: Mapping[str, ToStore], *, dtype: str = "float32"
) -> None:
    """Write `config.json` and `model.safetensors`; `arrays` has each shape and a function that reads it."""
    # As in transformers: the encoder is saved without a prefix, models with a head with the family's.
    family, heads = find_family(settings.config), settings.heads or ()
    if family is XLM_ROBERTA and "classification" in heads:
        arrays = {name.replace(_ROBERTA_POOLER, _ROBERTA_CLASSIFIER): value for name, value in arrays.items()}
    named = {(name if heads else name.removeprefix(family.prefix)): value for name, value in arrays.items()}
    write_safetensors(directory / WEIGHTS, named, dtype=dtype)
    write_json(directory / CONFIG, write_huggingface(settings))


def write_safetensors(path: Path, arrays: Mapping[str, ToStore], *, dtype: str = "float32") -> None:
    """Write weights one at a time as `float32` or `float16`: a header with their offsets, then their bytes."""
    code, stored = ("F16", np.dtype("<f2")) if dtype == "float16" else ("F32", np.dtype("<f4"))
    header: dict[str, dict[str, Any]] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (shape, _) in arrays.items():
        begin, end = end, end + stored.itemsize * math.prod(shape)
        header[name] = {"dtype": code, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the format needs aligned data
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, (_, read) in arrays.items():
            array = read()
            if np.abs(array).max(initial=0.0) > np.finfo(stored).max:
                raise CheckpointError(
                    f"{name} has values up to {np.abs(array).max():.3g}, more than {dtype} can hold; save with "
                    "dtype='float32'."
                )
            file.write(np.ascontiguousarray(array, dtype=stored).data)
