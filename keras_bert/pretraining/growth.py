"""A trained model of few blocks → one of more blocks that goes on from it, optimizer included.

Takes two compiled pretraining models that differ in their number of blocks. The blocks of the larger one are those of
the smaller, again and again (Gong et al. 2019): 0 1 → 0 1 0 1. Early steps on few blocks are cheap.
"""

import re
from typing import Any

import keras

from keras_bert.model.encoder import encoder_config
from keras_bert.model.weights import to_numpy

_BLOCK = re.compile(r"^block_(\d+)/")


def stack_blocks(small: keras.Model, large: keras.Model) -> None:
    """Give a compiled model the weights and the optimizer's state of one with fewer blocks, whose blocks it repeats.

    Args:
        small: The model to go on from.
        large: The same with more blocks, a multiple of them.

    Example:
        ```python
        stack_blocks(two_blocks, four_blocks)
        four_blocks.fit(batches)  # goes on at the step, with the moments, of the other
        ```
    """
    few, many = (encoder_config(model).num_layers for model in (small, large))
    if many % few:
        raise ValueError(f"{many} blocks are no multiple of {few}; grow by whole copies, such as 2, 4, 8.")
    weights = {variable.path: variable for variable in small.weights}
    for variable in large.weights:
        variable.assign(to_numpy(weights[_origin(variable.path, few)]))
    before, after = _inner(small.optimizer), _inner(large.optimizer)
    for optimizer, model in ((before, small), (after, large)):
        optimizer.build(model.trainable_variables)
    after.iterations.assign(to_numpy(before.iterations))
    places = {variable.path: index for index, variable in enumerate(small.trainable_variables)}
    for index, variable in enumerate(large.trainable_variables):
        source = places[_origin(variable.path, few)]
        for theirs, ours in ((before._momentums, after._momentums), (before._velocities, after._velocities)):
            ours[index].assign(to_numpy(theirs[source]))


def _origin(path, few):
    """The path in the smaller model of what a weight of the larger one begins as."""
    return _BLOCK.sub(lambda match: f"block_{int(match[1]) % few}/", path)


def _inner(optimizer: Any) -> Any:
    """The optimizer itself, where float16's loss scaling is wrapped around it."""
    return getattr(optimizer, "inner_optimizer", optimizer)
