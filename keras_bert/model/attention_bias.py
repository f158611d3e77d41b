"""Masks → what is added to attention scores: who sees whom.

Takes `padding_mask` and `segment_ids`, gives a finite bias: 0 where a token is seen, `MASK_BIAS` where it is not. A
room of its own because the same encoder reads plain rows, rows of several examples and, as a prefix language model,
rows whose second part is written from left to right; the bias alone differs.
"""

import keras
from keras import ops

# Low enough that softmax gives a masked token exactly 0 in float32, high enough for int8 calibration to keep a scale.
MASK_BIAS = -120.0


@keras.saving.register_keras_serializable("keras_bert")
class PaddingBias(keras.layers.Layer):
    """`padding_mask [B, T]` (1 = token, 0 = padding) → what is added to attention scores, `[B, 1, 1, T]`.

    Example:
        >>> PaddingBias()(np.array([[1, 1, 0]])).numpy().ravel().tolist()
        [0.0, 0.0, -120.0]
    """

    # Not called `padding_mask`: Keras takes an argument whose name ends in `_mask` for one that it fills in itself.
    def call(self, visible):
        visible = ops.cast(visible, self.compute_dtype)
        return (1.0 - visible[:, None, None, :]) * MASK_BIAS

    def compute_output_shape(self, visible_shape):
        return (visible_shape[0], 1, 1, visible_shape[1])


@keras.saving.register_keras_serializable("keras_bert")
class PackedBias(keras.layers.Layer):
    """What keeps several examples in one row apart: takes `padding_mask [B, T]` with the number of the example that
    each token belongs to (from 1 on, 0 = padding); gives the bias `[B, 1, T, T]`, by which a token sees its own example
    alone, and the positions `[B, T]`, which begin at 0 in every example.

    Example:
        >>> bias, positions = PackedBias()(np.array([[1, 1, 2]]))
        >>> bias.numpy()[0, 0].tolist(), positions.numpy().tolist()
        ([[0.0, 0.0, -120.0], [0.0, 0.0, -120.0], [-120.0, -120.0, 0.0]], [[0, 1, 0]])
    """

    def call(self, example):
        apart = ops.not_equal(example[:, :, None], example[:, None, :])  # [B, T, T]
        place = ops.arange(ops.shape(example)[1])
        before = ops.logical_and(ops.logical_not(apart), (place[:, None] > place[None, :])[None])
        positions = ops.sum(ops.cast(before, "int32"), axis=-1)
        # Of padding a row may have more than the model has positions.
        positions = positions * ops.cast(example > 0, "int32")
        return ops.cast(apart[:, None], self.compute_dtype) * MASK_BIAS, positions

    def compute_output_shape(self, example_shape):
        batch, length = example_shape
        return (batch, 1, length, length), (batch, length)

    def compute_output_spec(self, example):
        bias, positions = self.compute_output_shape(example.shape)
        return keras.KerasTensor(bias, self.compute_dtype), keras.KerasTensor(positions, "int32")


@keras.saving.register_keras_serializable("keras_bert")
class PrefixBias(keras.layers.Layer):
    """The bias of a prefix language model (UniLM): the source sees itself, the target the source and its own past.

    Takes the `bias` of padding or of packed rows and `segment_ids [B, T]` (0 = source, 1 = target, which stands behind
    it); gives `[B, 1, T, T]`. A token of the target is hidden from all that stand before it, so nothing else is needed
    to keep it from the source.

    Example:
        >>> bias = PrefixBias()(np.zeros((1, 1, 1, 4), "float32"), np.array([[0, 0, 1, 1]]))
        >>> (bias.numpy()[0, 0] == 0).astype(int).tolist()
        [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    """

    def call(self, bias, segment_ids):
        place = ops.arange(ops.shape(segment_ids)[1])
        later = ops.cast(place[None, :] > place[:, None], self.compute_dtype)  # [T, T]
        target = ops.cast(segment_ids[:, None, None, :], self.compute_dtype)  # [B, 1, 1, T]
        # The lesser of both, not their sum: a bias of twice the size would double the scale of an int8 tensor.
        return ops.minimum(bias, later[None, None] * target * MASK_BIAS)

    def compute_output_shape(self, bias_shape, segment_ids_shape):
        batch, length = segment_ids_shape
        return (batch, 1, length, length)
