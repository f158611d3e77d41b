"""A model that grows by copies of its blocks goes on with weights, moments, step and schedule; killed, it resumes."""

from dataclasses import replace

import numpy as np
import pytest
from pretraining_run import CONFIG, PLAN, TOKENIZER, write_tiny_examples

from keras_bert.checkpoint import load_model
from keras_bert.model.encoder import encoder_config
from keras_bert.model.weights import to_numpy
from keras_bert.pretraining import records
from keras_bert.pretraining.batches import token_counts, training_batches
from keras_bert.pretraining.budget import fit_to_budget
from keras_bert.pretraining.growth import stack_blocks
from keras_bert.pretraining.plan import Phase, PretrainingPlan
from keras_bert.pretraining.run import compiled_model, pretrain
from keras_bert.training.devices import Devices, choose_devices

DEEP = CONFIG.replace(num_layers=4)
GROWING = replace(PLAN, steps=12, save_every=2, growth=((1, 4), (2, 8)))


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    return write_tiny_examples(tmp_path_factory.mktemp("corpus") / "examples")


@pytest.fixture(autouse=True)
def without_xla(monkeypatch):
    options = Devices.compile_options
    monkeypatch.setattr(Devices, "compile_options", lambda *a, **k: {**options(*a, **k), "jit_compile": False})


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_blocks_and_moments_are_repeated(examples, precision):
    devices, counts = choose_devices("one", precision=precision), token_counts(examples, TOKENIZER)
    with devices.scope():
        small, large = (
            compiled_model(examples, CONFIG.replace(num_layers=layers), GROWING, devices, counts) for layers in (2, 4)
        )
        batches = training_batches(examples, CONFIG, TOKENIZER, GROWING)
        small.fit(batches.take(4), shuffle=False, verbose=0)
        stack_blocks(small, large)
    theirs, ours = ({v.path: to_numpy(v) for v in model.weights} for model in (small, large))
    for path, value in ours.items():
        origin = path.replace("block_2/", "block_0/").replace("block_3/", "block_1/")
        np.testing.assert_array_equal(value, theirs[origin])
    optimizers = [getattr(model.optimizer, "inner_optimizer", model.optimizer) for model in (small, large)]
    assert {int(to_numpy(optimizer.iterations)) for optimizer in optimizers} <= set(range(1, 5))
    assert to_numpy(optimizers[0].iterations) == to_numpy(optimizers[1].iterations)
    moments = [
        {v.path: to_numpy(m) for v, m in zip(model.trainable_variables, optimizer._momentums, strict=True)}
        for model, optimizer in zip((small, large), optimizers, strict=True)
    ]
    name = "attention/value/kernel"
    assert np.abs(moments[1][f"block_3/{name}"]).max() > 0
    np.testing.assert_array_equal(moments[1][f"block_3/{name}"], moments[0][f"block_1/{name}"])
    np.testing.assert_array_equal(moments[1]["embeddings/position"], moments[0]["embeddings/position"])


@pytest.mark.slow
@pytest.mark.parametrize("stop", [4, 6, 8])  # at the end of a model, in the middle of one, at the end of the next
def test_interrupted_it_goes_on_as_if_nothing_had_happened(examples, tmp_path, monkeypatch, stop):
    whole = pretrain(examples, tmp_path / "whole", DEEP, TOKENIZER, GROWING, verbose=0)
    assert whole["step"] == [2, 4, 6, 8, 10, 12]
    begin = records.RecordHistory.on_epoch_begin

    def interrupt(self, epoch, logs=None):
        if epoch * GROWING.save_every == stop:
            raise KeyboardInterrupt
        begin(self, epoch, logs)

    with monkeypatch.context() as patch:
        patch.setattr(records.RecordHistory, "on_epoch_begin", interrupt)
        with pytest.raises(KeyboardInterrupt, match=f"state after step {stop} is in"):
            pretrain(examples, tmp_path / "stopped", DEEP, TOKENIZER, GROWING, verbose=0)
    resumed = pretrain(examples, tmp_path / "stopped", DEEP, TOKENIZER, GROWING, verbose=0)
    np.testing.assert_allclose(resumed["loss"], whole["loss"], atol=1e-5)
    np.testing.assert_allclose(resumed["learning_rate"], whole["learning_rate"])
    model, _ = load_model(tmp_path / "stopped" / "model")
    assert encoder_config(model).num_layers == 4


def test_bad_growth_is_named(examples, tmp_path):
    with pytest.raises(ValueError, match="goes by steps; give their number instead of a budget"):
        fit_to_budget(Phase(examples=examples, plan=GROWING), tmp_path, DEEP, TOKENIZER, 600.0)
    with pytest.raises(ValueError, match="steps rise, are multiples of save_every=500 and stay below steps=1000"):
        PretrainingPlan(steps=1000, growth=((1, 1000),))
    with pytest.raises(ValueError, match="2 blocks are no multiple of 3; grow by whole copies"):
        PretrainingPlan(steps=1000, growth=((3, 500),)).stages(CONFIG.replace(num_layers=2))
    with pytest.raises(ValueError, match="1 blocks are no multiple of 2"):
        pretrain(examples, tmp_path, CONFIG, TOKENIZER, replace(GROWING, growth=((2, 4),)), verbose=0)
