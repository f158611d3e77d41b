"""Sampled softmax estimates the full one: exactly with all ids, on average with few; evaluation is the full softmax."""

import keras
import numpy as np
import pytest
from keras import ops
from tiny_encoders import CONFIG, batch, randomize

from keras_bert.pretraining.model import losses_and_metrics, pretraining_model
from keras_bert.pretraining.sampled_softmax import (
    DrawNegatives,
    RowScores,
    SampledCrossEntropy,
    SampledLogits,
    count_tokens,
    expected_counts,
    negative_weights,
)
from keras_bert.training.optimizers import bert_optimizer
from keras_bert.training.training_model import TrainingModel

MASKED, VOCABULARY = 3, CONFIG.vocabulary_size
COUNTS = np.random.default_rng(5).zipf(1.3, VOCABULARY).clip(max=10_000)
STILL = CONFIG.replace(dropout=0.0, attention_dropout=0.0)


def sampled_model(negatives=20, config=STILL, **options):
    model = pretraining_model(config, max_predictions=MASKED, negatives=negatives, seed=0, **options)
    randomize(model)
    return model


def data(rows=6, seed=0):
    """Inputs, labels and weights of a masked batch."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, VOCABULARY, (rows, MASKED)).astype("int32")
    positions = rng.integers(0, 8, (rows, MASKED)).astype("int32")
    weights = (np.arange(MASKED)[None] < rng.integers(1, MASKED + 1, (rows, 1))).astype("float32")
    labels = {"mlm_logits": ids, "nsp_logits": rng.integers(0, 2, rows).astype("int32")}
    inputs = {**batch(rows=rows, seed=seed), "masked_positions": positions, "masked_ids": ids}
    return inputs, labels, {"mlm_logits": weights, "nsp_logits": np.ones(rows, "float32")}


# === Drawing ===


@pytest.mark.parametrize("negatives", [1, 7, 60, 199, 200])
@pytest.mark.parametrize("power", [0.0, 1.0, 3.0])
def test_expected_counts_are_a_valid_design(negatives, power):
    weights = (1.0 + np.random.default_rng(0).permutation(200)) ** -power
    expected = expected_counts(weights, negatives)
    assert expected.sum() == pytest.approx(negatives, rel=1e-9)
    assert expected.min() > 0 and expected.max() <= 1
    free = expected < 1  # the others are in every draw; these are in proportion to their weights
    if free.any():
        ratio = expected[free] / weights[free]
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)


@pytest.mark.parametrize("token_counts", [None, COUNTS], ids=["zipf", "counts"])
def test_ids_are_drawn_as_often_as_expected(token_counts):
    layer, draws = DrawNegatives(VOCABULARY, 12, token_counts=token_counts, seed=3), 200
    expected = expected_counts(negative_weights(VOCABULARY, token_counts), 12)
    seen = np.zeros(VOCABULARY)
    for _ in range(draws):
        ids, log_expected = (ops.convert_to_numpy(x) for x in layer(np.zeros((1, 1)), training=True))
        np.testing.assert_allclose(np.exp(log_expected), expected[ids], rtol=1e-4)
        seen += np.bincount(ids, minlength=VOCABULARY)
    # Five standard deviations of a Bernoulli count; ids of expected count 1 have none, they come always.
    tolerance = 5 * np.sqrt(expected * (1 - expected) / draws) + 1e-9
    assert np.all(np.abs(seen / draws - expected) <= tolerance)


def test_outside_of_training_nothing_is_drawn():
    layer = DrawNegatives(VOCABULARY, 5, seed=3)
    before = ops.convert_to_numpy(layer.seed_generator.state)
    layer(np.zeros((1, 1)), training=False)
    np.testing.assert_array_equal(ops.convert_to_numpy(layer.seed_generator.state), before)


def test_token_counts():
    batches = [{"token_ids": np.array([[1, 1, 3]])}, {"token_ids": np.array([[0, 1]])}]
    assert count_tokens(batches, 5).tolist() == [1, 3, 0, 1, 0]
    with pytest.raises(ValueError, match="id 7, but vocabulary_size=5"):
        count_tokens([{"token_ids": np.array([7])}], 5)
    with pytest.raises(ValueError, match="expected 50 numbers of at least 0"):
        DrawNegatives(50, 5, token_counts=[1, 2, 3])


# === The estimate ===


def head(vectors, table, true_ids, negative_ids, log_expected):
    """The sampled logits as the model wires them, with NumPy for the table's rows."""
    full = ops.matmul(vectors, ops.transpose(table))
    true = RowScores()(vectors, ops.take(table, true_ids, axis=0))
    negative = RowScores()(vectors, ops.take(table, negative_ids, axis=0))
    return SampledLogits()(full, true, negative, true_ids, negative_ids, log_expected, training=True)


def test_with_all_ids_it_is_the_full_softmax():
    rng = np.random.default_rng(1)
    vectors, table = rng.normal(size=(4, MASKED, 8)).astype("float32"), rng.normal(size=(40, 8)).astype("float32")
    true_ids = rng.integers(0, 40, (4, MASKED)).astype("int32")
    drawn = DrawNegatives(40, 40, seed=1)(true_ids, training=True)
    logits = head(vectors, table, true_ids, *drawn)
    sampled = SampledCrossEntropy(40, reduction=None)(true_ids, logits)
    scores = vectors.astype("float64") @ table.T.astype("float64")
    log_z = np.log(np.exp(scores).sum(-1))
    full = log_z - np.take_along_axis(scores, true_ids[..., None], -1)[..., 0]
    np.testing.assert_allclose(ops.convert_to_numpy(sampled), full, atol=1e-5)


