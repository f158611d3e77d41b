"""Checks that a directory holds the state of the same run before it is resumed.

Stores settings, data, loss and first weights next to the state of a run, large values as digests, and later says what
differs. Without it, resuming a different run would not fail: other labels fit into the same arrays, and the score of
one metric looks like that of another.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.model.encoder import encoder_config
from keras_bert.system.atomic_files import write_whole
from keras_bert.text.tokenized_texts import TokenizedTexts

_START, _BATCHES = "starting weights", "batches"
# The fields of prepared examples with the labels; the other fields say which tokens belong to which words.
_ANSWERS = ("labels", "tags", "intents", "true_tags", "gold")
_DIGEST = re.compile(r"[0-9a-f]{32}")
_PLAIN = (str, int, float, bool, type(None))


def digest(value: Any) -> str:
    """Return a digest of a value, by the bytes of arrays and the items of collections; it is the same in every process.

    Example:
        >>> digest({"a": np.arange(3), "b": None}) == digest({"b": None, "a": np.arange(3)})
        True
    """
    hasher = hashlib.blake2b(digest_size=16)
    _add(hasher, value)
    return hasher.hexdigest()


def example_parts(kind: str, data: Any) -> dict[str, Any]:
    """Return texts, labels and weights of a task's prepared examples, by the names that error messages show.

    Args:
        kind: `"training"` or `"validation"`.
        data: A `PreparedData`, or `None`.
    """
    if data is None:
        return {}
    answers = {name: getattr(data, name) for name in _ANSWERS if hasattr(data, name)}
    texts = (data.tokenized, data.owners, data.texts_per_example)
    return {f"{kind} texts": texts, f"{kind} labels": answers, f"{kind} class weights": data.weights}


def model_parts(model: keras.Model, added_layers: Sequence[str] = ()) -> dict[str, Any]:
    """Return a model's config, outputs and current weights, without layers that are added for training."""
    # The size of the vocabulary depends on the texts if training leaves out unused tokens.
    config = {name: value for name, value in encoder_config(model).to_dict().items() if name != "vocabulary_size"}
    outputs = model.output if isinstance(model.output, Mapping) else dict(enumerate(model.outputs))
    shapes = {str(name): tuple(tensor.shape) for name, tensor in outputs.items()}
    return {"model": (config, shapes), _START: _weights(model, added_layers)}


def batch_part(batches: Any) -> dict[str, Any]:
    """Return the first batch, which depends on how examples are shuffled, batched and augmented."""
    return {_BATCHES: next(iter(batches), None)}


def loss_part(loss: Any) -> Any:
    """Return the kind and the settings of a loss, or of several by name."""
    if isinstance(loss, Mapping):
        return {str(name): loss_part(one) for name, one in loss.items()}
    kind = getattr(loss, "__qualname__", type(loss).__qualname__)
    return (kind, _without_names(loss.get_config())) if hasattr(loss, "get_config") else kind


def note_parts(parts: dict[str, Any]) -> dict[str, Any]:
    """Return strings and numbers as they are, and everything else as digests.

    Example:
        >>> note_parts({"metric": "accuracy"})
        {'metric': 'accuracy'}
    """
    return {name: value if isinstance(value, _PLAIN) else digest(value) for name, value in parts.items()}


