"""Reads and writes the tokenizer and the class names of a model directory, in any of the three formats."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.checkpoint.files import CheckpointError, read_json, write_json
from keras_bert.checkpoint.unigram_files import SENTENCEPIECE, has_unigram, read_unigram, write_unigram
from keras_bert.model.config import BertConfig

if TYPE_CHECKING:
    from keras_bert.text.subword_tokenizer import SubwordTokenizer
    from keras_bert.text.tokenizer import BertTokenizer
    from keras_bert.text.unigram import UnigramTokenizer

VOCABULARY, TOKENIZER_CONFIG, TOKENIZER, LABELS = (
    "vocab.txt",
    "tokenizer_config.json",
    "tokenizer.json",
    "labels.txt",
)
# Other files about a tokenizer, which would contradict a new one.
TOKENIZER_FILES = (VOCABULARY, SENTENCEPIECE, TOKENIZER, "special_tokens_map.json", "added_tokens.json")
KERAS_HUB_VOCABULARY = "assets/tokenizer/vocabulary.txt"
_SPECIAL_TOKENS = {
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
    "pad_token": "[PAD]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
}
# In transformers 4 and 5. Not every name with "Bert": BertJapaneseTokenizer first splits words by a dictionary.
_CLASSES = (
    *("BertTokenizer", "BertTokenizerFast", "BertTokenizerLegacy"),
    *("DistilBertTokenizer", "DistilBertTokenizerFast", "ElectraTokenizer", "ElectraTokenizerFast"),
    *("PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend"),
)
_KINDS = {bool: "true, false or null", str: "a text", dict: "an object", int: "a number"}

# === Reading ===


def read_tokenizer(directory: Path, format: str, config: BertConfig) -> "BertTokenizer | UnigramTokenizer | None":
    """Return the directory's tokenizer, or `None` if it has no vocabulary."""
    if format == "huggingface" and has_unigram(directory):
        tokenizer = read_unigram(directory)
        _check_size(tokenizer.vocabulary_size, directory, config)
        return tokenizer
    readers = {"huggingface": _read_text_files, "google": _read_text_files, "keras_hub": _read_keras_hub}
    vocabulary, options = readers[format](directory)
    if vocabulary is None:
        return None
    _check_size(len(vocabulary), directory, config)
    if options.get("lowercase") is None:
        options["lowercase"] = infers_lowercase(vocabulary)
    # Imported late: the tokenizer needs TensorFlow, and weights can be loaded without it.
    from keras_bert.text.tokenizer import BertTokenizer

    try:
        return BertTokenizer(vocabulary, **options)
    except ValueError as error:
        raise CheckpointError(f"The vocabulary in {directory} cannot be used: {error}") from error


def _check_size(size: int, directory: Path, config: BertConfig) -> None:
    if size > config.vocabulary_size:
        raise CheckpointError(
            f"The vocabulary in {directory} has {size} tokens, but the model has {config.vocabulary_size}. Check that "
            "the vocabulary belongs to this model."
        )


def infers_lowercase(vocabulary: Sequence[str]) -> bool:
    """Return whether a vocabulary is for lowercased text: only tokens in brackets have capital letters.

    Example:
        >>> infers_lowercase(["[UNK]", "the", "##s"]), infers_lowercase(["[UNK]", "The", "##s"])
        (True, False)
    """
    plain = (token for token in vocabulary if not re.fullmatch(r"\[.*\]|<.*>", token))
    return all(token == token.lower() for token in plain)


def _read_lines(path: Path) -> list[str]:
    from keras_bert.text.vocabulary import read_vocabulary

    try:
        return read_vocabulary(path)
    except ValueError as error:
        raise CheckpointError(str(error)) from error


def _read_text_files(directory: Path) -> tuple[list[str] | None, dict[str, Any]]:
    """Read `vocab.txt` and `tokenizer_config.json`, and `tokenizer.json` for what they do not have."""
    lines = directory / VOCABULARY
    vocabulary = _read_lines(lines) if lines.is_file() else None
    options: dict[str, Any] = {}
    whole = directory / TOKENIZER
    if whole.is_file():
        stored, options = _parse_tokenizer_json(read_json(whole), whole)
        vocabulary = vocabulary or stored
    path = directory / TOKENIZER_CONFIG
    if path.is_file():
        options.update(_parse_tokenizer_config(read_json(path), path))
    return vocabulary, options


def _parse_tokenizer_config(values: dict[str, Any], path: Path) -> dict[str, Any]:
    kind = values.get("tokenizer_class") or "BertTokenizer"
    if kind not in _CLASSES:
        raise CheckpointError(f"{path}: tokenizer_class is {kind!r}; expected one of {', '.join(_CLASSES)}.")
    if values.get("do_basic_tokenize") is False:
        raise CheckpointError(
            f"{path}: do_basic_tokenize is false (texts are already split into words); expected BERT's full tokenizer."
        )
    names = {
        "do_lower_case": "lowercase",
        "strip_accents": "strip_accents",
        "tokenize_chinese_chars": "split_cjk",
    }
    options: dict[str, Any] = {
        ours: _yes_or_no(values, theirs, path) for theirs, ours in names.items() if theirs in values
    }
    if options.get("split_cjk", True) is None:
        del options["split_cjk"]
    unknown = values.get("unk_token")
    # Older versions write a special token as an object with its text in `content`.
    unknown = unknown.get("content", unknown) if isinstance(unknown, dict) else unknown
    if unknown is not None:
        options["unknown_token"] = _checked(unknown, str, "unk_token", path)
    return options


def _checked(value: Any, kind: type, name: str, path: Path) -> Any:
    if not isinstance(value, kind):
        raise CheckpointError(f"{path}: {name} is {value!r}; expected {_KINDS[kind]}.")
    return value