def test_a_truth_that_was_drawn_counts_once():
    vectors, table = np.ones((1, 1, 2), "float32"), np.array([[1, 0], [0, 2], [1, 1]], "float32")
    ids, negative_ids = np.array([[1]], "int32"), np.array([1, 2, 1], "int32")
    logits = ops.convert_to_numpy(head(vectors, table, ids, negative_ids, np.zeros(3, "float32")))
    assert logits[0, 0, [0, 2]].tolist() == [2.0, 2.0]
    assert np.exp(logits[0, 0, [1, 3]]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("token_counts", "tilt", "nearer_than", "uncorrected"),
    [(None, 0.0, 0.2, 0.4), (COUNTS, 0.5, 0.04, 0.1)],
    ids=["zipf", "counts"],
)
def test_the_mean_gradient_is_that_of_the_full_softmax(token_counts, tilt, nearer_than, uncorrected):
    """By the gradient's definition: the softmax, spread over the ids that the candidates stand for, less the truth.

    The distances are sums over all ids, at most 2. They do not go to 0 with the number of draws (the logarithm of an
    estimate is not an estimate of the logarithm), but are small where the likely ids are drawn.
    """
    rng, draws, truth = np.random.default_rng(2), 100, np.array([[17]], "int32")
    scores = rng.normal(size=VOCABULARY) + tilt * np.log(COUNTS)
    full = np.exp(scores) / np.exp(scores).sum()
    layer = DrawNegatives(VOCABULARY, 25, token_counts=token_counts, seed=4)
    means = np.zeros((2, VOCABULARY))
    as_rows, one = scores.astype("float32")[:, None], np.ones((1, 1, 1), "float32")
    for _ in range(draws):
        ids, log_expected = layer(one, training=True)
        for mean, correction in zip(means, (log_expected, ops.zeros_like(log_expected)), strict=True):
            logits = ops.convert_to_numpy(head(one, as_rows, truth, ids, correction))[0, 0]
            softmax = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
            np.add.at(mean, np.append(truth, ops.convert_to_numpy(ids)), softmax / draws)
    distances = np.abs(means - full).sum(-1)
    assert distances[0] < nearer_than
    assert distances[1] > uncorrected  # so the correction is what does it


# === The model ===


def test_evaluation_is_the_full_softmax():
    ours, plain = sampled_model(), pretraining_model(STILL, max_predictions=MASKED, seed=0)
    weights = {variable.path: variable for variable in ours.trainable_variables}
    assert sorted(weights) == sorted(variable.path for variable in plain.trainable_variables)
    for variable in plain.trainable_variables:
        variable.assign(np.array(weights[variable.path]))  # a copy: JAX gives buffers away when it steps
    inputs, labels, weights = data()
    results = []
    for model in (ours, plain):
        model.compile("sgd", **losses_and_metrics(model))
        features = {name: inputs[name] for name in model.input}
        results.append(model.evaluate(features, labels, sample_weight=weights, verbose=0, return_dict=True))
    assert results[0] == pytest.approx(results[1], rel=1e-6)
    assert tuple(ours(inputs)["mlm_logits"].shape) == (6, MASKED, VOCABULARY)
    assert tuple(ours(inputs, training=True)["mlm_logits"].shape) == (6, MASKED, 21)


def test_counts_are_what_the_model_begins_with():
    batches = [{"token_ids": np.array([[2, 7, 7, 3], [2, 8, 3, 0]])}]
    counts = count_tokens(batches, 10, leave_out=(0, 2, 3))
    assert counts.tolist() == [0, 0, 0, 0, 0, 0, 0, 2, 1, 0]
    model = pretraining_model(STILL.replace(vocabulary_size=10), max_predictions=2, token_counts=counts, seed=0)
    bias = np.array(model.get_layer("mlm_bias").bias)
    np.testing.assert_allclose(np.exp(bias), (counts + 1) / 13, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("model_class", [keras.Model, TrainingModel])
def test_it_learns_with_fit_under_xla(model_class):
    config = STILL.replace(num_layers=1)
    model = pretraining_model(
        config, max_predictions=MASKED, negatives=15, token_counts=COUNTS, seed=0, model_class=model_class
    )
    model.compile(bert_optimizer(5e-3, 120), **losses_and_metrics(model), jit_compile=True)
    inputs, labels, weights = data(rows=12)
    before = model.evaluate(inputs, labels, sample_weight=weights, verbose=0, return_dict=True)
    repeated = keras.tree.map_structure(lambda rows: np.concatenate([rows] * 120), (inputs, labels, weights))
    model.fit(*repeated[:2], sample_weight=repeated[2], batch_size=12, verbose=0, shuffle=False)
    after = model.evaluate(inputs, labels, sample_weight=weights, verbose=0, return_dict=True)
    assert after["mlm_logits_perplexity"] < before["mlm_logits_perplexity"] / 5
    assert after["mlm_logits_accuracy"] > 0.5  # before: 0.04


def test_the_file_round_trip(tmp_path):
    model = sampled_model(token_counts=COUNTS)
    model.compile(bert_optimizer(1e-3, 10), **losses_and_metrics(model))
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    inputs, labels, weights = data()
    for training in (False, True):  # the state of the draws is saved too
        ours, theirs = (m(inputs, training=training)["mlm_logits"] for m in (model, loaded))
        np.testing.assert_array_equal(ops.convert_to_numpy(ours), ops.convert_to_numpy(theirs))
    ours, theirs = (m.evaluate(inputs, labels, sample_weight=weights, verbose=0) for m in (model, loaded))
    assert ours == theirs


@pytest.mark.parametrize("negatives", [0, -1, 2.5, True, VOCABULARY - 1, VOCABULARY])
def test_bad_negatives(negatives):
    with pytest.raises(ValueError, match=f"negatives={negatives}: expected an integer from 1 to {VOCABULARY - 2}"):
        sampled_model(negatives)
