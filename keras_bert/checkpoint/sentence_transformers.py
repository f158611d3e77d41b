"""Reads and writes the files of sentence-transformers, which describe how a model embeds sentences.

They say where the encoder is, how to pool, whether to normalize, the largest number of tokens, and the prompts that
stand before texts. A model fine-tuned here opens in sentence-transformers. A setting that this library does not support
is an error.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_bert.checkpoint.files import CheckpointError, read_json
from keras_bert.system.atomic_files import write_whole

MODULES = "modules.json"
_POOLING, _TRANSFORMER, _PROMPTS = "1_Pooling", "sentence_bert_config.json", "config_sentence_transformers.json"
FILES = (MODULES, f"{_POOLING}/config.json", _TRANSFORMER, _PROMPTS)
_MODES = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
_OTHER_MODES = (
    *("pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens"),
    *("pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"),
)


@dataclass(frozen=True)
class SentenceModules:
    """The settings in the files; `None` for a setting that they do not have."""

    directory: Path
    pooling: str | None = None
    normalize: bool | None = None
    sequence_length: int | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None


def read_sentence_modules(directory: Path, *, pooling: str | None = None) -> SentenceModules:
    """Return the settings of a sentence-transformers directory; for another directory, only the directory itself.

    Args:
        directory: The directory.
        pooling: A pooling to use instead of the one in the files.

    Example:
        ```python
        read_sentence_modules(Path("all-MiniLM-L6-v2")).pooling  # "mean"
        ```
    """
    path = directory / MODULES
    if not path.is_file():
        return SentenceModules(directory, pooling)
    modules = _read_list(path)
    kinds = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise CheckpointError(
            f"{path} has the modules {', '.join(kinds) or 'none'}; expected Transformer, Pooling and perhaps "
            "Normalize. Choose another model, or load its encoder with load_encoder."
        )
    encoder = _inside(directory, modules[0])
    length = None
    if (encoder / _TRANSFORMER).is_file():
        length = read_json(encoder / _TRANSFORMER).get("max_seq_length")
    place = _inside(directory, modules[1]) / "config.json"
    pooling = pooling or _read_pooling(place)
    prompts, default = _read_prompts(directory / _PROMPTS)
    if any(prompts.values()) and place.is_file() and read_json(place).get("include_prompt") is False:
        raise CheckpointError(
            f"{place}: include_prompt is false, so that the mean leaves out the prompt's tokens; expected true. Choose "
            "another model, or load its encoder with load_encoder."
        )
    length = length if type(length) is int and length > 0 else None
    return SentenceModules(encoder, pooling, "Normalize" in kinds, length, prompts, default)


def _read_prompts(path: Path) -> tuple[dict[str, str], str | None]:
    said = read_json(path) if path.is_file() else {}
    prompts, default = said.get("prompts") or {}, said.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise CheckpointError(f"{path}: prompts is {str(prompts)[:60]}; expected an object of names and texts.")
    if default is not None and not (isinstance(default, str) and default in prompts):
        raise CheckpointError(
            f"{path}: default_prompt_name is {default!r}, and prompts has {', '.join(map(repr, prompts)) or 'none'}; "
            "expected one of these names, or null."
        )
    return prompts, default


def _read_list(path: Path) -> list[dict[str, Any]]:
    try:
        modules = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON ({error}); download it again.") from None
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise CheckpointError(f"{path} holds no list of modules; expected a file of sentence-transformers.")
    return modules


def _inside(directory: Path, module: dict[str, Any]) -> Path:
    """Return the path of a module, which must be in the directory: the file may not be trusted."""
    place = (directory / str(module.get("path", ""))).resolve()
    if not place.is_relative_to(directory.resolve()):
        raise CheckpointError(
            f"{directory / MODULES} names {module.get('path')!r}, which is outside of the directory; expected a path "
            "in it."
        )
    return place


def _read_pooling(path: Path) -> str:
    values = read_json(path)
    named = values.get("pooling_mode")  # newer versions; may name several, and overrides the older keys
    chosen = list(map(str, named)) if isinstance(named, list) else [str(named)] if named else []
    if not chosen:
        chosen = [name for name, key in _MODES.items() if values.get(key)]
        chosen += [key.removeprefix("pooling_mode_") for key in _OTHER_MODES if values.get(key)]
    if len(chosen) != 1 or chosen[0] not in _MODES:
        raise CheckpointError(
            f"{path} has the pooling {', '.join(chosen) or 'none'}; expected one of "
            f"{', '.join(_MODES)}. Pass pooling= to use another one."
        )
    return chosen[0]


def write_sentence_modules(
    directory: str | os.PathLike[str],
    *,
    pooling: str,
    normalize: bool,
    sequence_length: int,
    width: int,
    prompts: Mapping[str, str] | None = None,
    default_prompt_name: str | None = None,
) -> None:
    """Write sentence-transformers' files for a saved embedder; none for the pooling `"pooler"`, which it lacks."""
    directory = Path(directory)
    if pooling not in _MODES:
        return
    kinds = {"Transformer": "", "Pooling": _POOLING, **({"Normalize": "2_Normalize"} if normalize else {})}
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (kind, path) in enumerate(kinds.items())
    ]
    modes = {key: name == pooling for name, key in _MODES.items()} | dict.fromkeys(_OTHER_MODES[:2], False)
    _write(directory / _POOLING / "config.json", {"word_embedding_dimension": width, **modes})
    _write(directory / _TRANSFORMER, {"max_seq_length": sequence_length, "do_lower_case": False})
    _write(directory / MODULES, modules)
    if prompts:
        values = {"prompts": dict(prompts), "default_prompt_name": default_prompt_name, "similarity_fn_name": "cosine"}
        _write(directory / _PROMPTS, values)


def _write(path: Path, value: Any) -> None:
    write_whole(path, json.dumps(value, indent=2) + "\n")
