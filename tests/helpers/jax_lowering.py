"""Lowers a packed pretraining step for platforms that are not there, and counts its products; prints JSON.

KERAS_BACKEND=jax python tests/helpers/jax_lowering.py
"""

import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

from tiny_models import TINY

from keras_bert.pretraining.ahead_of_time import plan_batch, plan_model
from keras_bert.pretraining.plan import PretrainingPlan
from keras_bert.training.ahead_of_time import matmul_flops, trace_step

PLATFORMS = ("cuda", "rocm", "tpu")
ROWS, LENGTH, MASKED = 4, 10, 3


def traced_step(**changes):
    """The step of a plan, and its model."""
    plan = PretrainingPlan(steps=500, batch_size=ROWS, max_predictions=MASKED, **changes)
    model = plan_model(TINY, plan, LENGTH)
    return trace_step(model, plan_batch(plan, TINY.vocabulary_size, LENGTH))


def expected_flops():
    """Operations of the products of a step: three times those of the forward pass, and no fewer."""
    width, inner, vocabulary, layers = TINY.hidden_dim, TINY.intermediate_dim, TINY.vocabulary_size, TINY.num_layers
    tokens = ROWS * LENGTH
    blocks = layers * (tokens * (4 * width * width + 2 * width * inner) + 2 * tokens * LENGTH * width)
    heads = ROWS * MASKED * (width * width + vocabulary * width) + ROWS * (width * width + 2 * width)
    return 6 * (blocks + heads)


def main():
    plain = traced_step()
    text = traced_step(packed=True, negatives=4).lower(lowering_platforms=PLATFORMS).as_text()
    result = {
        "products": [matmul_flops(plain.jaxpr.jaxpr), expected_flops()],
        "in parts": matmul_flops(traced_step(accumulation=2).jaxpr.jaxpr),
        "dynamic": "tensor<?" in text,
        "custom calls": text.count("custom_call"),
        "size": len(text),
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
