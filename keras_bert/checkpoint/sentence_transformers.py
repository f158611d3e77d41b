"""How a model directory says that it embeds sentences: the files of sentence-transformers, in and out.

Takes a directory, gives where its encoder is, the pooling, whether vectors are normalized and the most tokens; and
writes the same, so that what is fine-tuned here opens there. A room of its own because these files are another
library's format: what they ask for and this library has not is an error, never another vector.
"""

import json
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from keras_bert.checkpoint.files import CheckpointError, read_json
from keras_bert.system.atomic_files import write_whole

MODULES = "modules.json"
_POOLING, _TRANSFORMER = "1_Pooling", "sentence_bert_config.json"
FILES = (MODULES, f"{_POOLING}/config.json", _TRANSFORMER)
_MODES = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
_OTHER_MODES = (
    *("pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens"),
    *("pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"),
)


@dataclass(frozen=True)
class SentenceModules:
    """What the files say; `None` where they say nothing."""

    directory: Path
    pooling: str | None = None
    normalize: bool | None = None
    sequence_length: int | None = None


def read_sentence_modules(directory: Path, *, pooling: str | None = None) -> SentenceModules:
    """The settings of a sentence-transformers directory; of another one, nothing but the directory itself.

    Args:
        directory: The directory.
        pooling: A pooling to take instead of the one that the files ask for.

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
            f"{path} has the modules {', '.join(kinds) or 'of nothing'}; this library computes Transformer, Pooling "
            "and perhaps Normalize. Choose another model, or take its encoder with load_encoder."
        )
    encoder = _inside(directory, modules[0])
    length = None
    if (encoder / _TRANSFORMER).is_file():
        length = read_json(encoder / _TRANSFORMER).get("max_seq_length")
    pooling = pooling or _read_pooling(_inside(directory, modules[1]) / "config.json")
    _warn_of_prompt(directory / "config_sentence_transformers.json")
    return SentenceModules(encoder, pooling, "Normalize" in kinds, length if isinstance(length, int) else None)


def _warn_of_prompt(path):
    said = read_json(path) if path.is_file() else {}
    name, prompts = said.get("default_prompt_name"), said.get("prompts")
    if name and isinstance(prompts, dict) and prompts.get(name):
        warnings.warn(
            f"{path.parent} was trained on texts that begin with {prompts[name]!r}, which sentence-transformers adds "
            "by itself; put it before your texts for the same vectors.",
            stacklevel=4,
        )


def _read_list(path):
    try:
        modules = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path} is no JSON ({error}); fetch it again.") from None
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise CheckpointError(f"{path} holds no list of modules; expected sentence-transformers' own file.")
    return modules


def _inside(directory, module):
    """The place of a module, which must lie in the directory: the file may come from anybody."""
    place = (directory / str(module.get("path", ""))).resolve()
    if not place.is_relative_to(directory.resolve()):
        raise CheckpointError(f"{directory / MODULES} names {module.get('path')!r}, which is outside of the directory.")
    return place


def _read_pooling(path):
    values = read_json(path)
    named = values.get("pooling_mode")  # of newer versions, which may name several, and go before the older keys
    chosen = [named] if isinstance(named, str) else list(map(str, named or []))
    if not chosen:
        chosen = [name for name, key in _MODES.items() if values.get(key)]
        chosen += [key.removeprefix("pooling_mode_") for key in _OTHER_MODES if values.get(key)]
    if len(chosen) != 1 or chosen[0] not in _MODES:
        raise CheckpointError(
            f"{path} asks for the pooling {', '.join(chosen) or 'of nothing'}; this library has one of "
            f"{', '.join(_MODES)}. Pass pooling= to take another on purpose."
        )
    return chosen[0]


def write_sentence_modules(
    directory: str | os.PathLike, *, pooling: str, normalize: bool, sequence_length: int, width: int
) -> None:
    """Say in sentence-transformers' files what a saved embedder does. Its library has no `"pooler"`: then in none."""
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


def _write(path, value):
    write_whole(path, json.dumps(value, indent=2) + "\n")
