"""Chooses which weights of a model train, and where they start: freezing, BitFit, LoRA, new top layers.

Takes a built model and a recipe, and changes the model in place.
"""

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_bert.finetuning.layerwise_adamw import layer_depth
from keras_bert.finetuning.recipes import Recipe
from keras_bert.model.config import BertConfig
from keras_bert.model.embeddings import initializer, spread_seed
from keras_bert.model.encoder import encoder_config

# BitFit (Ben Zaken et al. 2022) trains the biases of dense layers, and `beta`, the bias of a layer norm.
_BIASES = ("bias", "beta")


@dataclass(frozen=True)
class ParameterCount:
    """The number of parameters, and how many of them train."""

    trained: int
    total: int

    def __str__(self) -> str:
        return f"{self.trained:,} of {self.total:,} parameters train ({self.trained / max(self.total, 1):.2%})"


def choose_trained(model: keras.Model, recipe: Recipe) -> ParameterCount:
    """Freeze the weights that the recipe does not train; LoRA adds weights. The model must be a new one.

    Example:
        >>> model = bert_model(BertConfig.preset("tiny", vocabulary_size=100), "classification", num_classes=2)
        >>> print(choose_trained(model, Recipe(trains="head")))
        16,770 of 492,418 parameters train (3.41%)
    """
    total = model.count_params()
    if recipe.trains == "head":
        _freeze_below(model, recipe.top_layers)
    elif recipe.trains == "bias":
        for variable in model.trainable_variables:
            variable.trainable = layer_depth(variable.path) is None or variable.path.split("/")[-1] in _BIASES
    elif recipe.trains == "lora":
        _enable_lora(model, recipe)
    return ParameterCount(sum(int(np.prod(variable.shape)) for variable in model.trainable_variables), total)


def _freeze_below(model: keras.Model, top_layers: int) -> None:
    blocks = encoder_config(model).num_layers
    if not 0 <= top_layers <= blocks:
        raise ValueError(f"top_layers={top_layers}: the model has {blocks} blocks; expected 0 to {blocks}.")
    for layer in model.layers:
        depth = layer_depth(layer.name)
        if depth is not None and depth <= blocks - top_layers:
            layer.trainable = False


def _enable_lora(model: keras.Model, recipe: Recipe) -> None:
    for layer in model.layers:
        depth = layer_depth(layer.name)
        if depth is None:
            continue
        if depth == 0:
            layer.trainable = False
            continue
        for variable in layer.trainable_variables:
            variable.trainable = False
        seeds = spread_seed(recipe.seeds[0], 2 * depth)[-2:]
        for part, seed in zip((layer.attention.query, layer.attention.value), seeds, strict=True):
            part.enable_lora(recipe.lora_rank, a_initializer=keras.initializers.HeUniform(seed=seed))


def is_head(path: str) -> bool:
    """Return whether a variable belongs to a head, not to embeddings, blocks or the pooler.

    Example:
        >>> is_head("classifier/kernel"), is_head("pooler/dense/kernel")
        (True, False)
    """
    return layer_depth(path) is None and path.split("/")[0] != "pooler"


def reinitialize_top(model: keras.Model, blocks: int | None, *, seed: int) -> list[str]:
    """Give the top blocks and the pooler new random weights, and return the names of those layers.

    The top layers are specialized for the pretraining task, which hurts with few examples (Zhang et al. 2020). A pooler
    of the mean keeps its weights, because pretraining has not trained it. `blocks=None` is one block if the model pools
    the first token, and none if it pools the mean, which sentence encoders were trained to give.

    Example:
        >>> reinitialize_top(bert_encoder(BertConfig.preset("tiny")), 1, seed=0)
        ['block_1', 'pooler']
    """
    config = encoder_config(model)
    if blocks is None:
        blocks = 1 if config.pooling == "cls" else 0
    if not 0 <= blocks <= config.num_layers:
        raise ValueError(
            f"reinitialize={blocks}: the model has {config.num_layers} blocks; expected 0 to {config.num_layers}."
        )
    if blocks == 0:
        return []
    names = [f"block_{index}" for index in range(config.num_layers - blocks, config.num_layers)]
    names += [layer.name for layer in model.layers if layer.name == "pooler" and config.pooling == "cls"]
    for name, layer_seed in zip(names, spread_seed(seed, len(names)), strict=True):
        weights = model.get_layer(name).weights
        for weight, weight_seed in zip(weights, spread_seed(layer_seed, len(weights)), strict=True):
            weight.assign(_first_value(weight, config, weight_seed))
    return names


def _first_value(weight: Any, config: BertConfig, seed: int | None) -> Any:
    kind = weight.path.split("/")[-1]
    if kind == "kernel":
        return initializer(config.initializer_range, seed)(weight.shape)
    return np.ones(weight.shape, "float32") if kind == "gamma" else np.zeros(weight.shape, "float32")
