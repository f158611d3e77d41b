"""Dropout with a cheap mask: a hash of each element's index instead of a random number generator.

Keras's dropout takes one number per element from the backend's generator (Philox, Threefry), which is a large part of a
BERT training step on a CPU. A dropout mask needs weaker guarantees. This layer computes a keyed 32-bit integer hash of
a counter. XLA fuses it into the multiplication, so the mask is never stored: the gradient computes it again.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.model.hashing import random_bits, scramble, word


@keras.saving.register_keras_serializable("keras_bert")
class HashDropout(keras.layers.Dropout):
    """Drop-in replacement for `keras.layers.Dropout` with cheaper random bits.

    It has the same arguments, config and seed handling: a `SeedGenerator`, advanced in every training call.

    Example:
        >>> layer = HashDropout(0.5, seed=7)
        >>> float(keras.ops.mean(layer(keras.ops.ones((1000, 1000)), training=True))).__round__(1)
        1.0
    """

    def call(self, inputs: Any, training: bool | None = False) -> Any:
        if not training or self.rate == 0:
            return inputs
        noise_shape = self._get_concrete_noise_shape(inputs, self.noise_shape)
        keep = keep_mask(noise_shape, self.rate, self.seed_generator.next())
        return ops.where(keep, inputs / (1.0 - self.rate), ops.zeros((), dtype=inputs.dtype))

    def _get_concrete_noise_shape(self, inputs: Any, noise_shape: Sequence[int | None] | None) -> Sequence[Any]:
        shape = ops.shape(inputs)
        return (
            shape if noise_shape is None else [a if b is None else b for a, b in zip(shape, noise_shape, strict=True)]
        )


def keep_mask(shape: Sequence[Any], rate: float, seed: Any) -> Any:
    """Return random booleans of `shape`, each true with probability `1 - rate`; `seed` is two numbers."""
    first_key, second_key = _keys(seed)
    size = 1
    for extent in shape:
        size = size * extent
    counter = ops.reshape(ops.cast(ops.arange(size), "uint32"), shape)
    return random_bits(counter, first_key, second_key) < word(round((1.0 - rate) * 2**32), counter)


def _keys(seed: Any) -> tuple[Any, Any]:
    seed = ops.cast(seed, "uint32")
    first = scramble(scramble(seed[0]) ^ seed[1])
    return first, scramble(first ^ word(0x9E3779B9, first))
