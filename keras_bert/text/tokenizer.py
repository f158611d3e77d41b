"""The tokenizer: texts to the ids of the original BERT inside the TensorFlow graph, and ids back to texts.

How BERT normalizes a character is in `text/unicode_tables.py`, how that becomes TensorFlow ops in
`text/wordpiece.py`, and how vocabularies are read and learned in `text/vocabulary.py`.
"""

import contextlib
import os
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.text.string_tensors import find_fault, flatten, nest, to_ids, to_strings
from keras_bert.text.unicode_tables import TextRules
from keras_bert.text.vocabulary import SPECIAL_TOKENS, read_vocabulary, write_vocabulary
from keras_bert.text.wordpiece import WordpieceGraph, locate


@keras.saving.register_keras_serializable(package="keras_bert")
class BertTokenizer:
    """BERT's WordPiece tokenizer: the same ids as the original, on strings and on string tensors.

    It consists of graph constants only, so it works eagerly, in `tf.function`, in `tf.data` and in SavedModels that a
    stock TF Serving runs. It adds no special tokens, and `[CLS]` in a text is tokenized like any other text. A word of
    more than 100 characters, or one with a piece that is not in the vocabulary, becomes the unknown token.

    Args:
        vocabulary: The tokens in the order of their ids, or the path of a `vocab.txt`.
        lowercase: Whether to lowercase; the value of a checkpoint's `do_lower_case`.
        strip_accents: Whether to strip accents; `None` strips them if `lowercase` is set, as the original does.
        split_cjk: Whether every CJK ideograph is a separate word.
        unknown_token: The token for words that the vocabulary cannot spell.

    Example:
        >>> tokenizer = BertTokenizer(["[UNK]", "un", "##aff", "##able", "!"])
        >>> tokenizer(["Unaffable!", "¿"])
        <tf.RaggedTensor [[1, 2, 3, 4], [0]]>
        >>> tokenizer("Unaffable!").numpy()
        array([1, 2, 3, 4], dtype=int32)
    """

    def __init__(
        self,
        vocabulary: Iterable[str] | str | os.PathLike[str],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_cjk: bool = True,
        unknown_token: str = "[UNK]",
    ):
        tokens = read_vocabulary(vocabulary) if isinstance(vocabulary, str | os.PathLike) else list(vocabulary)
        self._ids = _number_tokens(tokens, unknown_token)
        self._tokens = np.array(tokens, object)
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.split_cjk = split_cjk
        self.unknown_token = unknown_token
        rules = TextRules(lowercase, lowercase if strip_accents is None else strip_accents, split_cjk)
        if keras.backend.backend() == "jax":
            _keep_tensorflow_on_cpu()
        self.graph = WordpieceGraph.build(tokens, unknown_token, rules)

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
        return nest(texts, self.graph.tokenize(flatten(texts)))

    def tokenize_with_offsets(self, texts: Any, *, unit: str = "char") -> tuple[tf.RaggedTensor | tf.Tensor, ...]:
        """Return `(ids, starts, ends)`: the ids, and where each token begins and ends in its text, int32.

        `text[start:end]` is the part of the text that the token comes from. Spaces around it and accents stripped at
        its end are not included. If one character gives several tokens (the letters of a Hangul syllable), each of
        them has the whole character. Offsets equal those of the Rust `tokenizers`.

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
        ids, first, last = self.graph.tokenize_with_bytes(flatten(texts))
        starts, ends = locate(flatten(texts), ids.value_rowids(), first, last, unit)
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

    # === Ids to text ===

    def detokenize(self, ids: Any, *, skip_special_tokens: bool = False) -> tf.Tensor:
        """Join the tokens of each row of ids into a text, in the graph.

        What normalization removed does not come back: words are lowercase (if the tokenizer lowercases), and
        punctuation has spaces around it.

        Args:
            ids: Integers of shape `[tokens]` or `[..., tokens]`, dense or ragged.
            skip_special_tokens: Whether to leave out `[PAD]`, `[CLS]`, `[SEP]`, `[MASK]` and the unknown token.

        Example:
            >>> tokenizer = BertTokenizer(["[UNK]", "[CLS]", "[SEP]", "un", "##able", "!"])
            >>> tokenizer.detokenize([[1, 3, 4, 5, 2]], skip_special_tokens=True).numpy()
            array([b'unable !'], dtype=object)
        """
        ids = to_ids(ids)
        if ids.shape.rank == 1:
            return self.detokenize(ids[None], skip_special_tokens=skip_special_tokens)[0]
        if skip_special_tokens:
            special = [self._ids[token] for token in {*SPECIAL_TOKENS, self.unknown_token} if token in self._ids]
            is_special = tf.reduce_any(ids.flat_values[:, None] == tf.constant(sorted(special), tf.int32), -1)
            ids = tf.ragged.boolean_mask(ids, ids.with_flat_values(~is_special))
        pieces = ids.with_flat_values(tf.gather(tf.constant(self._tokens), ids.flat_values))
        return tf.ragged.map_flat_values(
            tf.strings.regex_replace, tf.strings.reduce_join(pieces, axis=-1, separator=" "), " ##", ""
        )

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
        return self.token_to_id("[PAD]")

    @property
    def cls_id(self) -> int:
        """The id of `[CLS]`."""
        return self.token_to_id("[CLS]")

    @property
    def sep_id(self) -> int:
        """The id of `[SEP]`."""
        return self.token_to_id("[SEP]")

    @property
    def mask_id(self) -> int:
        """The id of `[MASK]`."""
        return self.token_to_id("[MASK]")

    @property
    def unk_id(self) -> int:
        """The id of the unknown token."""
        return self._ids[self.unknown_token]

    def save_vocabulary(self, path: str | os.PathLike[str]) -> None:
        """Write a `vocab.txt` atomically.

        ```python
        tokenizer.save_vocabulary("model/vocab.txt")
        ```
        """
        write_vocabulary(self._tokens, path)

    # === Config ===

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that create this tokenizer, ready for JSON."""
        return {
            "vocabulary": self.vocabulary,
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "split_cjk": self.split_cjk,
            "unknown_token": self.unknown_token,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "BertTokenizer":
        """Create a tokenizer from the result of `get_config()`."""
        return cls(**config)


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
