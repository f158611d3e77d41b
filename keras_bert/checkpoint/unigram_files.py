"""Reads and writes the files of a Unigram tokenizer in a Hugging Face directory, as XLM-R has them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.checkpoint.files import CheckpointError, read_json, write_json
from keras_bert.text.unigram_model import (
    CLS,
    MASK,
    PAD,
    SEP,
    UNK,
    UnigramModel,
    from_tokenizer_json,
    to_tokenizer_json,
    with_special_tokens,
    without_special_tokens,
)

if TYPE_CHECKING:
    from keras_bert.text.unigram import UnigramTokenizer

SENTENCEPIECE, TOKENIZER, TOKENIZER_CONFIG = "sentencepiece.bpe.model", "tokenizer.json", "tokenizer_config.json"
_CLASSES = ("XLMRobertaTokenizer", "XLMRobertaTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend")


def has_unigram(directory: Path) -> bool:
    """Return whether a directory has a SentencePiece model, or a `tokenizer.json` with one."""
    if (directory / SENTENCEPIECE).is_file():
        return True
    if not (directory / TOKENIZER).is_file():
        return False
    model = read_json(directory / TOKENIZER).get("model")
    return isinstance(model, dict) and model.get("type") == "Unigram"


def read_unigram(directory: Path) -> "UnigramTokenizer":
    """Return the directory's tokenizer. The SentencePiece model counts, if there is a `tokenizer.json` beside it."""
    path = directory / TOKENIZER_CONFIG
    kind = read_json(path).get("tokenizer_class") if path.is_file() else None
    if kind is not None and kind not in _CLASSES:
        raise CheckpointError(
            f"{path}: tokenizer_class is {kind!r}, and the directory has a model of SentencePiece; expected one of "
            f"{', '.join(_CLASSES)}, whose ids are XLM-R's."
        )
    path = directory / SENTENCEPIECE
    try:
        if path.is_file():
            model = with_special_tokens(UnigramModel.from_bytes(path.read_bytes()))
        else:
            path = directory / TOKENIZER
            model = with_special_tokens(from_tokenizer_json(read_json(path)))
        # Imported late: the tokenizer needs TensorFlow, and weights can be loaded without it.
        from keras_bert.text.unigram import UnigramTokenizer

        return UnigramTokenizer(model)
    except CheckpointError:
        raise
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise CheckpointError(f"{path} cannot be used: {error}") from error


def write_unigram(directory: Path, tokenizer: "UnigramTokenizer", max_length: int) -> None:
    """Write the model in both forms, and the settings by which transformers finds its class."""
    if (model := without_special_tokens(tokenizer.model)) is not None:
        (directory / SENTENCEPIECE).write_bytes(model.to_bytes())
    write_json(directory / TOKENIZER, to_tokenizer_json(tokenizer.model))
    values: dict[str, Any] = {
        "tokenizer_class": "XLMRobertaTokenizer",
        **{"bos_token": CLS, "cls_token": CLS, "eos_token": SEP, "sep_token": SEP},
        **{"pad_token": PAD, "unk_token": UNK, "mask_token": MASK},
        "model_max_length": max_length,
    }
    write_json(directory / TOKENIZER_CONFIG, values)
