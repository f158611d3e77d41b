"""Optimizers against their papers' formulas in NumPy."""

import keras
import numpy as np
import pytest

from keras_bert.training.optimizers import Lamb, WarmupLinearDecay, bert_optimizer


def run(optimizer, start, gradients, names):
    variables = [keras.Variable(value, name=name) for value, name in zip(start, names, strict=True)]
    for step in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(g) for g in step], variables)
    return [keras.ops.convert_to_numpy(v) for v in variables]


def random_problem(steps=5):
    rng = np.random.default_rng(0)
    start = [rng.normal(size=(3, 4)).astype("float32"), rng.normal(size=4).astype("float32")]
    gradients = [[rng.normal(size=x.shape).astype("float32") for x in start] for _ in range(steps)]
    return start, gradients


def reference(start, gradients, rates, *, lamb, decay, epsilon=1e-6, clip=1.0):
    """AdamW and LAMB in float64; the second variable is a bias and does not decay."""
    weights = [x.astype("float64") for x in start]
    momentum, velocity = ([np.zeros_like(w) for w in weights] for _ in range(2))
    for step, (grads, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        norm = np.sqrt(sum((g.astype("float64") ** 2).sum() for g in grads))
        for i, g in enumerate(grads):
            g = g * min(1.0, clip / norm)
            momentum[i] = 0.9 * momentum[i] + 0.1 * g
            velocity[i] = 0.999 * velocity[i] + 0.001 * g**2
            update = momentum[i] / (1 - 0.9**step) / (np.sqrt(velocity[i] / (1 - 0.999**step)) + epsilon)
            if i == 0:
                update = update + decay * weights[i]
            ratio = np.linalg.norm(weights[i]) / np.linalg.norm(update) if lamb else 1.0
            weights[i] = weights[i] - rate * ratio * update
    return weights


@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_equals_the_paper(name):
    start, gradients = random_problem()
    schedule = WarmupLinearDecay(0.01, 10, 2)
    rates = [float(schedule(step)) for step in range(5)]
    optimizer = bert_optimizer(0.01, 10, name=name, warmup=0.2, weight_decay=0.1)
    expected = reference(start, gradients, rates, lamb=name == "lamb", decay=0.1)
    for ours, paper in zip(run(optimizer, start, gradients, ["kernel", "bias"]), expected, strict=True):
        np.testing.assert_allclose(ours, paper, atol=1e-5)


def test_schedule_climbs_and_falls():
    schedule = WarmupLinearDecay(2.0, total_steps=30, warmup_steps=10, final=1.0)
    steps = [0, 5, 10, 20, 30, 99]
    np.testing.assert_allclose([float(schedule(s)) for s in steps], [0, 1, 2, 1.5, 1, 1], atol=1e-6)
    twin = WarmupLinearDecay.from_config(schedule.get_config())
    assert float(twin(7)) == float(schedule(7))


def test_optimizers_serialize():
    for name in ("adamw", "lamb"):
        optimizer = bert_optimizer(1e-3, 100, name=name)
        twin = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
        assert type(twin) is type(optimizer)
        assert twin.get_config() == optimizer.get_config()
    assert isinstance(twin, Lamb)


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="name='sgd' is unknown"):
        bert_optimizer(1e-3, 10, name="sgd")
    with pytest.raises(ValueError, match="expected fewer warm-up steps than steps"):
        WarmupLinearDecay(1e-3, 10, 10)
    with pytest.raises(ValueError, match="warmup=2: expected a fraction of the steps"):
        bert_optimizer(1e-3, 10, warmup=2)
