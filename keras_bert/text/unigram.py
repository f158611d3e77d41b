"""The Unigram tokenizer of XLM-R and of multilingual BERTs: texts to SentencePiece's ids in the TensorFlow graph.

tensorflow-text's op for SentencePiece does the work. The model is an attribute of the op, so a graph needs no other
file and has nothing to initialize. How a model is read is in `text/unigram_model.py`.
"""

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.system.atomic_files import write_whole
from keras_bert.text.character_map import CharacterMap
from keras_bert.text.string_tensors import to_ids
from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.text.unigram_model import BYTE, CLS, CONTROL, MASK, PAD, SEP, SPACE, UNKNOWN, UnigramModel
from keras_bert.text.unigram_model import with_special_tokens as with_special


@keras.saving.register_keras_serializable(package="keras_bert")
class UnigramTokenizer(SubwordTokenizer):
    """The Unigram tokenizer of XLM-R, multilingual MiniLM and e5: SentencePiece's ids, on strings and string tensors.

    It works eagerly, in `tf.function`, in `tf.data` and in SavedModels, like `BertTokenizer`, and has its methods. It
    adds no special tokens, and `<s>` in a text is cut like any other text. Bytes that are not UTF-8 become U+FFFD.
    The ids are those of SentencePiece up to 0.2.1, which tensorflow-text contains; from 0.2.2 on, SentencePiece rounds
    sums of scores before it compares them, so that it may take another of two ways to cut a text with equal scores.

    Args:
        model: A `UnigramModel`; or a `.model` file of SentencePiece, by its path, by its content, or by its content in
            base64. Such a file gets XLM-R's special tokens: `<s>`, `<pad>`, `</s>` and `<unk>` are the ids 0 to 3, and
            `<mask>` is the last one.

    Example:
        >>> model = UnigramModel.from_pieces([("▁un", -2.0), ("able", -3.0), ("▁", -4.0), ("!", -5.0)])
        >>> tokenizer = UnigramTokenizer(model)
        >>> tokenizer(["unable !", "¿"])
        <tf.RaggedTensor [[4, 5, 6, 7], [6, 3]]>
    """

    special_tokens: ClassVar[Mapping[str, str]] = {"pad": PAD, "cls": CLS, "sep": SEP, "mask": MASK}
    pair_separators: ClassVar[int] = 2

    def __init__(self, model: UnigramModel | bytes | str | os.PathLike[str]):
        self.model = _read(model)
        self._content = self.model.to_bytes()
        super().__init__(self.model.tokens, self.model.tokens[int(np.argmax(self.model.kinds == UNKNOWN))])
        self._surfaces = np.array([_surface(*row) for row in zip(self.model.tokens, self.model.kinds, strict=True)])
        self._eager: Any = None
        self._spaces: np.ndarray | None = None

    # === Text to ids ===

    def _op(self) -> Any:
        """Return tensorflow-text's tokenizer: a constant of the graph that is being built, or one for eager calls."""
        if not tf.executing_eagerly():
            return tf_text.SentencepieceTokenizer(model=self._content, out_type=tf.int32)
        if self._eager is None:
            self._eager = tf_text.SentencepieceTokenizer(model=self._content, out_type=tf.int32)
        return self._eager

    def _cut(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._op().tokenize(texts)

    def _locate(self, texts: tf.Tensor, unit: str) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
        ids, starts, ends = self._op().tokenize_with_offsets(texts)
        rows = ids.value_rowids()
        chars, begins = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")  # in every text: where characters begin
        sizes = tf.cast(tf.strings.length(texts), tf.int64)
        first_char, first_byte = chars.row_starts(), tf.cumsum(sizes, exclusive=True)
        places = begins.flat_values + tf.gather(first_byte, chars.value_rowids())
        # The numbers of the characters; of the first one, that from there on which is no space.
        number = tf.searchsorted(places, tf.cast(starts.flat_values, tf.int64) + tf.gather(first_byte, rows))
        last = tf.searchsorted(places, tf.cast(ends.flat_values, tf.int64) + tf.gather(first_byte, rows))
        written = tf.cast(tf.where(~self._are_spaces(chars.flat_values))[:, 0], tf.int32)
        ahead = tf.concat([written, [tf.size(places)]], 0)
        number = tf.minimum(tf.gather(ahead, tf.searchsorted(written, number)), last)
        if unit == "char":
            offset = tf.cast(tf.gather(first_char, rows), tf.int32)
            return ids, number - offset, last - offset
        bytes_of = tf.concat([places, [tf.reduce_sum(sizes)]], 0)
        offset = tf.gather(first_byte, rows)
        return ids, *(tf.cast(tf.gather(bytes_of, which) - offset, tf.int32) for which in (number, last))

    def _are_spaces(self, codes: tf.Tensor) -> tf.Tensor:
        """Return which characters become nothing but spaces."""
        if self._spaces is None:
            self._spaces = np.array(sorted(map(ord, CharacterMap(self.model).spaces)), np.int32)
        return tf.reduce_any(codes[:, None] == tf.constant(self._spaces), axis=-1)

    # === Ids to text ===

    def detokenize(self, ids: Any, *, skip_special_tokens: bool = False) -> tf.Tensor:
        """Join the tokens of each row of ids into a text, in the graph.

        Args:
            ids: Integers of shape `[tokens]` or `[..., tokens]`, dense or ragged.
            skip_special_tokens: Whether to leave out `<s>`, `<pad>`, `</s>`, `<mask>` and the unknown token.

        Example:
            >>> tokenizer = UnigramTokenizer(UnigramModel.from_pieces([("▁un", -2.0), ("able", -3.0), ("▁!", -5.0)]))
            >>> tokenizer.detokenize([[0, 4, 5, 6, 2]], skip_special_tokens=True).numpy()
            array([b'unable !'], dtype=object)
        """
        ids = to_ids(ids)
        if ids.shape.rank == 1:
            return self.detokenize(ids[None], skip_special_tokens=skip_special_tokens)[0]
        if skip_special_tokens:
            special = np.isin(self.model.kinds, (CONTROL, UNKNOWN))
            is_text = ~tf.gather(tf.constant(special), ids.flat_values)
            ids = tf.ragged.boolean_mask(ids, ids.with_flat_values(is_text))
        pieces = ids.with_flat_values(tf.gather(tf.constant(self._surfaces.tolist()), ids.flat_values))
        joined = tf.strings.reduce_join(pieces, axis=-1)
        return (
            tf.ragged.map_flat_values(tf.strings.regex_replace, joined, "^ ", "") if self.model.add_prefix else joined
        )

    # === Vocabulary ===

    def save_vocabulary(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a `.model` file of SentencePiece, atomically; its ids are those of this tokenizer.

        ```python
        tokenizer.save_vocabulary("model/unigram.model")
        ```
        """
        write_whole(Path(path), self._content)

    # === Config ===

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that create this tokenizer, ready for JSON."""
        return {"model": base64.b64encode(self._content).decode()}

    def __deepcopy__(self, memo: dict[int, Any]) -> "UnigramTokenizer":
        return type(self)(self.model)

    def __reduce__(self) -> Any:
        return type(self), (self._content,)


def _read(model: UnigramModel | bytes | str | os.PathLike[str]) -> UnigramModel:
    if isinstance(model, UnigramModel):
        return with_special(model)
    if isinstance(model, str) and len(model) > 1000 and not model.endswith(".model"):
        model = base64.b64decode(model)
    if not isinstance(model, bytes):
        if not Path(model).is_file():
            raise FileNotFoundError(f"No vocabulary file at {str(model)!r}; pass a .model file of SentencePiece.")
        model = Path(model).read_bytes()
    return with_special(UnigramModel.from_bytes(model))


def _surface(token: str, kind: int) -> bytes:
    """Return what a token is in a text."""
    if kind == BYTE:
        return bytes([int(token[3:5], 16)])
    return token.encode() if kind in (CONTROL, UNKNOWN) else token.replace(SPACE, " ").encode()
