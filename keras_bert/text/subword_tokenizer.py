"""What every tokenizer of this library has: ids, offsets and tokens of texts, and its vocabulary.

A kind of tokenizer (`tokenizer.py`, `unigram.py`) adds how a vector of texts is cut, and how ids become text again.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from keras_bert.text.string_tensors import find_fault, flatten, nest, to_strings


class SubwordTokenizer(ABC):
    """Cuts texts into the tokens of a vocabulary: `BertTokenizer` or `UnigramTokenizer`.

    Example:
        >>> isinstance(BertTokenizer(["[UNK]", "a"]), SubwordTokenizer)
        True
    """

    special_tokens: ClassVar[Mapping[str, str]]  # `pad`, `cls`, `sep` and `mask`, as the vocabulary has them
    pair_separators: ClassVar[int] = 1  # how many separators stand between the two texts of a pair
    unknown_token: str

    def __init__(self, tokens: Iterable[str], unknown_token: str):
        if keras.backend.backend() == "jax":
            _keep_tensorflow_on_cpu()
        tokens = list(tokens)
        self._ids = _number_tokens(tokens, unknown_token)
        self._tokens = np.array(tokens, object)
        self.unknown_token = unknown_token

    @abstractmethod
    def _cut(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of a vector of texts."""

    @abstractmethod
    def _locate(self, texts: tf.Tensor, unit: str) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        """Return the ids of a vector of texts and, flat, where each token begins and ends."""

    @abstractmethod
    def detokenize(self, ids: Any, *, skip_special_tokens: bool = False) -> tf.Tensor:
        """Join the tokens of each row of ids into a text, in the graph."""

    @abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Return the arguments that create this tokenizer, ready for JSON."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Create a tokenizer from the result of `get_config()`."""
        return cls(**config)

    # === Text to ids ===

    def __call__(self, texts: Any) -> tf.RaggedTensor | tf.Tensor:
        """Return the ids of texts, int32, without special tokens.

        Takes a string, (nested) lists of strings, or a string tensor, dense or ragged. The result has one more
        dimension, which is ragged; a single string gives a vector.

        Example:
            >>> BertTokenizer(["[UNK]", "a", "b"])([["a b", "b"], ["c"]])
            <tf.RaggedTensor [[[1, 2], [2]], [[0]]]>
        """
        texts = to_strings(texts)
        return nest(texts, self._cut(flatten(texts)))

    def tokenize_with_offsets(self, texts: Any, *, unit: str = "char") -> tuple[tf.RaggedTensor | tf.Tensor, ...]:
        """Return `(ids, starts, ends)`: the ids, and where each token begins and ends in its text, int32.

        `text[start:end]` is the part of the text that the token comes from, without the spaces before it. If several
        tokens come from one character, `BertTokenizer` gives each of them the whole character, as the Rust `tokenizers`
        do, and `UnigramTokenizer` gives it to the last of them, as SentencePiece does.

        Args:
            texts: As for calling the tokenizer.
            unit: `"char"` counts code points, as Python's `str` does; `"byte"` counts bytes of UTF-8.

        Example:
            >>> tokenizer = BertTokenizer(["[UNK]", "un", "##able"])
            >>> ids, starts, ends = tokenizer.tokenize_with_offsets("¡ Unable")
            >>> list(zip(ids.numpy().tolist(), starts.numpy().tolist(), ends.numpy().tolist()))
            [(0, 0, 1), (1, 2, 4), (2, 4, 8)]
        """
        if unit not in ("char", "byte"):
            raise ValueError(f"unit={unit!r}; pass 'char' for offsets in characters or 'byte' for bytes of UTF-8.")
        texts = to_strings(texts)
        ids, starts, ends = self._locate(flatten(texts), unit)
        return tuple(nest(texts, ragged) for ragged in (ids, ids.with_values(starts), ids.with_values(ends)))

    def tokenize_flat(self, texts: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of a list of texts in one vector, and where each text begins and ends in it, as NumPy.

        Example:
            >>> ids, splits = BertTokenizer(["[UNK]", "a", "b"]).tokenize_flat(["a b", "b"])
            >>> ids.tolist(), splits.tolist()
            ([1, 2, 2], [0, 2, 3])
        """
        ids = self(_flat_list(texts))
        return ids.values.numpy(), ids.row_splits.numpy()

    def tokenize_flat_with_offsets(self, texts: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return `(ids, splits, starts, ends)`: as `tokenize_flat`, and the offsets of each token in characters.

        Example:
            >>> ids, splits, starts, ends = BertTokenizer(["[UNK]", "a", "b"]).tokenize_flat_with_offsets(["a b"])
            >>> starts.tolist(), ends.tolist()
            ([0, 2], [1, 3])
        """
        ids, starts, ends = self.tokenize_with_offsets(_flat_list(texts))
        return ids.values.numpy(), ids.row_splits.numpy(), starts.values.numpy(), ends.values.numpy()

    def tokens(self, texts: Any) -> tf.RaggedTensor | tf.Tensor:
        """Return the tokens of texts as strings, in the shape of the ids.

        Example:
            >>> BertTokenizer(["[UNK]", "un", "##able"]).tokens(["Unable"])
            <tf.RaggedTensor [[b'un', b'##able']]>
        """
        ids = self(texts)
        table = tf.constant(self._tokens)
        if isinstance(ids, tf.RaggedTensor):
            return ids.with_flat_values(tf.gather(table, ids.flat_values))
        return tf.gather(table, ids)

    # === Vocabulary ===

    @property
    def vocabulary(self) -> list[str]:
        """The tokens, in the order of their ids."""
        return self._tokens.tolist()

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens."""
        return len(self._tokens)

    def token_to_id(self, token: str) -> int:
        """Return the id of a token.

        Example:
            >>> BertTokenizer(["[UNK]", "a"]).token_to_id("a")
            1
        """
        if token not in self._ids:
            raise ValueError(
                f"{token!r} is not one of the {len(self._ids)} tokens of the vocabulary; tokens() splits a text into "
                "its tokens."
            )
        return self._ids[token]

    def id_to_token(self, index: int) -> str:
        """Return the token with an id.

        Example:
            >>> BertTokenizer(["[UNK]", "a"]).id_to_token(1)
            'a'
        """
        if not 0 <= index < len(self._tokens):
            raise ValueError(f"index={index}: expected an id from 0 to {len(self._tokens) - 1}.")
        return self._tokens[index]

    @property
    def pad_id(self) -> int:
        """The id of `[PAD]`."""
        return self.token_to_id(self.special_tokens["pad"])

    @property
    def cls_id(self) -> int:
        """The id of `[CLS]`."""
        return self.token_to_id(self.special_tokens["cls"])

    @property
    def sep_id(self) -> int:
        """The id of `[SEP]`."""
        return self.token_to_id(self.special_tokens["sep"])

    @property
    def mask_id(self) -> int:
        """The id of `[MASK]`."""
        return self.token_to_id(self.special_tokens["mask"])

    @property
    def unk_id(self) -> int:
        """The id of the unknown token."""
        return self._ids[self.unknown_token]


def _flat_list(texts: Any) -> tf.Tensor:
    texts = to_strings(texts)
    if texts.shape.rank != 1:
        raise ValueError(f"The texts have {texts.shape.rank} dimensions; expected a flat list of strings.")
    return texts


def _number_tokens(tokens: list[str], unknown_token: str) -> dict[str, int]:
    """Check a vocabulary and return the id of each token."""
    ids: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if (fault := find_fault(token)) or not isinstance(token, str):
            raise ValueError(f"Token {index} of the vocabulary is {fault or repr(token)}; tokens are strings.")
        if ids.setdefault(token, index) != index:
            raise ValueError(f"Tokens {ids[token]} and {index} of the vocabulary are both {token!r}; keep one of them.")
    if unknown_token not in ids:
        raise ValueError(
            f"unknown_token={unknown_token!r} is not among the {len(ids)} tokens of the vocabulary; add it."
        )
    return ids


def _keep_tensorflow_on_cpu() -> None:
    """Hide GPUs from TensorFlow: beside JAX it only reads and tokenizes text, and would take most of their memory."""
    with contextlib.suppress(RuntimeError):  # it has begun to use them
        tf.config.set_visible_devices([], "GPU")
