"""The CRF's numbers are those of all paths, one by one; so is its gradient, with and without XLA, and on JAX."""

import itertools
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tasks.tagging.crf import CRFLoss, LinearChainCRF, crf_log_likelihood

CLASSES = 3


def random_potentials(batch=4, tokens=5, seed=0):
    return np.random.default_rng(seed).normal(0, 2, (batch, tokens, CLASSES + 1, CLASSES)).astype("float32")


# Gaps at the beginning, in the middle and at the end; none; one label alone; none at all.
LABELS = np.array([[-1, 2, 0, -1, 1], [0, 1, 2, 0, 1], [-1, -1, 1, -1, -1], [-1] * 5], np.int32)


def path_scores(potentials, places):
    """The score of every path over some tokens, by adding up: `{path: score}`."""
    scores = {}
    for path in itertools.product(range(CLASSES), repeat=len(places)):
        before = (CLASSES, *path)
        scores[path] = sum(potentials[t, before[k], path[k]] for k, t in enumerate(places))
    return scores


def brute_force(potentials, labels):
    """The log-likelihood of a row in TensorFlow ops, so that its gradient is an oracle too."""
    places = [t for t, label in enumerate(labels) if label >= 0]
    if not places:
        return tf.constant(0.0)
    scores = path_scores(potentials, places)
    total = tf.reduce_logsumexp(tf.stack(list(scores.values())))
    return scores[tuple(int(labels[t]) for t in places)] - total


@pytest.mark.parametrize("compiled", [False, True])
def test_likelihood_and_gradient_are_those_of_all_paths(compiled):
    potentials = tf.constant(random_potentials())

    # No static shape: as in training, where batches have many widths.
    spec = [tf.TensorSpec([None, None, CLASSES + 1, CLASSES]), tf.TensorSpec([None, None], tf.int32)]

    @tf.function(input_signature=spec, jit_compile=compiled)
    def ours(potentials, labels):
        with tf.GradientTape() as tape:
            tape.watch(potentials)
            values = crf_log_likelihood(potentials, labels)
        return values, tape.gradient(values, potentials)

    values, gradient = ours(potentials, tf.constant(LABELS))
    with tf.GradientTape() as tape:
        tape.watch(potentials)
        expected = tf.stack([brute_force(potentials[row], LABELS[row]) for row in range(len(LABELS))])
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient, tape.gradient(expected, potentials), atol=1e-5)


def test_forbidden_paths_are_no_part_of_the_sum():
    forbidden = np.zeros((CLASSES, CLASSES), bool)
    forbidden[0, 2] = forbidden[2, 2] = True
    layer, logits = LinearChainCRF(forbidden=forbidden), np.random.default_rng(1).normal(size=(1, 4, CLASSES))
    potentials = layer(logits.astype("float32"))
    scores = path_scores(logits[0][:, None, :].repeat(CLASSES + 1, 1), range(4))
    legal = {p: s for p, s in scores.items() if not any(forbidden[pair] for pair in itertools.pairwise(p))}
    assert len(legal) < len(scores)
    path = (1, 2, 0, 1)
    expected = legal[path] - np.log(sum(np.exp(list(legal.values()))))
    np.testing.assert_allclose(crf_log_likelihood(potentials, np.array([path], "int32")), [expected], rtol=1e-5)


def test_loss_weighted_by_labels_is_the_mean_over_all_tags():
    potentials = random_potentials()
    counts = (LABELS >= 0).sum(1).astype("float32")
    loss = CRFLoss()(LABELS, potentials, sample_weight=counts)
    expected = -np.sum(crf_log_likelihood(potentials, LABELS)) / counts.sum()
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_transitions_learn_faster_and_their_gradient_is_not_larger():
    layer, plain = LinearChainCRF(scale=100.0), LinearChainCRF(scale=1.0)
    logits, labels = tf.random.stateless_normal((2, 4, CLASSES), (0, 1)), np.array([[0, 1, 2, 0], [1, 1, 0, 2]])
    start = np.random.default_rng(2).normal(size=(CLASSES + 1, CLASSES))
    gradients = []
    for one in (layer, plain):
        one.build(logits.shape)
        one.set_transitions(start)
        np.testing.assert_allclose(one.transitions, start, rtol=1e-5)
        with tf.GradientTape() as tape:
            loss = CRFLoss()(labels, one(logits))
        gradients.append(tape.gradient(loss, one.kernel.value))
    np.testing.assert_allclose(*gradients, atol=1e-6)
    layer.kernel.assign_add(np.full((CLASSES + 1, CLASSES), 0.001))
    np.testing.assert_allclose(layer.transitions, start + 0.1, rtol=1e-4, atol=1e-5)


def test_layer_and_loss_survive_saving(tmp_path):
    inputs = keras.Input((None, CLASSES))
    layer = LinearChainCRF(scale=7.0, forbidden=np.eye(CLASSES, dtype=bool))
    model = keras.Model(inputs, layer(inputs))
    layer.set_transitions(np.arange(12.0).reshape(4, 3))
    model.compile("sgd", CRFLoss())
    model.save(tmp_path / "crf.keras")
    loaded = keras.saving.load_model(tmp_path / "crf.keras")
    x = random_potentials()[:, :, 0, :]
    np.testing.assert_array_equal(loaded(x), model(x))
    assert isinstance(loaded.loss, CRFLoss)
    with pytest.raises(ValueError, match="forbidden has shape"):
        LinearChainCRF(forbidden=np.zeros((2, 2))).build((None, None, 3))


def test_jax_gives_the_same_numbers(tmp_path):
    potentials = random_potentials()
    np.savez(tmp_path / "in.npz", potentials=potentials, labels=LABELS)
    code = (
        "import sys, numpy as np, jax\n"
        "from keras_bert.tasks.tagging.crf import crf_log_likelihood\n"
        "given = np.load(sys.argv[1])\n"
        "total = jax.jit(lambda p: crf_log_likelihood(p, jax.numpy.asarray(given['labels'])).sum())\n"
        "value, gradient = jax.value_and_grad(total)(jax.numpy.asarray(given['potentials']))\n"
        "np.savez(sys.argv[2], value=value, gradient=gradient)\n"
    )
    command = [sys.executable, "-c", code, tmp_path / "in.npz", tmp_path / "out.npz"]
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = np.load(tmp_path / "out.npz")
    with tf.GradientTape() as tape:
        tensor = tf.constant(potentials)
        tape.watch(tensor)
        value = tf.reduce_sum(crf_log_likelihood(tensor, LABELS))
    np.testing.assert_allclose(theirs["value"], value, rtol=1e-5)
    np.testing.assert_allclose(theirs["gradient"], tape.gradient(value, tensor), atol=1e-5)
