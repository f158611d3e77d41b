"""The tokenizer: texts to the ids of the original BERT inside the TensorFlow graph, and ids back to texts.

How BERT normalizes a character is in `text/unicode_tables.py`, how that becomes TensorFlow ops in
`text/wordpiece.py`, and how vocabularies are read and learned in `text/vocabulary.py`.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import keras
import tensorflow as tf

from keras_bert.text.string_tensors import to_ids
from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.text.unicode_tables import TextRules
from keras_bert.text.vocabulary import SPECIAL_TOKENS, read_vocabulary, write_vocabulary
from keras_bert.text.wordpiece import WordpieceGraph, locate


@keras.saving.register_keras_serializable(package="keras_bert")
class BertTokenizer(SubwordTokenizer):
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

    special_tokens: ClassVar[Mapping[str, str]] = {"pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}

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
        super().__init__(tokens, unknown_token)
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.split_cjk = split_cjk
        rules = TextRules(lowercase, lowercase if strip_accents is None else strip_accents, split_cjk)
        self.graph = WordpieceGraph.build(tokens, unknown_token, rules)

    # === Text to ids ===

    def _cut(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self.graph.tokenize(texts)

    def _locate(self, texts: tf.Tensor, unit: str) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        ids, first, last = self.graph.tokenize_with_bytes(texts)
        return ids, *locate(texts, ids.value_rowids(), first, last, unit)

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


def require_wordpiece(tokenizer: SubwordTokenizer, what: str) -> BertTokenizer:
    """Return a `BertTokenizer` as it is; raise an error for another kind.

    Example:
        ```python
        tokenizer = require_wordpiece(tokenizer, "pretrain")
        ```
    """
    if not isinstance(tokenizer, BertTokenizer):
        raise ValueError(
            f"{what} works with WordPiece vocabularies; got a {type(tokenizer).__name__}. Use a model that has a "
            "vocab.txt."
        )
    return tokenizer
