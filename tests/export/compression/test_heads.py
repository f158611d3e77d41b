"""Heads, neurons and blocks that matter little are cut out of a trained model; what is left computes as before."""

import copy
import dataclasses
import functools

import numpy as np
import pytest
from tiny_tasks import DEEP_CONFIG, pretrained_directory, reviews

from export.compression.heads import _NEURONS, _copy_best, remove_heads, remove_neurons
from export.compression.importance import part_importance
from export.compression.layers import remove_layers
from export.compression.students import pick_layers, take_layers
from export.file.ops import audit_ops
from export.runtime import load
from export.tasks.base.measuring import measure, prepare, training_step
from export.tflite.conversion import convert
from keras_bert.checkpoint import CheckpointError, save_pretrained
from keras_bert.decoding import softmax
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.weights import to_numpy
from keras_bert.tasks.classification.task import TextClassifier

TEXTS, LABELS = reviews(48, seed=11)


@functools.cache
def trained():
    """A classifier that passes for a trained one: what matters to it is as random as its weights."""
    task = TextClassifier.from_pretrained(pretrained_directory(DEEP_CONFIG), labels=["bad", "good"], sequence_length=32)
    task.fresh_heads = False
    return task


def changed(**weights):
    """The trained classifier with some weights changed, by path with `__` for `/`: a function of the old value."""
    task = trained().on_encoder(trained().config)
    values = {weight.path: to_numpy(weight) for weight in trained().model.weights}
    for path, change in weights.items():
        values[path.replace("__", "/")] = change(values[path.replace("__", "/")])
    for weight in task.model.weights:
        weight.assign(values[weight.path])
    task.fresh_heads = False
    return task


def zero_rows(first, last):
    def change(kernel):
        kernel[first:last] = 0
        return kernel

    return change


@pytest.mark.slow
def test_a_head_that_is_not_heard_goes_first_and_nothing_changes(tmp_path):
    silent = changed(
        block_0__attention__output__kernel=zero_rows(16, 32), block_1__attention__output__kernel=zero_rows(0, 16)
    )
    smaller, report = remove_heads(silent, TEXTS, LABELS, keep=1, verbose=False)
    assert report.kept == ((0,), (1,)) and report.importance[0][1] == report.importance[1][0] == 0
    assert (smaller.config.num_heads, smaller.config.head_dim, smaller.config.attention_dim) == (1, 16, 16)
    np.testing.assert_allclose(smaller.logits(TEXTS), silent.logits(TEXTS), atol=1e-5)
    # Two blocks have three matrices of 32 × 32 with biases and one without, each half as large now.
    assert report.parameters_before - report.parameters_after == 2 * (3 * (32 * 16 + 16) + 16 * 32)
    assert "1 of 2 heads stay" in str(report) and "block 1" in str(report) and "without heads 2" in str(report)
    smaller.save(tmp_path / "small")
    again = TextClassifier.load(tmp_path / "small")
    assert again.config == smaller.config
    np.testing.assert_array_equal(again.logits(TEXTS[:4]), smaller.logits(TEXTS[:4]))


@pytest.mark.slow
def test_a_model_with_fewer_heads_exports_in_one_partition(tmp_path):
    smaller, _ = remove_heads(trained(), TEXTS, LABELS, keep=1, verbose=False)
    file = convert(smaller, tmp_path / "small.tflite", recipe="float32", lengths=16)
    assert audit_ops(file.path, count_partitions=True).partitions == {"length_16": 1}
    assert file.num_bytes < 0.9 * convert(trained(), tmp_path / "large.tflite", recipe="float32", lengths=16).num_bytes
    answers = load(tmp_path / "small.tflite")(TEXTS[:4])
    for ours, theirs in zip(answers, smaller.predict(TEXTS[:4]), strict=True):
        assert ours[0].name == theirs[0].name and ours[0].probability == pytest.approx(theirs[0].probability, abs=1e-4)
    for format in ("google", "keras_hub"):
        with pytest.raises(CheckpointError, match="cannot express"):
            save_pretrained(bert_encoder(smaller.config), tmp_path / format, format=format)


def test_neurons_that_are_not_heard_go_first_and_nothing_changes():
    silent = changed(block_0__output__kernel=zero_rows(10, 42), block_1__output__kernel=zero_rows(0, 32))
    smaller, report = remove_neurons(silent, TEXTS, LABELS, share=0.5, verbose=False)
    assert report.kept == ((*range(10), *range(42, 64)), tuple(range(32, 64)))
    assert smaller.config.intermediate_dim == 32
    np.testing.assert_allclose(smaller.logits(TEXTS), silent.logits(TEXTS), atol=1e-5)
    assert report.score_before == report.score_after and report.loss_after == pytest.approx(
        report.loss_before, abs=1e-5
    )


