"""A Unigram vocabulary: pieces with scores, as SentencePiece and Hugging Face's `tokenizer.json` store it.

Takes a `.model` file of SentencePiece or the content of a `tokenizer.json`; gives a `UnigramModel` whose pieces are in
the order of their ids. Files may come from anywhere: they are parsed here, with the standard library and NumPy, so that
a device needs no more.
"""

import base64
import binascii
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # the kinds of pieces, as SentencePiece numbers them
CLS, PAD, SEP, UNK, MASK = "<s>", "<pad>", "</s>", "<unk>", "<mask>"
SPACE = "\u2581"  # what stands for a space in a piece
_KINDS = {2: "BPE", 3: "WORD", 4: "CHAR"}
_ADVICE = "expected a Unigram model, such as that of XLM-R"
_DAMAGED_MAP = "The character map of the vocabulary is damaged ({}); download it again."
_MOST_PIECES = 4_000_000
# The fields of SentencePiece's messages that are read here, and what they hold.
_PIECE = {1: bytes, 2: float, 3: int}
_TRAINER = {3: int, 24: int}
_NORMALIZER = {2: bytes, 3: int, 4: int, 5: int}


@dataclass(frozen=True, eq=False)
class UnigramModel:
    """Pieces with their scores, and how a text is normalized before it is cut into them.

    Args:
        tokens: The pieces in the order of their ids, the special tokens among them.
        scores: The log probability of each, float32.
        kinds: The kind of each: `NORMAL`, `UNKNOWN`, `CONTROL` (never found in a text), `UNUSED` or `BYTE`.
        character_map: What characters become, as SentencePiece compiles it; empty leaves them as they are.
        add_prefix: Whether a text begins with a space, so that its first word is spelled as any other.
        strip_spaces: Whether spaces at the ends are removed and runs of spaces are one.

    Example:
        >>> model = UnigramModel.from_pieces([("▁a", -1.0), ("▁", -2.0), ("b", -3.0)])
        >>> model.tokens
        ('<s>', '<pad>', '</s>', '<unk>', '▁a', '▁', 'b', '<mask>')
    """

    tokens: tuple[str, ...]
    scores: np.ndarray
    kinds: np.ndarray
    character_map: bytes = b""
    add_prefix: bool = True
    strip_spaces: bool = True

    def __post_init__(self) -> None:
        if not len(self.tokens) == len(self.scores) == len(self.kinds):
            raise ValueError(f"Got {len(self.tokens)} pieces and {len(self.scores)} scores; expected a score for each.")
        if len(set(self.tokens)) != len(self.tokens) or "" in self.tokens:
            raise ValueError("A piece of the vocabulary is empty or occurs twice; expected different pieces.")
        if any(token.startswith("\0") for token in self.tokens):  # ends the process in SentencePiece's trie
            raise ValueError("A piece of the vocabulary begins with the character 0; expected text.")
        if np.sum(self.kinds == UNKNOWN) != 1:
            raise ValueError("The vocabulary has no unknown token, or several; expected exactly one.")
        if not np.isin(self.kinds, (NORMAL, UNUSED, USER_DEFINED)).any():
            raise ValueError("The vocabulary has special tokens only; expected pieces of text.")
        if not np.isfinite(self.scores).all():
            raise ValueError("A score of the vocabulary is not finite; expected log probabilities.")
        if np.any(self.kinds == USER_DEFINED):
            found = self.tokens[int(np.argmax(self.kinds == USER_DEFINED))]
            raise ValueError(
                f"The vocabulary has pieces that users defined, such as {found!r}, which are cut out of every text; "
                "expected a model without them."
            )
        split_character_map(self.character_map)

    @property
    def has_bytes(self) -> bool:
        """Whether unknown characters are spelled in bytes."""
        return bool(np.any(self.kinds == BYTE))

    @classmethod
    def from_pieces(cls, pieces: Sequence[tuple[str, float]], **options: Any) -> "UnigramModel":
        """Make a model with XLM-R's special tokens from pieces and scores."""
        tokens = (UNK, CLS, SEP, *(piece for piece, _ in pieces))
        scores = np.array([0, 0, 0, *(score for _, score in pieces)], np.float32)
        kinds = np.array([UNKNOWN, CONTROL, CONTROL, *[NORMAL] * len(pieces)], np.uint8)
        return with_special_tokens(cls(tokens, scores, kinds, **options))

    @classmethod
    def from_bytes(cls, content: bytes) -> "UnigramModel":
        """Parse a `.model` file of SentencePiece; ids are those of the file."""
        try:
            return _parse(content)
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise ValueError(f"This is no complete model of SentencePiece ({error}); download it again.") from None

    def to_bytes(self) -> bytes:
        """Return the model as SentencePiece stores it."""
        parts = []
        for token, score, kind in zip(self.tokens, self.scores.tolist(), self.kinds.tolist(), strict=True):
            piece = token.encode()
            body = b"\x0a" + _varint(len(piece)) + piece + b"\x15" + struct.pack("<f", score)
            body += b"" if kind == NORMAL else b"\x18" + _varint(kind)
            parts.append(b"\x0a" + _varint(len(body)) + body)
        trainer = b"\x18\x01" + (b"\x98\x02\x01" if self.has_bytes else b"")
        normalizer = b"\x12" + _varint(len(self.character_map)) + self.character_map
        normalizer += bytes([0x18, self.add_prefix, 0x20, self.strip_spaces, 0x28, 1])
        parts += [b"\x12" + _varint(len(trainer)) + trainer, b"\x1a" + _varint(len(normalizer)) + normalizer]
        return b"".join(parts)

    def take(self, ids: Sequence[int] | np.ndarray) -> "UnigramModel":
        """Return a model with some of the pieces, in the order given; their scores stay."""
        ids = np.asarray(ids, np.int64)
        tokens = tuple(self.tokens[index] for index in ids.tolist())
        return replace(self, tokens=tokens, scores=self.scores[ids], kinds=self.kinds[ids])


