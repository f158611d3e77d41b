"""Read vocabulary, labels and settings from a `.tflite` file.

The file may come from anywhere: anything wrong in it raises a `ValueError`. `file/metadata.py` writes what is read
here. Only the standard library and NumPy are needed.
"""

import json
import os
from dataclasses import dataclass, field
from typing import Any

from export.file.archive import read_files
from keras_bert.text.unigram_model import UnigramModel, with_special_tokens

VOCABULARY, LABELS, TASK, SENTENCEPIECE = "vocab.txt", "labels.txt", "keras_bert_task.json", "sentencepiece.model"
FORMAT = 1  # the format of keras_bert_task.json
_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")

# Larger files are refused; real vocabularies and settings are much smaller.
MAX_BYTES = {TASK: 4 << 20, LABELS: 1 << 20, VOCABULARY: 16 << 20, SENTENCEPIECE: 32 << 20}
_MAX_LINES = 1_000_000
_MAX_LENGTH = 1 << 16


@dataclass(frozen=True)
class FileMetadata:
    """The metadata of a `.tflite` file.

    Attributes:
        name: The name of the model.
        description: What it does, in a sentence.
        task: The name of the task, e.g. `"classification"`.
        kind: Its kind, e.g. `"single_label"`, or `None`.
        labels: The names of the classes in the order of the outputs, or `None`.
        vocabulary: The tokens in the order of their ids.
        tokenizer: `do_lower_case`, `strip_accents` and `tokenize_chinese_chars`.
        signatures: The length of each signature, by its key, shortest first; `None` is a dynamic length.
        outputs: The names of the outputs in the signatures.
        settings: Other settings of the task: `sequence_length`, `long_texts`, and those of `task.settings()`.
        unigram: The model of a Unigram tokenizer; `None` for WordPiece.
    """

    name: str
    description: str
    task: str
    kind: str | None
    labels: tuple[str, ...] | None
    vocabulary: tuple[str, ...] = field(repr=False)
    tokenizer: dict[str, bool | None]
    signatures: dict[str, int | None]
    outputs: tuple[str, ...]
    settings: dict[str, Any]
    unigram: UnigramModel | None = field(default=None, repr=False)

    def __str__(self) -> str:
        lengths = "/".join("dynamic" if length is None else str(length) for length in self.signatures.values())
        labels = "" if self.labels is None else f"  {len(self.labels)} labels"
        return f"{self.name}  {self.task}  lengths {lengths}{labels}  {len(self.vocabulary):,} tokens"


def read_metadata(path_or_bytes: str | os.PathLike[str] | bytes) -> FileMetadata:
    """Read the metadata of a `.tflite` file, which may come from anywhere. Anything wrong raises a ValueError.

    Example:
        >>> metadata = read_metadata("sentiment.tflite")  # doctest: +SKIP
        >>> metadata.labels  # doctest: +SKIP
        ('negative', 'positive')
    """
    try:
        return parse_files(read_files(path_or_bytes, MAX_BYTES))
    except (ValueError, RecursionError) as error:  # the latter from json, on endless nesting
        name = "These bytes" if isinstance(path_or_bytes, bytes) else path_or_bytes
        raise ValueError(f"{name} cannot be used as an exported model: {error}") from None


def parse_files(files: dict[str, bytes]) -> FileMetadata:
    """Parse and check the files after a TFLite file."""
    missing = [] if SENTENCEPIECE in files else [name for name in (VOCABULARY,) if name not in files]
    missing = [*([] if TASK in files else [TASK]), *missing]
    if missing:
        raise ValueError(f"It has no {' and no '.join(missing)}; expected a file that export.convert wrote.")
    about = json.loads(files[TASK].decode("utf-8"))
    _check_about(about)
    unigram = None
    if SENTENCEPIECE in files:
        unigram = with_special_tokens(UnigramModel.from_bytes(files[SENTENCEPIECE]))
        vocabulary = unigram.tokens
    else:
        vocabulary = _split(files[VOCABULARY], VOCABULARY)
        check_special_tokens(vocabulary)
    return FileMetadata(
        **{key: about[key] for key in ("name", "description", "task", "kind", "tokenizer", "settings")},
        labels=_split(files[LABELS], LABELS) if LABELS in files else None,
        vocabulary=vocabulary,
        signatures=dict(sorted(about["signatures"].items(), key=lambda item: item[1] or _MAX_LENGTH)),
        outputs=tuple(about["outputs"]),
        unigram=unigram,
    )


def check_special_tokens(vocabulary: tuple[str, ...]) -> None:
    """Raise an error if a vocabulary lacks a token that every row needs."""
    missing = [token for token in _SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        raise ValueError(f"The vocabulary has no {', '.join(missing)}; expected all of {', '.join(_SPECIAL_TOKENS)}.")


def _split(content: bytes, name: str) -> tuple[str, ...]:
    if content.count(b"\n") > _MAX_LINES:
        raise ValueError(f"{name} has more than {_MAX_LINES:,} lines.")
    # Not splitlines(): real vocabularies have tokens such as U+2028, which it takes for a line end.
    lines = tuple(content.decode("utf-8").removesuffix("\n").split("\n"))
    if "" in lines or len(set(lines)) != len(lines):
        raise ValueError(f"{name} has an empty line, or the same line twice.")
    return lines


def _check_about(about: Any) -> None:
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        found = about.get("format") if isinstance(about, dict) else type(about).__name__
        raise ValueError(f"{TASK} has format {found!r}; this version reads {FORMAT}.")
    texts = [about.get("name"), about.get("description"), about.get("task"), about.get("kind", 0)]
    signatures, outputs, tokenizer = (about.get(key) for key in ("signatures", "outputs", "tokenizer"))
    is_right = (
        (all(isinstance(text, str) for text in texts[:3]) and isinstance(texts[3], str | None))
        and (isinstance(signatures, dict) and signatures and all(map(_is_length, signatures.values())))
        and (isinstance(outputs, list) and outputs and all(isinstance(name, str) for name in outputs))
        and (isinstance(tokenizer, dict) and all(isinstance(value, bool | None) for value in tokenizer.values()))
        and isinstance(about.get("settings"), dict)
    )
    if not is_right:
        raise ValueError(f"{TASK} is not what export.convert writes: {str(about)[:200]}.")


def _is_length(value: Any) -> bool:
    return value is None or (type(value) is int and 0 < value <= _MAX_LENGTH)
