"""Weights become zero by tfmot's schedule while `fit` trains: exactly as many as asked, and a killed run goes on."""

import functools

import numpy as np
import pytest
from tiny_tasks import DEEP_CONFIG, pretrained_directory, reviews

import export
from export.compression.pruning import _make_schedule, compressed_size, prune
from export.compression.students import pick_layers, take_layers
from export.file.ops import audit_ops
from export.quantization.tfmot import load_tfmot
from keras_bert.model.weights import to_numpy
from keras_bert.tasks.classification.task import TextClassifier

FAST = {"learning_rate": 1e-3, "batch_size": 16, "verbose": 0}
TRAIN, CHECK = reviews(64, seed=1), reviews(40, seed=2)


@functools.cache
def trained():
    """A classifier that passes for a trained one: its weights are random, and large enough to learn quickly."""
    task = TextClassifier.from_pretrained(pretrained_directory(DEEP_CONFIG), labels=["bad", "good"], sequence_length=32)
    task.fresh_heads = False
    return take_layers(task, pick_layers(2, 1))  # tracing the steps takes most of the time


def kernels(task):
    return {w.path: to_numpy(w) for w in task.model.weights if w.path.startswith("block") and w.path.endswith("kernel")}


@functools.cache
def pruned():
    return prune(trained(), *TRAIN, sparsity=0.7, epochs=3, validation_data=CHECK, **FAST)


def test_every_matrix_is_exactly_as_sparse_as_asked():
    task, report = pruned()
    assert len(report.sparsity) == 6
    for path, kernel in kernels(task).items():
        assert np.sum(kernel == 0) == round(0.7 * kernel.size), path
        assert report.sparsity[path] == pytest.approx(0.7, abs=1e-3)
    assert not any(np.any(kernel == 0) for kernel in kernels(trained()).values())  # the task itself stays as it is
    assert np.all(to_numpy(task.model.get_layer("token_embedding").embeddings) != 0)
    assert sorted(w.path for w in task.model.weights) == sorted(w.path for w in trained().model.weights)
    assert 0.3 < report.compressed_after / report.compressed_before < 0.5  # 30 % of the bytes, and where they are
    assert "70.0% of the 8,192 weights of 6 matrices are zero" in str(report)
    assert report.training.parameters.trained == report.training.parameters.total  # masks are none


def test_weights_that_are_not_yet_sparse_are_never_kept():
    _, report = pruned()
    first, *_, last = report.training.measurements  # 4 steps an epoch; the last cut is in the second
    assert first["val_accuracy"] == -np.inf and 0 <= first["not_yet_sparse"] <= 1
    assert last["val_accuracy"] == report.training.best.score >= 0


def test_the_schedule_is_tfmots_and_its_last_cut_falls_on_the_last_step():
    schedule = _make_schedule(0.5, 100, None, None, 7)
    assert (schedule.begin_step, schedule.end_step) == (10, 66)  # 8 times 7 steps
    assert isinstance(schedule, load_tfmot().sparsity.keras.PolynomialDecay)
    due, share = schedule(schedule.end_step)
    assert bool(due) and float(share) == 0.5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sparsity": 1.0}, "the share of zeros, between 0 and 1"),
        ({"begin": 4, "end": 4}, "expected 0 ≤ begin < end ≤ 4, the steps of the training"),
        ({"begin": 0, "end": 9}, "more epochs or a smaller batch_size"),
        ({"begin": 1, "end": 3, "frequency": 5}, "expected 1 to 2, the steps from begin to end"),
        ({"recipe": "lora"}, "pruning trains all weights"),
    ],
)
def test_what_cannot_be_pruned_is_said(options, words):
    with pytest.raises(ValueError, match=words):
        prune(trained(), *TRAIN, epochs=1, **options, **FAST)


def test_a_killed_run_goes_on_with_its_masks(tmp_path, monkeypatch):
    options = {"sparsity": 0.5, "begin": 1, "end": 3, "frequency": 2, "epochs": 3, "evaluations": 3, **FAST}
    whole, _ = prune(trained(), *TRAIN, validation_data=CHECK, **options)
    original, calls = TextClassifier.score, []

    def dies(self, *args):
        calls.append(1)
        if len(calls) == 2:  # after four steps, the last cut among them, were saved
            raise MemoryError
        return original(self, *args)

    with monkeypatch.context() as context:
        context.setattr(TextClassifier, "score", dies)
        with pytest.raises(MemoryError):
            prune(trained(), *TRAIN, validation_data=CHECK, directory=tmp_path, **options)
    resumed, report = prune(trained(), *TRAIN, validation_data=CHECK, directory=tmp_path, **options)
    for path, kernel in kernels(resumed).items():
        assert np.mean(kernel == 0) == 0.5  # no cut came after the resume: the masks came from the disk
        np.testing.assert_allclose(kernel, kernels(whole)[path], atol=1e-6)
    assert report.training.runs[0].steps == 12


def test_a_teacher_helps(tmp_path):
    options = {"sparsity": 0.5, "epochs": 2, **FAST}
    task, report = prune(trained(), TRAIN[0], teacher=trained(), label_weight=0, **options)  # and no labels
    assert all(np.mean(kernel == 0) == 0.5 for kernel in kernels(task).values())
    # Nothing but the teacher to aim at: the student stays near it, though half of its weights are gone.
    before, after = trained().logits(CHECK[0]), task.logits(CHECK[0])
    assert np.corrcoef(before[:, 0] - before[:, 1], after[:, 0] - after[:, 1])[0, 1] > 0.5
    file = export.convert(task, tmp_path / "sparse.tflite", recipe="float32", lengths=16)
    assert audit_ops(file.path, count_partitions=True).partitions == {"length_16": 1}
    assert report.training.metric == "training_accuracy"


def test_zeros_compress():
    random = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    assert compressed_size([random * (np.arange(10_000) % 4 == 0)]) < 0.4 * compressed_size([random])
