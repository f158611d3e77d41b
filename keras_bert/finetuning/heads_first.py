"""A model with a random head → the same with a head that fits its pretrained features, all else as it was.

A random head sends random gradients down, and by the time it has learned, the features under it are bent (Kumar et al.
2022, arXiv 2202.10054). Where examples are few, the seed of that head is also much of what makes runs differ: trained
alone it ends, from any seed, in about the same place, for on fixed features a linear head has one best answer.
"""

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf

from keras_bert.finetuning.layerwise_adamw import finetuning_optimizer
from keras_bert.finetuning.trained_parts import is_head
from keras_bert.system.progress import fit_verbosity
from keras_bert.training.training_model import TrainingModel

# One layer on fixed features bears it, and has to arrive within few epochs.
_RATE = 5e-3


def train_heads(
    model: keras.Model, batches: tf.data.Dataset, *, steps: int, loss: dict, verbose: int | str = "auto"
) -> None:
    """Train a model's heads, if it has any, for some steps; embeddings, blocks and pooler keep their values.

    Args:
        model: A built model; what trains of it afterwards is what trained before.
        batches: As `fit` takes them, at least so many.
        steps: How many to take.
        loss: The loss of each output.
        verbose: As for `fit`.

    Example:
        ```python
        train_heads(model, batches, steps=200, loss=loss)
        ```
    """
    if not any(is_head(variable.path) for variable in model.trainable_variables):
        return  # a model of sentence vectors has none
    with _heads_alone(model):
        heads = TrainingModel.from_model(model)  # so that the optimizer that comes after finds the model untouched
        heads.compile(finetuning_optimizer(_RATE, steps), loss=loss, jit_compile=False)
        heads.fit(batches, steps_per_epoch=steps, epochs=1, shuffle=False, verbose=fit_verbosity(verbose))


@contextlib.contextmanager
def _heads_alone(model) -> Iterator[None]:
    rest = [variable for variable in model.trainable_variables if not is_head(variable.path)]
    try:
        for variable in rest:
            variable.trainable = False
        yield
    finally:
        for variable in rest:
            variable.trainable = True