def check_same_run(place: Path, settings: dict[str, Any], parts: dict[str, Any], *, goes_on: bool = False) -> None:
    """Store what the run in a directory depends on, or raise an error if the stored run is a different one.

    Args:
        place: The directory of one seed.
        settings: Numbers and strings; the error message shows the old and the new value.
        parts: What else the run depends on, from `note_parts`.
        goes_on: Whether the state has all that the run needs. The model may then already have the run's latest weights
            instead of the first ones, as after Ctrl-C in a notebook.
    """
    now = json.loads(json.dumps({**settings, "depends_on": parts}))
    path, kept = place / "recipe.json", place.parent / "kept.json"
    has_kept = kept.exists() and json.loads(kept.read_text(encoding="utf-8")) == parts.get(_START)
    if not path.exists() and not has_kept:
        write_whole(path, json.dumps(now) + "\n")
        return
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else dict(now)
    if "depends_on" not in before:
        raise ValueError(
            f"{place} holds a run of an older version, which did not store what its data was, so it cannot be compared "
            f"with this one. Delete {place.parent}, or choose another directory."
        )
    old, new = before.pop("depends_on"), now.pop("depends_on")
    changed = _differences(before, now) | _differences(old, new)
    if has_kept and (_START in changed or not path.exists()):
        changed.pop(_START, None)
        if not goes_on:
            changed[_START] = f"{_START} changed (the model has been trained since: load it again)"
    if changed:
        raise ValueError(
            f"{place} holds another run: {'; '.join(_causes(changed))}. Delete {place.parent}, choose another "
            "directory, or use the settings and data that it was started with."
        )


def note_kept(directory: Path, model: keras.Model, added_layers: Sequence[str] = ()) -> None:
    """Store a digest of the weights that a run gave, so that `check_same_run` can recognize them."""
    write_whole(directory / "kept.json", json.dumps(digest(_weights(model, added_layers))) + "\n")


def _weights(model: keras.Model, added_layers: Sequence[str]) -> dict[str, Any]:
    skipped = ("seed_generator", *added_layers)
    return {weight.path: weight for weight in model.weights if not any(name in weight.path for name in skipped)}


def _differences(before: dict[str, Any], now: dict[str, Any]) -> dict[str, str]:
    """Return descriptions of what differs, by name; digests are not shown."""
    words = {}
    for name in [*now, *(name for name in before if name not in now)]:
        old, new = before.get(name), now.get(name)
        if old != new:
            is_shown = not any(isinstance(value, str) and _DIGEST.fullmatch(value) for value in (old, new))
            words[name] = f"{name} was {old!r}, is {new!r}" if is_shown else f"{name} changed"
    return words


def _causes(changed: dict[str, str]) -> list[str]:
    """Leave out what follows from other changes: batches, and first weights, whose table depends on the texts."""
    if any(name.startswith("training ") for name in changed):
        changed = {name: words for name, words in changed.items() if name != _START}
    return [words for name, words in changed.items() if name != _BATCHES or len(changed) == 1]


def _without_names(config: Any) -> Any:
    # Keras numbers the names of unnamed objects, so they differ within a process.
    if isinstance(config, Mapping):
        return {str(name): _without_names(value) for name, value in config.items() if name != "name"}
    return [_without_names(value) for value in config] if isinstance(config, list | tuple) else config


def _add(hasher: "hashlib.blake2b", value: Any) -> None:
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value) if not _is_unsaid(value, field.name)}
    if isinstance(value, keras.Variable):
        value = keras.ops.convert_to_numpy(keras.ops.convert_to_tensor(value))  # no copy: it is only read
    if isinstance(value, Mapping):
        hasher.update(f"{{{len(value)}:".encode())
        for name in sorted(value, key=str):
            hasher.update(f"{name}=".encode())
            _add(hasher, value[name])
    elif isinstance(value, list | tuple):
        hasher.update(f"[{len(value)}:".encode())
        for one in value:
            _add(hasher, one)
    elif isinstance(value, _PLAIN):
        hasher.update(f"{type(value).__name__} {len(repr(value))} {value!r}".encode("utf-8", "surrogatepass"))
    elif hasattr(value, "__array__"):
        array = np.ascontiguousarray(value)
        if array.dtype.hasobject:
            _add(hasher, array.tolist())
            return
        hasher.update(f"{array.dtype.name}{array.shape}".encode())
        hasher.update(array.reshape(-1).view(np.uint8).data)
    else:  # its content is unknown, and its address differs in every process
        hasher.update(type(value).__qualname__.encode())


def _is_unsaid(value: Any, name: str) -> bool:
    """Return whether a field that the first versions did not have has its default: their digests stay valid."""
    return isinstance(value, TokenizedTexts) and name == "separators" and value.separators == 1
