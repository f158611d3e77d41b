"""Mixout: in each step, a share of the weights is taken from the pretrained model (Lee et al. 2020).

`MixoutModel` takes a functional model and a rate, gives one whose training step mixes. A room of its own because it is
the one regularizer that works on weights instead of activations: w' = (m·w₀ + (1−m)·w − p·w₀) / (1−p), with m drawn for
every weight, so that the expected weight is w, and dropout is the case w₀ = 0.
"""

import keras
import tensorflow as tf
from keras import ops

from keras_bert.finetuning.layerwise_adamw import layer_depth
from keras_bert.model.dropout import keep_mask
from keras_bert.model.embeddings import spread_seed


class MixoutModel(keras.Model):
    """A functional model that trains with mixout on the kernels of its blocks. TensorFlow, one device.

    Args:
        model: A built model, at its pretrained weights.
        rate: The share p of weights that a step takes from the pretrained model.
        seed: Seed of the draws.

    Example:
        ```python
        model = MixoutModel.from_model(classifier.model, rate=0.7, seed=1)
        ```
    """

    @classmethod
    def from_model(cls, model: keras.Model, *, rate: float, seed: int) -> "MixoutModel":
        """The same layers and weights, with mixout."""
        if not 0 < rate < 1:
            raise ValueError(f"rate={rate!r}: expected a share between 0 and 1; without mixout use the model as it is.")
        if keras.backend.backend() != "tensorflow" or tf.distribute.has_strategy():
            raise ValueError("Mixout trains on one device of the TensorFlow backend; set mixout=0 elsewhere.")
        mixed = cls(model.input, model.output, name=model.name)
        mixed.mixout_rate, mixed.mixout_seed = rate, seed
        mixed._pretrained = [
            tf.constant(weight.numpy()) if _mixes(weight) else None for weight in model.trainable_variables
        ]
        return mixed

    def train_step(self, data):
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

    def _mixed_weights(self, weights):
        step, mixed = self.optimizer.iterations, []
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


def _mixes(weight):
    return bool(layer_depth(weight.path)) and weight.path.endswith("kernel")
