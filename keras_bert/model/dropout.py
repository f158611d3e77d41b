"""Dropout whose mask costs next to nothing: a hash of each element's index instead of a random number generator.

Takes a tensor, gives it with some elements zeroed and the rest scaled up. It is a room of its own because it is the one
place where the library draws its own random bits. Stock dropout asks the backend's generator (Philox, Threefry) for a
number per element, which is a fifth of a BERT training step on a CPU. A dropout mask needs far less than those
generators promise: this layer runs a counter through a keyed 32-bit integer hash, which XLA fuses into the
multiplication, so that the mask is never stored and is computed again where the gradient needs it.
"""

import keras
from keras import ops

# Multipliers of the "lowbias32" integer hash (Wellons, hash prospector): each output bit depends on each input bit.
_FIRST_MULTIPLIER = 0x7FEB352D
_SECOND_MULTIPLIER = 0x846CA68B


@keras.saving.register_keras_serializable("keras_bert")
class HashDropout(keras.layers.Dropout):
    """Drop-in replacement for `keras.layers.Dropout` with cheaper random bits.

    Same rates, same seed handling (a `SeedGenerator` of its own, which moves on with every training call), same config.

    Example:
        >>> layer = HashDropout(0.5, seed=7)
        >>> float(keras.ops.mean(layer(keras.ops.ones((1000, 1000)), training=True))).__round__(1)
        1.0
    """

    def call(self, inputs, training=False):
        if not training or self.rate == 0:
            return inputs
        noise_shape = self._get_concrete_noise_shape(inputs, self.noise_shape)
        keep = keep_mask(noise_shape, self.rate, self.seed_generator.next())
        return ops.where(keep, inputs / (1.0 - self.rate), ops.zeros((), dtype=inputs.dtype))

    def _get_concrete_noise_shape(self, inputs, noise_shape):
        shape = ops.shape(inputs)
        return (
            shape if noise_shape is None else [a if b is None else b for a, b in zip(shape, noise_shape, strict=True)]
        )


def keep_mask(shape, rate, seed):
    """Booleans of `shape`, each true with probability `1 - rate`, drawn from the two numbers in `seed`.

    Two rounds of hashing with a key before each (an Even-Mansour cipher in small): with one round and one key, two
    calls could get the same mask in another order.
    """
    first_key, second_key = _keys(seed)
    size = 1
    for extent in shape:
        size = size * extent
    counter = ops.reshape(ops.cast(ops.arange(size), "uint32"), shape)
    bits = _scramble(_scramble(counter ^ first_key) ^ second_key)
    return bits < _word(round((1.0 - rate) * 2**32))


def _keys(seed):
    seed = ops.cast(seed, "uint32")
    first = _scramble(_scramble(seed[0]) ^ seed[1])
    return first, _scramble(first ^ _word(0x9E3779B9))


def _scramble(x):
    x = (x ^ ops.right_shift(x, _word(16))) * _word(_FIRST_MULTIPLIER)
    x = (x ^ ops.right_shift(x, _word(15))) * _word(_SECOND_MULTIPLIER)
    return x ^ ops.right_shift(x, _word(16))


def _word(value):
    return ops.convert_to_tensor(value, dtype="uint32")
