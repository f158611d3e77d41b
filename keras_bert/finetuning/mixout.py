"""Mixout: each training step replaces a random share of the weights by the pretrained ones (Lee et al. 2020).

A step uses w' = (m·w₀ + (1−m)·w − p·w₀) / (1−p) with a random m for every weight, so that the expected weight is w;
dropout is the case w₀ = 0.
"""

from typing import Any

import keras
from keras import ops

from keras_bert.batching.replicas import replica_count
from keras_bert.finetuning.layerwise_adamw import layer_depth
from keras_bert.model.dropout import keep_mask
from keras_bert.model.embeddings import spread_seed
from keras_bert.model.weights import to_numpy


class MixoutModel(keras.Model):
    """A functional model that trains with mixout on the kernels of its blocks, on one device.

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
    _pretrained: list[Any]

    @classmethod
    def from_model(cls, model: keras.Model, *, rate: float, seed: int) -> "MixoutModel":
        """Create a model with the same layers and weights that trains with mixout."""
        if not 0 < rate < 1:
            raise ValueError(
                f"rate={rate!r}: expected a share between 0 and 1; to train without mixout, use the model."
            )
        if replica_count() > 1:
            raise ValueError("Mixout trains on one device; set mixout=0, or call fit() outside of the devices' scope.")
        mixed = cls(model.input, model.output, name=model.name)
        mixed.mixout_rate, mixed.mixout_seed = rate, seed
        mixed._pretrained = [
            ops.convert_to_tensor(to_numpy(weight)) if _mixes(weight) else None for weight in model.trainable_variables
        ]
        return mixed

    def train_step(self, *arguments: Any) -> Any:
        """Take a step; on JAX it is Keras' own, with mixed weights in `compute_loss_and_updates`."""
        if keras.backend.backend() == "jax":
            return super().train_step(*arguments)
        import tensorflow as tf

        (data,) = arguments
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        weights = self.trainable_variables
        with tf.GradientTape() as tape:
            mixed = self._mixed_weights([weight.value for weight in weights], self.optimizer.iterations)
            state = [variable.value for variable in self.non_trainable_variables]
            y_pred, state = self.stateless_call(mixed, state, x, training=True)
            loss = self.compute_loss(x, y, y_pred, sample_weight, training=True)
        for variable, value in zip(self.non_trainable_variables, state, strict=True):
            variable.assign(value)
        gradients = tape.gradient(loss, [weight.value for weight in weights])
        self.optimizer.apply_gradients(zip(map(tf.convert_to_tensor, gradients), weights, strict=True))
        self._loss_tracker.update_state(loss)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def compute_loss_and_updates(self, trainable_variables: list[Any], *others: Any, **options: Any) -> Any:
        """Compute as Keras' JAX trainer does, with mixed weights in training."""
        if options.get("training"):
            step = dict(zip(map(id, self.optimizer.variables), options["optimizer_variables"], strict=True))
            trainable_variables = self._mixed_weights(trainable_variables, step[id(self.optimizer.iterations)])
        return super().compute_loss_and_updates(trainable_variables, *others, **options)

    def _mixed_weights(self, values: list[Any], step: Any) -> list[Any]:
        mixed: list[Any] = []
        for value, anchor, key in zip(
            values, self._pretrained, spread_seed(self.mixout_seed, len(values)), strict=True
        ):
            if anchor is None:
                mixed.append(value)
                continue
            seed = ops.stack([ops.cast(key % 2**31, "uint32"), ops.cast(step, "uint32")])
            own = ops.cast(keep_mask(value.shape, self.mixout_rate, seed), value.dtype)  # 1 − m
            mixed.append(anchor + own * (value - anchor) / (1.0 - self.mixout_rate))
        return mixed


def _mixes(weight: Any) -> bool:
    return bool(layer_depth(weight.path)) and weight.path.endswith("kernel")
