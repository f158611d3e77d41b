"""Converts texts and ids (strings, lists, arrays and tensors of any rank) to tensors, and checks them."""

from typing import Any

import numpy as np
import tensorflow as tf


def to_strings(texts: Any) -> tf.Tensor | tf.RaggedTensor:
    """Return texts as a string tensor of known rank; raise an error that names what is not text."""
    if not isinstance(texts, tf.Tensor | tf.RaggedTensor):
        try:
            texts = tf.convert_to_tensor(texts, tf.string)
        except (TypeError, ValueError):
            if fault := find_fault(texts):
                raise ValueError(f"The texts have {fault}; pass a string, a list or a tensor of strings.") from None
            texts = tf.ragged.constant(texts, dtype=tf.string)
    if texts.dtype != tf.string:
        raise ValueError(f"The texts are a tensor of {texts.dtype.name}; pass a tensor of strings.")
    if texts.shape.rank is None:
        raise ValueError("The texts are a tensor of unknown rank; give it one with tf.ensure_shape or tf.reshape.")
    return make_ragged(texts)


def to_ids(ids: Any) -> tf.Tensor | tf.RaggedTensor:
    """Return ids as an int32 tensor, ragged if it has several dimensions."""
    if not isinstance(ids, tf.Tensor | tf.RaggedTensor):
        ids = tf.ragged.constant(ids) if isinstance(ids, list | tuple) else tf.convert_to_tensor(ids)
    is_empty = ids.dtype == tf.float32 and ids.shape.num_elements() == 0  # how TensorFlow reads []
    if not (ids.dtype.is_integer or is_empty) or not ids.shape.rank:
        raise ValueError(f"The ids are {ids.dtype.name} of shape {ids.shape}; pass integers [..., tokens].")
    return make_ragged(tf.cast(ids, tf.int32))


def make_ragged(tensor: tf.Tensor | tf.RaggedTensor) -> tf.Tensor | tf.RaggedTensor:
    """Make every dimension but the first ragged; return a scalar or a vector as it is."""
    if isinstance(tensor, tf.RaggedTensor):
        inner = tensor.flat_values
        return tensor.with_flat_values(make_ragged(inner)) if inner.shape.rank > 1 else tensor
    if tensor.shape.rank > 1:
        return tf.RaggedTensor.from_tensor(tensor, ragged_rank=tensor.shape.rank - 1)
    return tensor


def flatten(texts: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
    """Return texts as one vector."""
    return texts.flat_values if isinstance(texts, tf.RaggedTensor) else tf.reshape(texts, [-1])


def nest(texts: tf.Tensor | tf.RaggedTensor, result: tf.RaggedTensor) -> tf.Tensor | tf.RaggedTensor:
    """Give a result for `flatten(texts)` the shape of the texts."""
    if isinstance(texts, tf.RaggedTensor):
        return texts.with_flat_values(result.with_row_splits_dtype(texts.row_splits.dtype))
    return result if texts.shape.rank else result.values


def find_fault(texts: Any) -> str | None:
    """Describe the first value in nested lists that is not text; `None` if all of them are text."""
    if isinstance(texts, str):
        try:
            texts.encode()
        except UnicodeEncodeError as error:
            return f"a lone surrogate, {texts[error.start]!r}, at character {error.start} of {texts[:40]!r}"
        return None
    if isinstance(texts, list | tuple | np.ndarray):
        return next(filter(None, map(find_fault, texts)), None)
    return None if isinstance(texts, bytes) else f"{str(texts)[:40]!r}, of type {type(texts).__name__},"
