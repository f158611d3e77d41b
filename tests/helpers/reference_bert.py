"""BERT's forward pass in NumPy and float64, straight from the paper's figure: an oracle that shares no code."""

import numpy as np


def reference_forward(weights, config, inputs):
    """Hidden states (embeddings first) and pooled output, from a dictionary of weights by path."""
    table = weights["token_embedding/embeddings"][inputs["token_ids"]]
    length = table.shape[1]
    x = (
        table
        + weights["embeddings/position"][:length]
        + weights["embeddings/segment/embeddings"][inputs["segment_ids"]]
    )
    x = _norm(x, weights, "embeddings/norm", config)
    if "embeddings/projection/kernel" in weights:
        x = _dense(x, weights, "embeddings/projection")
    hidden_states = [x]
    for index in range(config.num_layers):
        x = _block(x, inputs["padding_mask"], weights, f"block_{index}", config)
        hidden_states.append(x)
    return hidden_states, np.tanh(_dense(x[:, 0], weights, "pooler/dense"))


def _block(x, mask, weights, name, config):
    heads = [
        np.stack(np.split(_dense(x, weights, f"{name}/attention/{part}"), config.num_heads, axis=-1), axis=1)
        for part in ("query", "key", "value")
    ]
    query, key, value = heads
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(config.head_dim)
    scores = np.where(mask[:, None, None, :] == 1, scores, -np.inf)
    probabilities = np.exp(scores - scores.max(-1, keepdims=True))
    probabilities /= probabilities.sum(-1, keepdims=True)
    context = np.concatenate(list((probabilities @ value).swapaxes(0, 1)), axis=-1)
    x = _norm(x + _dense(context, weights, f"{name}/attention/output"), weights, f"{name}/attention_norm", config)
    inner = _activate(_dense(x, weights, f"{name}/intermediate"), config.activation)
    return _norm(x + _dense(inner, weights, f"{name}/output"), weights, f"{name}/output_norm", config)


def _dense(x, weights, name):
    return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]


def _norm(x, weights, name, config):
    centered = x - x.mean(-1, keepdims=True)
    scaled = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + config.layer_norm_epsilon)
    return scaled * weights[f"{name}/gamma"] + weights[f"{name}/beta"]


def _activate(x, name):
    if name == "relu":
        return np.maximum(x, 0)
    if name == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    import math

    return 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))