def test_what_others_can_give_is_fitted():
    """A neuron that is another's double is not missed: whoever stays takes over."""

    def double(array):  # what goes into the second neuron, and what comes out of it
        array[..., 1] = array[..., 0]
        return array

    twins = changed(block_0__intermediate__kernel=double, block_0__intermediate__bias=double)
    found = part_importance(*prepare(twins, TEXTS, LABELS), "neurons")
    lowest = found.importance[0].copy()
    lowest[:2] = (0.0, 1.0)  # the first of the two goes
    only = dataclasses.replace(found, importance=np.stack([lowest + (np.arange(64) > 1) * 2, found.importance[1]]))
    smaller = twins.on_encoder(twins.config.replace(intermediate_dim=63, num_layers=1))
    shorter = take_layers(twins, pick_layers(2, 1, [0]))
    kept = _copy_best(shorter, smaller, dataclasses.replace(only, importance=only.importance[:1]), 63, _NEURONS)
    assert kept == (tuple(range(1, 64)),)
    np.testing.assert_allclose(smaller.logits(TEXTS), shorter.logits(TEXTS), atol=2e-3)
    out = to_numpy(shorter.model.get_layer("block_0").output_dense.kernel)
    both = to_numpy(smaller.model.get_layer("block_0").output_dense.kernel)[0]
    assert np.linalg.norm(both - out[0] - out[1]) < 0.3 * np.linalg.norm(out[0] + out[1])


@pytest.mark.slow
def test_importance_is_the_derivative_by_a_parts_scale():
    """Against differences: what a head or a neuron feeds into its matrix, scaled up and down, text by text."""
    texts, labels = TEXTS[:6], [["bad", "good"].index(label) for label in LABELS[:6]]
    ready, step = prepare(trained(), texts, LABELS[:6]), 1e-2
    for layer, part, measured in (
        ("block_0__attention__output__kernel", slice(0, 16), part_importance(*ready, "heads").importance[0][0]),
        ("block_1__output__kernel", slice(5, 6), part_importance(*ready, "neurons").importance[1][5]),
    ):
        up, down = (losses(changed(**{layer: scaled(part, 1 + sign * step)}), texts, labels) for sign in (1, -1))
        assert measured == pytest.approx(np.mean(np.abs(up - down)) / (2 * step), rel=0.02)


def scaled(rows, factor):
    def change(kernel):
        kernel[rows] *= factor
        return kernel

    return change


def losses(task, texts, labels):
    return -np.log(softmax(task.logits(texts).astype(np.float64))[np.arange(len(texts)), labels])


@pytest.mark.slow
def test_importance_is_the_same_packed_or_not():
    ready, data = prepare(trained(), TEXTS, LABELS)
    packed = part_importance(ready, data, "heads")
    assert "example_starts" in training_step(ready, data)[1].element_spec[0]
    apart = copy.copy(ready)
    apart.__class__ = type("Apart", (TextClassifier,), {"trains_packed": False})
    plain = part_importance(apart, data, "heads")
    for name in ("importance", "means", "covariances"):
        np.testing.assert_allclose(getattr(packed, name), getattr(plain, name), rtol=2e-3, atol=1e-6)


@pytest.mark.slow
def test_the_block_that_is_missed_least_goes(capsys):
    config = trained().config.replace(num_layers=3)
    longer = trained().on_encoder(config)
    values = {weight.path: to_numpy(weight) for weight in trained().model.weights}
    # A third block between the two that nearly copies its input: it adds nothing, and its norms are those before it.
    for weight in longer.model.weights:
        layer, _, rest = weight.path.partition("/")
        source = {"block_1": "block_0", "block_2": "block_1"}.get(layer, layer)
        weight.assign(values[f"{source}/{rest}"])
        if layer == "block_1" and ("output/" in rest):
            weight.assign(np.zeros(weight.shape))
        if layer == "block_1" and "norm" in rest:
            weight.assign(np.ones(weight.shape) if rest.endswith("gamma") else np.zeros(weight.shape))
    longer.fresh_heads = False
    shorter, report = remove_layers(longer, TEXTS, LABELS, keep=2)
    assert report.kept == (0, 2) and report.removed == (1,) and len(report.rounds[0]) == 3
    assert shorter.config.num_layers == 2 and "without block 2" in capsys.readouterr().out
    np.testing.assert_allclose(shorter.logits(TEXTS), trained().logits(TEXTS), atol=1e-6)
    assert report.loss_after == pytest.approx(measure(*prepare(trained(), TEXTS, LABELS), "accuracy")[0], rel=1e-4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "pass one of the two"),
        ({"keep": 1, "share": 0.5}, "pass one of the two"),
        ({"keep": 3}, "a block has 2 heads, expected 1 to 2"),
        ({"share": 1.0}, "the share of heads to remove"),
    ],
)
def test_what_cannot_be_removed_is_said(options, words):
    with pytest.raises(ValueError, match=words):
        remove_heads(trained(), TEXTS, LABELS, **options)


def test_untrained_models_and_too_many_blocks_are_refused():
    untrained = TextClassifier.from_pretrained(
        pretrained_directory(DEEP_CONFIG), labels=["bad", "good"], sequence_length=32
    )
    with pytest.raises(ValueError, match="untrained"):
        remove_heads(untrained, TEXTS, LABELS, keep=1)
    with pytest.raises(ValueError, match="the model has 2 blocks"):
        remove_layers(trained(), TEXTS, LABELS, keep=3)
