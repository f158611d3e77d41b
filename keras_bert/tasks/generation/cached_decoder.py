"""The two models that generate text with caches: one reads a source, the other computes the next token.

Both take a model from `bert_model(…, "masked_lm")` and share its weights. `source_reader` turns a source into keys and
values, once. `next_token_model` takes one token, those keys and values, and the keys and values of the tokens generated
so far; it gives the scores of the next token, and a new key and value for the cache. So a token costs the same work
wherever it is in the text. Devices run the same two graphs: they have no loop and no in-place update, and every cache
is a named tensor of four dimensions.

The source is arranged as usual, `[CLS] source [SEP]`, in segment 0. Its last `[SEP]` starts the generation: it is left
out of `source_mask` and goes through `next_token_model` as the first token (in segment 0, at its own position), which
gives the scores of the first generated token. Every later token is in segment 1. The keys and values of all these
tokens are kept in `target_keys_…` and `target_values_…`, one slot each, in order.

Shape letters as in `encoder.py`, with S the tokens of the source and L the slots for generated tokens.
"""

from typing import Any

import keras
from keras import ops

from keras_bert.model.attention_bias import PaddingBias
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import INPUT_NAMES, encoder_config

# === Names ===


def cache_names(num_layers: int, part: str) -> list[str]:
    """The names of the caches of a part (`"source"`, `"target"` or `"new"`): keys and values of each layer.

    Example:
        >>> cache_names(2, "source")
        ['source_keys_0', 'source_values_0', 'source_keys_1', 'source_values_1']
    """
    return [f"{part}_{kind}_{layer}" for layer in range(num_layers) for kind in ("keys", "values")]


def cache_shape(config: BertConfig, name: str, slots: int | None) -> tuple[int | None, ...]:
    """The shape of a cache without its batch: keys `(N, D, slots)`, values `(N, slots, D)`.

    Example:
        >>> cache_shape(BertConfig.preset("tiny"), "target_keys_0", 16)
        (2, 64, 16)
    """
    if "_keys_" in name:
        return config.num_heads, config.head_dim, slots
    return config.num_heads, slots, config.head_dim


# === Layers ===


class ReadingBlock(keras.layers.Layer):
    """An encoder block over a source: takes `x [B, S, H]` and a bias; gives its output, its keys and its values.

    The last block of a reader returns `x` unchanged: only its keys and values are used.
    """

    def __init__(self, block: Any, *, is_last: bool = False, **kwargs: Any):
        super().__init__(dtype=block.dtype_policy, **kwargs)
        self.block, self.is_last, self.built = block, is_last, True

    def call(self, x: Any, bias: Any) -> Any:
        query, keys, values = self.block.attention.project(x)
        if self.is_last:
            return x, keys, values
        attended = ops.matmul(ops.softmax(ops.matmul(query, keys) + bias), values)
        return self.block.feed(x, self.block.attention.merge(attended), training=False), keys, values


class WritingBlock(keras.layers.Layer):
    """An encoder block over one token and the cached keys and values of the tokens before it.

    Takes `x [B, 1, H]` and, of the source and of the target, keys, values and bias; gives the output `[B, 1, H]`, and
    the key `[B, N, D, 1]` and value `[B, N, 1, D]` of the token.
    """

    def __init__(self, block: Any, **kwargs: Any):
        super().__init__(dtype=block.dtype_policy, **kwargs)
        self.block, self.built = block, True

    def call(
        self,
        x: Any,
        source_keys: Any,
        source_values: Any,
        source_bias: Any,
        target_keys: Any,
        target_values: Any,
        target_bias: Any,
    ) -> Any:
        query, key, value = self.block.attention.project(x)
        to_source = ops.matmul(query, source_keys) + source_bias  # [B, N, 1, S]
        to_target = ops.matmul(query, target_keys) + target_bias  # [B, N, 1, L]
        # Only the scores are concatenated: keys and values are much larger.
        scores = ops.concatenate([to_source, to_target, ops.matmul(query, key)], axis=-1)
        probabilities = ops.softmax(scores)
        source, target = _extent(to_source), _extent(to_target)
        attended = (
            ops.matmul(probabilities[..., :source], source_values)
            + ops.matmul(probabilities[..., source : source + target], target_values)
            + probabilities[..., source + target :] * value
        )  # [B, N, 1, D]
        return self.block.feed(x, self.block.attention.merge(attended), training=False), key, value


def _extent(scores: Any) -> Any:
    return ops.shape(scores)[-1] if scores.shape[-1] is None else scores.shape[-1]


# === Functional Models ===