def split_character_map(content: bytes) -> tuple[np.ndarray, bytes]:
    """Return the trie of a compiled character map, and the texts that it names.

    SentencePiece follows the trie without looking whether it stays inside, so this does: from every node there is room
    for any byte, and every value is a place in the texts.
    """
    if not content:
        return np.zeros(0, np.uint32), b""
    size = int.from_bytes(content[:4], "little")
    if size == 0 or size % 4 or size > len(content) - 4 or not content.endswith(b"\0"):
        raise ValueError(_DAMAGED_MAP.format(f"a trie of {size} bytes in {len(content)}"))
    units, texts = np.frombuffer(content, "<u4", size // 4, 4), content[4 + size :]
    numbers = units.astype(np.int64)
    is_value = numbers >> 31 == 1
    nodes = np.arange(len(units)) ^ (numbers >> 10 << ((numbers & 0x200) >> 6))
    if np.any(nodes[~is_value] | 0xFF >= len(units)):
        raise ValueError(_DAMAGED_MAP.format("its trie leads out of it"))
    ends = nodes[~is_value & (numbers >> 8 & 1 == 1)]  # where keys end
    if not is_value[ends].all() or np.any(numbers[is_value] & 0x7FFFFFFF >= len(texts)):
        raise ValueError(_DAMAGED_MAP.format("a value of its trie is none of its texts"))
    return units, texts


def with_special_tokens(model: UnigramModel) -> UnigramModel:
    """Return a model with the ids that XLM-R gives to the pieces of a file of SentencePiece.

    `<s>`, `<pad>`, `</s>` and `<unk>` come first, then the pieces in the order of the file, and `<mask>` last. A model
    that has all of these tokens stays as it is.

    Example:
        ```python
        model = with_special_tokens(UnigramModel.from_bytes(path.read_bytes()))
        ```
    """
    missing = [token for token in (CLS, PAD, SEP, UNK, MASK) if token not in set(model.tokens)]
    if not missing:
        return model
    if missing != [PAD, MASK] or model.tokens[:3] != (UNK, CLS, SEP):
        raise ValueError(
            f"The vocabulary begins with {', '.join(model.tokens[:4])}; expected <unk>, <s>, </s> and then pieces, as "
            f"in XLM-R's sentencepiece.bpe.model, or all of {CLS}, {PAD}, {SEP}, {UNK} and {MASK}."
        )
    return UnigramModel(
        (CLS, PAD, SEP, UNK, *model.tokens[3:], MASK),
        np.concatenate([np.zeros(4, np.float32), model.scores[3:], np.zeros(1, np.float32)]),
        np.concatenate([[CONTROL] * 3, [UNKNOWN], model.kinds[3:], [CONTROL]]).astype(np.uint8),
        model.character_map,
        model.add_prefix,
        model.strip_spaces,
    )


def without_special_tokens(model: UnigramModel) -> UnigramModel | None:
    """Return the model with the ids of SentencePiece's file, the inverse of `with_special_tokens`.

    `None` if the special tokens stand elsewhere, so that no such file can say the ids.
    """
    if model.tokens[:4] != (CLS, PAD, SEP, UNK) or model.tokens[-1] != MASK:
        return None
    return model.take([3, 0, 2, *range(4, len(model.tokens) - 1)])


# === tokenizer.json ===


def from_tokenizer_json(values: Mapping[str, Any]) -> UnigramModel:
    """Return the model in the content of a `tokenizer.json` of Hugging Face.

    Example:
        ```python
        model = from_tokenizer_json(json.loads(path.read_text("utf-8")))
        ```
    """
    model = _object(values, "model")
    if model.get("type", "Unigram") != "Unigram" or not isinstance(model.get("vocab"), list):
        raise ValueError(f"The model is of the type {model.get('type')!r}; {_ADVICE}.")
    unknown, rows = model.get("unk_id"), model["vocab"]
    if not all(isinstance(row, list) and len(row) == 2 and isinstance(row[0], str) for row in rows):
        raise ValueError("The vocabulary is no list of pieces with scores; download the file again.")
    if type(unknown) is not int or not 0 <= unknown < len(rows):
        raise ValueError(f"unk_id is {unknown!r}; expected the id of the unknown token.")
    tokens, scores = [row[0] for row in rows], [float(row[1]) for row in rows]
    kinds = [NORMAL] * len(rows)
    for added in values.get("added_tokens") or []:
        index, token = added.get("id"), added.get("content")
        if index == len(tokens):  # such as <mask>, which some files have only here
            tokens, scores, kinds = [*tokens, token], [*scores, 0.0], [*kinds, CONTROL]
        elif type(index) is not int or not 0 <= index < len(tokens) or tokens[index] != token:
            raise ValueError(
                f"The added token {token!r} has the id {index!r}; expected ids that continue the vocabulary."
            )
        kinds[index] = CONTROL
    kinds[unknown] = UNKNOWN
    if model.get("byte_fallback"):
        kinds = [BYTE if _is_byte(token) else kind for token, kind in zip(tokens, kinds, strict=True)]
    steps = [step for name in ("normalizer", "pre_tokenizer") for step in _steps(values.get(name), name)]
    return UnigramModel(tuple(tokens), np.array(scores, np.float32), np.array(kinds, np.uint8), *_normalization(steps))


def _steps(value: Any, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of a normalizer or a pre-tokenizer, those of a sequence one by one."""
    if value is None:
        return
    if not isinstance(value, dict):
        raise ValueError(f"The {name} is {value!r}; expected an object.")
    if value.get("type") == "Sequence":
        for step in value.get("normalizers") or value.get("pretokenizers") or []:
            yield from _steps(step, name)
    else:
        yield value


def _normalization(steps: Sequence[Mapping[str, Any]]) -> tuple[bytes, bool, bool]:
    character_map, add_prefix, strip_spaces = b"", False, False
    for step in steps:
        kind = step.get("type")
        if kind == "Precompiled":
            try:
                character_map = base64.b64decode(step.get("precompiled_charsmap") or "", validate=True)
            except (binascii.Error, TypeError, ValueError) as error:
                raise ValueError(
                    f"The precompiled_charsmap is not base64 ({error}); download the file again."
                ) from None
        elif kind == "Metaspace" and step.get("replacement", SPACE) == SPACE:
            add_prefix = step.get("prepend_scheme", "always" if step.get("add_prefix_space") else "") == "always"
        elif kind in ("WhitespaceSplit", "Strip") or (kind == "Replace" and step.get("content") == " "):
            strip_spaces = True
        else:
            raise ValueError(
                f"The tokenizer has a step of the type {kind!r}; expected those of XLM-R's tokenizer.json."
            )
    return character_map, add_prefix, strip_spaces


def to_tokenizer_json(model: UnigramModel) -> dict[str, Any]:
    """Return the content of a `tokenizer.json`, as transformers reads it.

    It cuts texts as SentencePiece does, but for characters that Hugging Face normalizes in another way.
    """
    special = [index for index, kind in enumerate(model.kinds.tolist()) if kind in (CONTROL, UNKNOWN)]
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    normalizers: list[dict[str, Any]] = []
    if model.character_map:
        charsmap = base64.b64encode(model.character_map).decode()
        normalizers.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    scheme = "always" if model.add_prefix else "never"
    metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": True}
    splits = [{"type": "WhitespaceSplit"}] if model.strip_spaces else []
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": index, "content": model.tokens[index], **added} for index in special],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, metaspace]},
        "post_processor": _template(model),
        "decoder": metaspace,
        "model": {
            "type": "Unigram",
            "unk_id": int(np.argmax(model.kinds == UNKNOWN)),
            "vocab": [list(row) for row in zip(model.tokens, map(float, model.scores), strict=True)],
            "byte_fallback": model.has_bytes,
        },
    }


def _template(model: UnigramModel) -> dict[str, Any]:
    """Arrange `<s> a </s>` and `<s> a </s></s> b </s>`."""
    cls, sep = ({"SpecialToken": {"id": token, "type_id": 0}} for token in (CLS, SEP))
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    ids = {token: model.tokens.index(token) for token in (CLS, SEP)}
    return {
        "type": "TemplateProcessing",
        "single": [cls, first, sep],
        "pair": [cls, first, sep, sep, second, sep],
        "special_tokens": {token: {"id": token, "ids": [index], "tokens": [token]} for token, index in ids.items()},
    }


def _object(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = values.get(name)
    if not isinstance(value, dict):
        raise ValueError(f"{name} is {str(value)[:40]!r}; expected an object, as in a tokenizer.json.")
    return value


# === SentencePiece's files ===


def _parse(content: bytes) -> UnigramModel:
    tokens: list[str] = []
    scores: list[float] = []
    kinds: list[int] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    for number, value in _fields(content):
        if number == 1:
            piece = _message(value, _PIECE)
            tokens.append(_text(piece.get(1, b"")))
            scores.append(piece.get(2, 0.0))
            kinds.append(piece.get(3, NORMAL))
            if len(tokens) > _MOST_PIECES or not NORMAL <= kinds[-1] <= BYTE:
                raise ValueError(f"Piece {len(tokens)} of the model is of an unknown kind, or one too many; {_ADVICE}.")
        elif number == 2:
            trainer = _message(value, _TRAINER)
        elif number == 3:
            normalizer = _message(value, _NORMALIZER)
    if (kind := trainer.get(3, 1)) != 1:
        raise ValueError(f"The model of SentencePiece is of the kind {_KINDS.get(kind, kind)}; {_ADVICE}.")
    if trainer.get(24) or not normalizer.get(5, 1):
        raise ValueError(f"The model writes spaces at the ends of words, or as spaces; {_ADVICE}.")
    return UnigramModel(
        tuple(tokens),
        np.array(scores, np.float32),
        np.array(kinds, np.uint8),
        bytes(normalizer.get(2, b"")),
        bool(normalizer.get(3, 1)),
        bool(normalizer.get(4, 1)),
    )


def _message(content: Any, types: Mapping[int, type]) -> dict[int, Any]:
    """Return the fields of a message inside of another, by number; those that are read have to be of their types."""
    if not isinstance(content, bytes):
        raise IndexError(f"{content!r} in place of a message")
    fields = dict(_fields(content))
    for number, kind in types.items():
        if not isinstance(fields.get(number, kind()), kind):
            raise IndexError(f"{str(fields[number])[:40]} in field {number}")
    return fields


def _fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field of a message in Protocol Buffers' wire format."""
    at, end = 0, len(content)
    while at < end:
        key, at = _read_varint(content, at)
        kind = key & 7
        value: Any
        if kind == 2:
            size, at = _read_varint(content, at)
            if size > end - at:
                raise IndexError(f"a field of {size} bytes at {at}, beyond the end")
            value, at = content[at : at + size], at + size
        elif kind == 5:
            (value,), at = struct.unpack_from("<f", content, at), at + 4
        elif kind == 0:
            value, at = _read_varint(content, at)
        elif kind == 1:
            (value,), at = struct.unpack_from("<d", content, at), at + 8
        else:
            raise IndexError(f"a field of the kind {kind} at {at}")
        yield key >> 3, value


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    value = content[at]
    if value < 0x80:  # nearly all
        return value, at + 1
    value, shift = value & 0x7F, 7
    while True:
        at += 1
        byte = content[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
        if shift > 63:
            raise IndexError(f"a number of too many bytes at {at}")


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _text(value: Any) -> str:
    if not isinstance(value, bytes):
        raise IndexError("a piece that is no text")
    return value.decode()


def _is_byte(token: str) -> bool:
    return len(token) == 6 and token.startswith("<0x") and token.endswith(">")
