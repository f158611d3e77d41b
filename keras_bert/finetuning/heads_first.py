"""Trains only the heads of a model first, so that they fit its pretrained features.

The gradients of a random head distort the features below it before it has learned (Kumar et al. 2022, arXiv
2202.10054). With few examples, the seed of the head is also a main reason why runs differ. On fixed features, a linear
head ends in about the same place from any seed.
"""

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf

from keras_bert.finetuning.layerwise_adamw import finetuning_optimizer
from keras_bert.finetuning.trained_parts import is_head
from keras_bert.system.progress import fit_verbosity
from keras_bert.training.training_model import TrainingModel

# High, because one layer on fixed features is stable at this rate and has only a few epochs.
_RATE = 5e-3


def train_heads(
    model: keras.Model,
    batches: tf.data.Dataset,
    *,
    steps: int,
    loss: dict[str, keras.losses.Loss],
    verbose: int | str = "auto",
) -> None:
    """Train a model's heads, if it has any, for some steps; embeddings, blocks and pooler do not change.

    Args:
        model: A built model. Afterwards the same variables are trainable as before.
        batches: At least `steps` batches for `fit`.
        steps: The number of steps.
        loss: The loss of each output.
        verbose: As for `fit`.

    Example:
        ```python
        train_heads(model, batches, steps=200, loss=loss)
        ```
    """
    if not any(is_head(variable.path) for variable in model.trainable_variables):
        return  # such as a model of sentence vectors
    with _heads_alone(model):
        heads = TrainingModel.from_model(model)  # a copy, so that compiling does not change the model
        heads.compile(finetuning_optimizer(_RATE, steps), loss=loss, jit_compile=keras.backend.backend() == "jax")
        heads.fit(batches, steps_per_epoch=steps, epochs=1, shuffle=False, verbose=fit_verbosity(verbose))


@contextlib.contextmanager
def _heads_alone(model: keras.Model) -> Iterator[None]:
    rest = [variable for variable in model.trainable_variables if not is_head(variable.path)]
    try:
        for variable in rest:
            variable.trainable = False
        yield
    finally:
        for variable in rest:
            variable.trainable = True