def source_reader(
    model: keras.Model, *, sequence_length: int | None = None, batch_size: int | None = None
) -> keras.Model:
    """Make the model that reads a source: takes `token_ids`, `segment_ids`, `padding_mask`, int32 `[B, S]`.

    Gives, for every layer i, `source_keys_i [B, N, D, S]` and `source_values_i [B, N, S, D]`. Padding has keys and
    values too, which `source_mask` hides.

    Example:
        >>> model = bert_model(BertConfig.preset("tiny"), "masked_lm")
        >>> source_reader(model).output["source_keys_0"].shape
        (None, 2, 64, None)
    """
    shape = {"shape": (sequence_length,), "batch_size": batch_size, "dtype": "int32"}
    inputs = {name: keras.Input(name=name, **shape) for name in INPUT_NAMES}
    bias = PaddingBias(name="source_bias")(inputs["padding_mask"])
    token_vectors = model.get_layer("token_embedding")(inputs["token_ids"])
    x = model.get_layer("embeddings")(token_vectors, inputs["segment_ids"], training=False)
    outputs: dict[str, Any] = {}
    layers = encoder_config(model).num_layers
    for layer in range(layers):
        block, is_last = model.get_layer(f"block_{layer}"), layer == layers - 1
        x, keys, values = ReadingBlock(block, is_last=is_last, name=f"reading_{layer}")(x, bias)
        outputs |= {f"source_keys_{layer}": keys, f"source_values_{layer}": values}
    return keras.Model(inputs, outputs, name="source_reader")


def next_token_model(
    model: keras.Model,
    *,
    source_length: int | None = None,
    target_length: int | None = None,
    batch_size: int | None = None,
) -> keras.Model:
    """Make the model that computes the next token.

    Inputs, int32: `token_ids`, `segment_ids`, `position_ids` `[B, 1]` of the last token; `source_mask [B, S]` and
    `target_mask [B, L]`, 1 for what the token may see. Inputs, float: for every layer i `source_keys_i [B, N, D, S]`,
    `source_values_i [B, N, S, D]`, `target_keys_i [B, N, D, L]`, `target_values_i [B, N, L, D]`.

    Outputs: `logits [B, V]`, the scores of the next token; `new_keys_i [B, N, D, 1]` and `new_values_i [B, N, 1, D]`,
    which the caller writes into the next slot of the target, where it also sets `target_mask`.

    Example:
        >>> step = next_token_model(bert_model(BertConfig.preset("tiny"), "masked_lm"))
        >>> step.output["logits"].shape, step.output["new_keys_1"].shape
        ((None, 30522), (None, 2, 64, 1))
    """
    config = encoder_config(model)
    inputs = _step_inputs(model, source_length, target_length, batch_size)
    source_bias = PaddingBias(name="source_bias")(inputs["source_mask"])  # [B, 1, 1, S]
    target_bias = PaddingBias(name="target_bias")(inputs["target_mask"])  # [B, 1, 1, L]
    token_vectors = model.get_layer("token_embedding")(inputs["token_ids"])
    x = model.get_layer("embeddings")(token_vectors, inputs["segment_ids"], inputs["position_ids"], training=False)
    outputs: dict[str, Any] = {}
    for layer in range(config.num_layers):
        block = WritingBlock(model.get_layer(f"block_{layer}"), name=f"writing_{layer}")
        source, target = (
            [inputs[f"{part}_keys_{layer}"], inputs[f"{part}_values_{layer}"]] for part in ("source", "target")
        )
        x, outputs[f"new_keys_{layer}"], outputs[f"new_values_{layer}"] = block(
            x, *source, source_bias, *target, target_bias
        )
    outputs["logits"] = score_tokens(model, x)[:, 0, :]
    return keras.Model(inputs, outputs, name="next_token_model")


def score_tokens(model: keras.Model, states: Any) -> Any:
    """Compute scores over the vocabulary for states of the last layer, with the model's MLM head and token table.

    Example:
        >>> score_tokens(bert_model(BertConfig.preset("tiny"), "masked_lm"), np.zeros((3, 128), "float32")).shape
        TensorShape([3, 30522])
    """
    scores = model.get_layer("token_embedding")(model.get_layer("mlm_transform")(states), reverse=True)
    return model.get_layer("mlm_bias")(scores)


def _step_inputs(
    model: keras.Model, source_length: int | None, target_length: int | None, batch_size: int | None
) -> dict[str, Any]:
    config, dtype = encoder_config(model), model.get_layer("block_0").compute_dtype
    shapes: dict[str, tuple[int | None, ...]] = dict.fromkeys(("token_ids", "segment_ids", "position_ids"), (1,))
    shapes |= {"source_mask": (source_length,), "target_mask": (target_length,)}
    inputs = {name: keras.Input(shape, batch_size, "int32", name=name) for name, shape in shapes.items()}
    for part, slots in (("source", source_length), ("target", target_length)):
        for name in cache_names(config.num_layers, part):
            inputs[name] = keras.Input(cache_shape(config, name, slots), batch_size, dtype, name=name)
    return inputs
