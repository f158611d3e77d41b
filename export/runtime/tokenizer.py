"""BERT's tokenizer without TensorFlow, by the Rust library `tokenizers`.

Takes a vocabulary and settings as a file has them, and gives the same ids and offsets as the tokenizer of the graph,
with the methods of `BertTokenizer`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


class DeviceTokenizer:
    """A `FlatTokenizer` that never reads special tokens in a text: all of a user's text is text.

    Args:
        vocabulary: The tokens in the order of their ids; `[PAD]`, `[UNK]`, `[CLS]` and `[SEP]` among them.
        settings: `do_lower_case`, `strip_accents` and `tokenize_chinese_chars`, as checkpoints have them.

    Example:
        >>> tokenizer = DeviceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##able"], {})
        >>> ids, splits, starts, ends = tokenizer.tokenize_flat_with_offsets(["¡ Unable"])
        >>> list(zip(ids.tolist(), starts.tolist(), ends.tolist()))
        [(1, 0, 1), (4, 2, 4), (5, 4, 8)]
    """

    pair_separators = 1

    def __init__(self, vocabulary: Sequence[str], settings: Mapping[str, bool | None]):
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

        self.vocabulary = tuple(vocabulary)
        self._ids = ids = {token: index for index, token in enumerate(self.vocabulary)}
        self.pad_id, self.cls_id, self.sep_id, self.unk_id = (ids[f"[{name}]"] for name in ("PAD", "CLS", "SEP", "UNK"))
        self._rust = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
        self._rust.normalizer = normalizers.BertNormalizer(
            lowercase=bool(settings.get("do_lower_case", True)),
            strip_accents=settings.get("strip_accents"),
            handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
        )
        self._rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    def tokenize_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Tokenize texts; give all ids, int32, and where each text begins and ends among them."""
        return _flat(self._encode(self._rust.encode_batch_fast, texts))

    def tokenize_flat_with_offsets(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Tokenize texts; give ids, splits, and each token's begin and end in its text, in characters."""
        encodings = self._encode(self._rust.encode_batch, texts)
        offsets = np.array([offset for encoding in encodings for offset in encoding.offsets], np.int32).reshape(-1, 2)
        return *_flat(encodings), offsets[:, 0], offsets[:, 1]

    def token_to_id(self, token: str) -> int:
        """The id of a token."""
        if token not in self._ids:
            raise ValueError(f"There is no token {token!r} among the {len(self._ids)} tokens of the vocabulary.")
        return self._ids[token]

    def id_to_token(self, index: int) -> str:
        """The token of an id."""
        return self.vocabulary[index]

    @property
    def vocabulary_size(self) -> int:
        """How many tokens there are."""
        return len(self.vocabulary)

    @staticmethod
    def _encode(encode: Callable[..., list[Any]], texts: Sequence[str]) -> list[Any]:
        try:
            return encode(list(texts), add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):
            check_texts(texts)
            raise


def _flat(encodings: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    ids = [encoding.ids for encoding in encodings]
    splits = np.concatenate([[0], np.cumsum([len(row) for row in ids], dtype=np.int64)]).astype(np.int64)
    return np.array([index for row in ids for index in row], np.int32), splits


def check_texts(texts: Sequence[Any]) -> None:
    """Raise an error for what is not text.

    Example:
        >>> check_texts(["a", "b"])
    """
    for text in texts:
        _check_text(text)


def _check_text(text: Any) -> None:
    if not isinstance(text, str):
        raise TypeError(f"Got {type(text).__name__} {str(text)[:40]!r}; expected strings.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"A text has a lone surrogate, {text[error.start]!r}, at character {error.start} of {text[:40]!r}; "
            "expected text that can be written as UTF-8."
        ) from None
