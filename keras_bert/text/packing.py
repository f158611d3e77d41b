"""Arranges tokens as `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, trimmed and padded for the encoder.

Takes a tokenizer and texts (or ragged ids) and gives the int32 tensors `token_ids`, `segment_ids` and `padding_mask`.
It uses only core TensorFlow ops, so it also runs in `tf.data` and in SavedModels on a stock TF Serving.
"""

from typing import Any

import tensorflow as tf

from keras_bert.text.subword_tokenizer import SubwordTokenizer


def pack(
    tokenizer: SubwordTokenizer, texts: Any, pairs: Any = None, *, sequence_length: int | None = None
) -> dict[str, tf.Tensor]:
    """Tokenize texts, or pairs of texts, and arrange the tokens as the encoder's inputs.

    Args:
        tokenizer: A `BertTokenizer` or `UnigramTokenizer`.
        texts: A list of strings or a string tensor `[B]`.
        pairs: The second texts, as many as `texts`, or `None`.
        sequence_length: T. Longer rows are trimmed and shorter ones padded. `None` pads to the longest row and trims
            nothing.

    Returns:
        `token_ids`, `segment_ids`, `padding_mask`, int32 `[B, T]`.

    Example:
        >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world"])
        >>> pack(tokenizer, ["hello world", "hello"])["token_ids"].numpy().tolist()
        [[2, 5, 6, 3], [2, 5, 3, 0]]
    """
    first = tokenizer(_batch(texts, "texts"))
    second = None if pairs is None else tokenizer(_batch(pairs, "pairs"))
    special = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id, "pad_id": tokenizer.pad_id}
    separators = tokenizer.pair_separators
    return pack_ids(first, second, sequence_length=sequence_length, separators=separators, **special)


def pack_ids(
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None = None,
    *,
    cls_id: int,
    sep_id: int,
    pad_id: int = 0,
    separators: int = 1,
    sequence_length: int | None = None,
) -> dict[str, tf.Tensor]:
    """Arrange ragged ids `[B, (tokens)]` without special tokens as the encoder's inputs; see `pack`.

    `separators` is how many `[SEP]` stand between the texts of a pair, all of them in the first segment.

    If a pair is too long, tokens are removed from the end of the longer text until it fits, as in the original BERT.
    """
    if sequence_length is not None:
        first, second = _trim(first, second, sequence_length, special=2 if second is None else 2 + separators)
    rows = first.bounding_shape(0)
    cls, sep = (tf.fill([rows, 1], tf.cast(token, first.dtype)) for token in (cls_id, sep_id))
    head = tf.concat([cls, first, sep], axis=1)
    if second is None:
        tokens, segments = head, tf.zeros_like(head)
    else:
        head = tf.concat([head, *[sep] * (separators - 1)], axis=1)
        tail = tf.concat([second, sep], axis=1)
        tokens = tf.concat([head, tail], axis=1)
        segments = tf.concat([tf.zeros_like(head), tf.ones_like(tail)], axis=1)
    shape = [None, sequence_length]
    return {
        "token_ids": tf.cast(tokens.to_tensor(pad_id, shape=shape), tf.int32),
        "segment_ids": tf.cast(segments.to_tensor(0, shape=shape), tf.int32),
        "padding_mask": tf.cast(tf.ones_like(tokens).to_tensor(0, shape=shape), tf.int32),
    }


def _trim(
    first: tf.RaggedTensor, second: tf.RaggedTensor | None, sequence_length: int, special: int
) -> tuple[tf.RaggedTensor, tf.RaggedTensor | None]:
    """Keep what fits beside the special tokens; this is the original BERT's `_truncate_seq_pair` in closed form."""
    room = sequence_length - special
    if room < 1:
        raise ValueError(
            f"sequence_length={sequence_length} has no room for text beside {special} special tokens; "
            f"use {special + 1} or more."
        )
    if second is None:
        return first[:, :room], None
    first_length, second_length = first.row_lengths(), second.row_lengths()
    larger_half = tf.cast(room - room // 2, first_length.dtype)
    keep_first = tf.minimum(first_length, tf.maximum(room - second_length, larger_half))
    return _keep(first, keep_first), _keep(second, tf.minimum(second_length, room - keep_first))


def _keep(ids: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    positions = tf.ragged.range(ids.row_lengths())
    return tf.ragged.boolean_mask(ids, positions < lengths[:, None])


def _batch(texts: Any, name: str) -> Any:
    if isinstance(texts, str):
        raise TypeError(f"Got one string as {name}; expected a list of strings: wrap it as [{name}].")
    return texts
