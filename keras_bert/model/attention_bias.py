"""Turns masks into the bias that is added to attention scores.

Takes `padding_mask` and `segment_ids` and gives a finite bias: 0 for a token that can be attended to, `MASK_BIAS` for
one that cannot. Only the bias differs between plain rows, rows of several examples, and the rows of a prefix language
model.
"""

from typing import Any

import keras
from keras import ops

# Low enough that softmax gives a masked token exactly 0 in float32, high enough for a usable scale in int8 calibration.
MASK_BIAS = -120.0


@keras.saving.register_keras_serializable("keras_bert")
class PaddingBias(keras.layers.Layer):
    """The bias of padded rows: takes `padding_mask [B, T]` (1 = token, 0 = padding), gives `[B, 1, 1, T]`.

    Example:
        >>> PaddingBias()(np.array([[1, 1, 0]])).numpy().ravel().tolist()
        [0.0, 0.0, -120.0]
    """

    # Not called `padding_mask`: Keras fills in arguments whose names end in `_mask` by itself.
    def call(self, visible: Any) -> Any:
        visible = ops.cast(visible, self.compute_dtype)
        return (1.0 - visible[:, None, None, :]) * MASK_BIAS

    def compute_output_shape(self, visible_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (visible_shape[0], 1, 1, visible_shape[1])


@keras.saving.register_keras_serializable("keras_bert")
class PackedBias(keras.layers.Layer):
    """The bias and the positions of shared rows, which hold several examples.

    Takes `padding_mask [B, T]` with the number of each token's example (from 1; 0 = padding). Gives the bias
    `[B, 1, T, T]`, with which a token attends only to its own example, and the positions `[B, T]`, which begin at 0 in
    every example.

    Example:
        >>> bias, positions = PackedBias()(np.array([[1, 1, 2]]))
        >>> bias.numpy()[0, 0].tolist(), positions.numpy().tolist()
        ([[0.0, 0.0, -120.0], [0.0, 0.0, -120.0], [-120.0, -120.0, 0.0]], [[0, 1, 0]])
    """

    def call(self, example: Any) -> tuple[Any, Any]:
        apart = ops.not_equal(example[:, :, None], example[:, None, :])  # [B, T, T]
        place = ops.arange(ops.shape(example)[1])
        before = ops.logical_and(ops.logical_not(apart), (place[:, None] > place[None, :])[None])
        positions = ops.sum(ops.cast(before, "int32"), axis=-1)
        # A row may have more padding than the model has positions.
        positions = positions * ops.cast(example > 0, "int32")
        return ops.cast(apart[:, None], self.compute_dtype) * MASK_BIAS, positions

    def compute_output_shape(
        self, example_shape: tuple[int | None, ...]
    ) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
        batch, length = example_shape
        return (batch, 1, length, length), (batch, length)

    def compute_output_spec(self, example: keras.KerasTensor) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        bias, positions = self.compute_output_shape(example.shape)
        return keras.KerasTensor(bias, self.compute_dtype), keras.KerasTensor(positions, "int32")


@keras.saving.register_keras_serializable("keras_bert")
class PrefixBias(keras.layers.Layer):
    """The bias of a prefix language model (UniLM): the target attends to the source and to its own past.

    Takes the `bias` of padded or shared rows and `segment_ids [B, T]` (0 = source, 1 = target, which follows the
    source); gives `[B, 1, T, T]`. A target token is hidden from all tokens before it, and so from the source.

    Example:
        >>> bias = PrefixBias()(np.zeros((1, 1, 1, 4), "float32"), np.array([[0, 0, 1, 1]]))
        >>> (bias.numpy()[0, 0] == 0).astype(int).tolist()
        [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    """

    def call(self, bias: Any, segment_ids: Any) -> Any:
        place = ops.arange(ops.shape(segment_ids)[1])
        later = ops.cast(place[None, :] > place[:, None], self.compute_dtype)  # [T, T]
        target = ops.cast(segment_ids[:, None, None, :], self.compute_dtype)  # [B, 1, 1, T]
        # The minimum, not the sum: a bias of twice the size would double the scale of an int8 tensor.
        return ops.minimum(bias, later[None, None] * target * MASK_BIAS)

    def compute_output_shape(
        self, bias_shape: tuple[int | None, ...], segment_ids_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        batch, length = segment_ids_shape
        return (batch, 1, length, length)
