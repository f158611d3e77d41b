"""Copies a pretraining model into one with more blocks, together with the state of its optimizer.

Takes two compiled models that differ in their number of blocks. The larger one repeats the blocks of the smaller one
(Gong et al. 2019): 0 1 becomes 0 1 0 1. This saves time because early steps run on few blocks.
"""

import re
from typing import Any

import keras

from keras_bert.model.encoder import encoder_config
from keras_bert.model.weights import to_numpy

_BLOCK = re.compile(r"^block_(\d+)/")


def stack_blocks(small: keras.Model, large: keras.Model) -> None:
    """Copy weights and optimizer state from a compiled model into one that repeats its blocks.

    Args:
        small: The model to copy.
        large: The same model with more blocks, a multiple of those of `small`.

    Example:
        ```python
        stack_blocks(two_blocks, four_blocks)
        four_blocks.fit(batches)  # continues at the same step, with the same moments
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


def _origin(path: str, few: int) -> str:
    """The path in the smaller model of the weight that is copied to a path of the larger one."""
    return _BLOCK.sub(lambda match: f"block_{int(match[1]) % few}/", path)


def _inner(optimizer: Any) -> Any:
    """The optimizer itself, without the wrapper that scales the loss for float16."""
    return getattr(optimizer, "inner_optimizer", optimizer)
