"""A run that is killed and started again gives the numbers of one that was not."""

import json
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest
from places import HELPERS
from tiny_encoders import CONFIG
from tiny_masked import MASKED, masked_batch

from keras_bert.pretraining.model import features_and_labels, losses_and_metrics, pretraining_model
from keras_bert.training.optimizers import bert_optimizer
from keras_bert.training.resume import SaveState, restore_state, save_state


def start(directory, epochs):
    command = [sys.executable, HELPERS / "resumed_run.py", directory, str(epochs)]
    return subprocess.Popen(command, cwd=HELPERS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def losses(lines):
    return {row["epoch"]: row["loss"] for row in map(json.loads, lines)}


@pytest.mark.slow
def test_killed_run_continues_as_if_nothing_had_happened(tmp_path):
    whole = start(tmp_path / "whole", 8)
    killed = start(tmp_path / "killed", 8)
    before = [killed.stdout.readline() for _ in range(3)]
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    again = start(tmp_path / "killed", 8)
    after, errors = again.communicate(timeout=300)
    expected = losses(whole.communicate(timeout=300)[0].splitlines())
    assert again.returncode == 0, errors[-2000:]
    assert list(expected) == list(range(8))
    continued = losses(after.splitlines())
    assert min(continued) in (3, 4)  # it went on, rather than starting anew
    for epoch, loss in {**losses(before), **continued}.items():
        assert loss == pytest.approx(expected[epoch], abs=1e-5), epoch
    assert {*losses(before), *continued} == set(expected)


def compiled(seed=0, **changes):
    model = pretraining_model(CONFIG.replace(**changes), max_predictions=MASKED, seed=seed)
    model.compile(bert_optimizer(1e-3, 100), jit_compile=False, **losses_and_metrics(model))
    return model


def train(model, steps):
    inputs, labels, weights = features_and_labels(masked_batch())
    return [float(model.train_on_batch(inputs, labels, sample_weight=weights)[0]) for _ in range(steps)]


def test_state_has_weights_optimizer_and_dropout_seeds(tmp_path):
    model = compiled()
    train(model, 2)
    save_state(model, tmp_path)
    other = compiled(seed=5)
    assert restore_state(other, tmp_path) == 2
    model.reset_metrics()
    np.testing.assert_allclose(train(other, 3), train(model, 3), atol=1e-6)


def test_nothing_saved_yet_is_step_zero(tmp_path):
    assert restore_state(compiled(), tmp_path / "none") == 0


def test_only_the_newest_are_kept_and_partial_ones_ignored(tmp_path):
    model = compiled()
    for _ in range(3):
        train(model, 1)
        save_state(model, tmp_path, keep=2)
    (tmp_path / ".step-000000009.partial").mkdir()
    assert sorted(path.name for path in tmp_path.glob("step-*")) == ["step-000000002", "step-000000003"]
    assert restore_state(compiled(), tmp_path) == 3


@pytest.mark.slow
def test_full_disk_leaves_the_last_good_state(tmp_path, monkeypatch):
    model = compiled()
    train(model, 1)
    good = save_state(model, tmp_path)
    content = (good / "state.safetensors").read_bytes()
    train(model, 1)

    def full(arrays, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("keras_bert.training.resume.save_file", full)
    with pytest.raises(
        OSError, match="step 2 could not be written .*No space left.* last good state is .*step-000000001"
    ):
        save_state(model, tmp_path)
    assert (good / "state.safetensors").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001"]


@pytest.mark.slow
def test_state_of_another_model_and_damage_are_named(tmp_path):
    model = compiled()
    train(model, 1)
    saved = save_state(model, tmp_path)
    with pytest.raises(ValueError, match="state of another model or optimizer; these differ"):
        restore_state(compiled(num_layers=1), tmp_path)
    path = saved / "state.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="is damaged .*resume from the state before it"):
        restore_state(compiled(), tmp_path)


def test_a_directory_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").touch()
    callback = SaveState(tmp_path / "file" / "state")
    with pytest.raises(OSError, match="cannot be written .*choose another directory"):
        callback.on_train_begin()
    with pytest.raises(ValueError, match="at least one state"):
        SaveState(tmp_path, keep=0)
    assert isinstance(callback, keras.callbacks.Callback)
