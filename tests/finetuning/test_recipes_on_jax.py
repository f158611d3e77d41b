"""Recipes, resuming after a kill, attributions and writing with Keras on JAX."""

import json

import pytest
from strategy_processes import finish, start


@pytest.mark.slow
def test_recipes_resuming_attributions_and_writing(tmp_path):
    (printed,) = finish(start("jax_recipes.py", tmp_path, backend="jax"), timeout=900)
    found = json.loads(printed.splitlines()[-1])
    assert found["resumed"] == 0.0  # bit by bit
    assert all(found[name] > 1e-4 for name in ("lora", "layers", "mixout", "few_sample"))
    assert found["attributions"] < 0.05  # their sum is the difference that they explain
    assert found["writing"]["stream is greedy"] and found["writing"]["beams"][0] is not None
    assert found["writing"]["sampled twice"] == 1
