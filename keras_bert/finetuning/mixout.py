"""Mixout: each training step replaces a random share of the weights by the pretrained ones (Lee et al. 2020).

A step uses w' = (m·w₀ + (1−m)·w − p·w₀) / (1−p) with a random m for every weight, so that the expected weight is w;
dropout is the case w₀ = 0.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_bert.finetuning.layerwise_adamw import layer_depth
from keras_bert.model.dropout import keep_mask
from keras_bert.model.embeddings import spread_seed


class MixoutModel(keras.Model):
    """A functional model that trains with mixout on the kernels of its blocks, on one device with TensorFlow.

    Args:
        model: A built model with its pretrained weights.
        rate: The share p of weights that a step takes from the pretrained model.
        seed: The seed of the random choice.

    Example:
        ```python
        model = MixoutModel.from_model(classifier.model, rate=0.7, seed=1)
        ```
    """

    mixout_rate: float
    mixout_seed: int
    _pretrained: list[tf.Tensor | None]

    @classmethod
    def from_model(cls, model: keras.Model, *, rate: float, seed: int) -> "MixoutModel":
        """Create a model with the same layers and weights that trains with mixout."""
        if not 0 < rate < 1:
            raise ValueError(
                f"rate={rate!r}: expected a share between 0 and 1; to train without mixout, use the model."
            )
        if keras.backend.backend() != "tensorflow" or tf.distribute.has_strategy():
            raise ValueError("Mixout trains on one device of the TensorFlow backend; set mixout=0 elsewhere.")
        mixed = cls(model.input, model.output, name=model.name)
        mixed.mixout_rate, mixed.mixout_seed = rate, seed
        mixed._pretrained = [
            tf.constant(weight.numpy()) if _mixes(weight) else None for weight in model.trainable_variables
        ]
        return mixed

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        weights = self.trainable_variables
        with tf.GradientTape() as tape:
            mixed = self._mixed_weights(weights)
            state = [variable.value for variable in self.non_trainable_variables]
            y_pred, state = self.stateless_call(mixed, state, x, training=True)
            loss = self.compute_loss(x, y, y_pred, sample_weight, training=True)
        for variable, value in zip(self.non_trainable_variables, state, strict=True):
            variable.assign(value)
        gradients = tape.gradient(loss, [weight.value for weight in weights])
        self.optimizer.apply_gradients(zip(map(tf.convert_to_tensor, gradients), weights, strict=True))
        self._loss_tracker.update_state(loss)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def _mixed_weights(self, weights: list[Any]) -> list[Any]:
        step = self.optimizer.iterations
        mixed: list[Any] = []
        for weight, anchor, key in zip(
            weights, self._pretrained, spread_seed(self.mixout_seed, len(weights)), strict=True
        ):
            if anchor is None:
                mixed.append(weight.value)
                continue
            seed = ops.stack([ops.cast(key % 2**31, "uint32"), ops.cast(step, "uint32")])
            own = ops.cast(keep_mask(weight.shape, self.mixout_rate, seed), weight.dtype)  # 1 − m
            mixed.append(anchor + own * (weight.value - anchor) / (1.0 - self.mixout_rate))
        return mixed


def _mixes(weight: Any) -> bool:
    return bool(layer_depth(weight.path)) and weight.path.endswith("kernel")