def _yes_or_no(values: dict[str, Any], name: str, path: Path) -> bool | None:
    """Return a setting that is true, false, or not given."""
    return None if values.get(name) is None else _checked(values[name], bool, name, path)


def _parse_tokenizer_json(values: dict[str, Any], path: Path) -> tuple[list[str], dict[str, Any]]:
    model = _checked(values.get("model") or {}, dict, "model", path)
    vocabulary, normalizer = model.get("vocab"), _checked(values.get("normalizer") or {}, dict, "normalizer", path)
    if not isinstance(vocabulary, dict) or model.get("type", "WordPiece") != "WordPiece":
        raise CheckpointError(f"{path}: the model is {model.get('type')!r}; expected a WordPiece vocabulary.")
    for token, number in vocabulary.items():
        _checked(number, int, f"the id of {token!r}", path)
    tokens = sorted(vocabulary, key=lambda token: vocabulary[token])
    if [vocabulary[token] for token in tokens] != list(range(len(tokens))):
        raise CheckpointError(f"{path}: the ids of the vocabulary have gaps; expected 0 to {len(tokens) - 1}.")
    if normalizer.get("type") != "BertNormalizer":
        return tokens, {}
    options = {name: _yes_or_no(normalizer, name, path) for name in ("lowercase", "strip_accents")}
    return tokens, {**options, "split_cjk": _yes_or_no(normalizer, "handle_chinese_chars", path) is not False}


def _read_keras_hub(directory: Path) -> tuple[list[str] | None, dict[str, Any]]:
    path = directory / KERAS_HUB_VOCABULARY
    if not path.is_file():
        return None, {}
    settings = directory / TOKENIZER
    if not settings.is_file():
        return _read_lines(path), {}
    config = _checked(read_json(settings).get("config") or {}, dict, "config", settings)
    if config.get("split", True) is not True or config.get("suffix_indicator", "##") != "##":
        raise CheckpointError(
            f"{settings}: split is {config.get('split')!r} and suffix_indicator is "
            f"{config.get('suffix_indicator')!r}; expected true and '##', as in BERT."
        )
    options = {
        "lowercase": _yes_or_no(config, "lowercase", settings),
        "strip_accents": _yes_or_no(config, "strip_accents", settings),
        "split_cjk": _yes_or_no(config, "split_on_cjk", settings) is not False,
        "unknown_token": _checked(config.get("oov_token", "[UNK]"), str, "oov_token", settings),
    }
    return _read_lines(path), options


def read_labels(directory: Path, said: Sequence[str] | None) -> list[str] | None:
    """Return the names of the classes from `labels.txt`, or else those of the config."""
    path = directory / LABELS
    if path.is_file():
        return _read_lines(path)
    return list(said) if said else None


# === Writing ===


def write_tokenizer(directory: Path, format: str, tokenizer: "SubwordTokenizer", config: BertConfig) -> None:
    """Write the vocabulary, and the settings if the format has a file for them."""
    from keras_bert.text.tokenizer import BertTokenizer
    from keras_bert.text.unigram import UnigramTokenizer

    size = tokenizer.vocabulary_size
    if size > config.vocabulary_size:
        raise CheckpointError(
            f"The tokenizer has {size} tokens, but the model has {config.vocabulary_size}; pass the model's tokenizer."
        )
    if isinstance(tokenizer, UnigramTokenizer) and format == "huggingface":
        write_unigram(directory, tokenizer, config.max_sequence_length)
        return
    if not isinstance(tokenizer, BertTokenizer):
        raise CheckpointError(
            f"The {format} format has WordPiece vocabularies, got a {type(tokenizer).__name__}; use "
            "format='huggingface'."
        )
    if format == "keras_hub":
        _write_keras_hub(directory, tokenizer)
        return
    tokenizer.save_vocabulary(directory / VOCABULARY)
    # Google has no such file; without it a reader could only guess whether text is lowercased.
    values = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": tokenizer.lowercase,
        "strip_accents": tokenizer.strip_accents,
        "tokenize_chinese_chars": tokenizer.split_cjk,
        **_SPECIAL_TOKENS,
        "unk_token": tokenizer.unknown_token,
        "model_max_length": config.max_sequence_length,
    }
    write_json(directory / TOKENIZER_CONFIG, values)


def _write_keras_hub(directory: Path, tokenizer: "BertTokenizer") -> None:
    (directory / KERAS_HUB_VOCABULARY).parent.mkdir(parents=True)
    tokenizer.save_vocabulary(directory / KERAS_HUB_VOCABULARY)
    strip = tokenizer.lowercase if tokenizer.strip_accents is None else tokenizer.strip_accents
    config = {
        "name": "bert_tokenizer",
        "trainable": True,
        "config_file": TOKENIZER,
        "vocabulary": None,
        "sequence_length": None,
        "lowercase": tokenizer.lowercase,
        "strip_accents": strip,
        "split": True,
        "split_on_cjk": tokenizer.split_cjk,
        "suffix_indicator": "##",
        "oov_token": tokenizer.unknown_token,
        "special_tokens": None,
        "special_tokens_in_strings": False,
    }
    values = {
        "module": "keras_hub.src.models.bert.bert_tokenizer",
        "class_name": "BertTokenizer",
        "config": config,
        "registered_name": "keras_hub>BertTokenizer",
    }
    write_json(directory / TOKENIZER, values)


def write_labels(directory: Path, labels: Sequence[str]) -> None:
    """Write `labels.txt`, one name per line."""
    (directory / LABELS).write_text("".join(f"{label}\n" for label in labels), encoding="utf-8")
