"""What is picked, what it says, what it hands to Keras, and what it refuses."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training import device_sets
from keras_bert.training.cluster import Cluster, read_cluster
from keras_bert.training.devices import STRATEGIES, Devices, choose_devices
from keras_bert.training.training_model import TrainingModel

TWO = {"worker": ["127.0.0.1:1111", "127.0.0.1:2222"]}


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    for name in ("TF_CONFIG", "TPU_NAME", "COLAB_TPU_ADDR"):
        monkeypatch.delenv(name, raising=False)


def devices_of(name, replicas, **changes):
    return Devices(name=name, reason="test", device_type="CPU", num_replicas=replicas, **changes)


# === The choice ===


def test_auto_takes_the_one_device_and_says_why():
    devices = choose_devices()
    assert (devices.name, devices.num_replicas, devices.is_chief) == ("one", 1, True)
    assert "one: 1 × CPU" in str(devices) and "TensorFlow sees 0 GPUs" in str(devices)
    with pytest.raises(dataclasses.FrozenInstanceError):
        devices.name = "two"


def test_unknown_name_lists_the_names():
    with pytest.raises(ValueError, match="'mirorred' is unknown; choose one of auto, one, mirrored, multi_worker"):
        choose_devices("mirorred")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mirrored", "needs several devices, but TensorFlow sees CPU:0; use strategy='one'"),
        ("multi_worker", "needs several workers, but TF_CONFIG names 0"),
        ("data_parallel", "needs JAX; set KERAS_BACKEND=jax"),
    ],
)
def test_devices_that_are_not_there(name, message):
    with pytest.raises(ValueError, match=message):
        choose_devices(name)


def test_tpu_that_is_not_there(monkeypatch):
    def refuse(tpu):
        raise ValueError(f"no TPU at {tpu}")

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", refuse)
    with pytest.raises(RuntimeError, match=r"no TPU at local.*KERAS_BACKEND=jax"):
        choose_devices("tpu")


def test_auto_asks_for_a_tpu_that_the_environment_names(monkeypatch):
    monkeypatch.setenv("TPU_NAME", "my-tpu")
    monkeypatch.setattr(device_sets, "_tpu", lambda tf, wanted: {"name": "tpu", "reason": "", "device_type": "TPU"})
    devices = choose_devices()
    assert (devices.name, devices.precision) == ("tpu", "mixed_bfloat16")
    assert devices.compile_options() == {"jit_compile": False, "steps_per_execution": 1}


def test_every_strategy_is_in_the_table_of_the_module():
    import keras_bert.training.devices as module

    assert all(f"| `{name}` |" in module.__doc__ for name in STRATEGIES if name != "auto")


# === TF_CONFIG ===


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{cluster", r"is not JSON .*set it for each worker to a value like"),
        ("[1]", 'lacks "cluster" or "task"'),
        (json.dumps({"cluster": TWO}), 'lacks "cluster" or "task"'),
        (json.dumps({"cluster": TWO, "task": {"type": "worker", "index": 2}}), "'worker' 2, which is not in its"),
        (json.dumps({"cluster": TWO, "task": {"type": "chief", "index": 0}}), "'chief' 0, which is not in its cluster"),
        (json.dumps({"cluster": TWO, "task": {"type": "worker", "index": "0"}}), "'worker' '0', which is not in"),
        (json.dumps({"cluster": {**TWO, "ps": ["a:1"]}, "task": {}}), "does not use: ps"),
        (json.dumps({"cluster": {"worker": "a:1"}, "task": {}}), "not a list of host:port"),
        (json.dumps({"cluster": {}, "task": {}}), "names no worker"),
    ],
)
def test_bad_tf_config(monkeypatch, text, message):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=message):
        choose_devices()


def test_chief_comes_before_workers(monkeypatch):
    cluster = {"chief": ["c:1"], "worker": ["w:1", "w:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}}))
    assert read_cluster() == Cluster(addresses=("c:1", "w:1", "w:2"), index=2)


def test_a_cluster_of_one_is_one_device(monkeypatch):
    alone = {"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(alone))
    assert choose_devices().name == "one"


# === What it hands out ===


def test_compile_options_are_the_fastest_that_work():
    assert devices_of("one", 1).compile_options(steps_per_execution=8) == {
        "jit_compile": True,
        "steps_per_execution": 8,
    }
    several = devices_of("mirrored", 2).compile_options(steps_per_execution=8, gradient_accumulation_steps=4)
    assert several == {"jit_compile": True, "steps_per_execution": 1, "gradient_accumulation_steps": 4}


def test_batch_size_is_global_and_must_divide():
    assert devices_of("mirrored", 4).replica_batch_size(32) == 8
    with pytest.raises(ValueError, match="batch_size=30 .* all 4 replicas together .*; use 28 or 32"):
        devices_of("mirrored", 4).replica_batch_size(30)
    dataset = tf.data.Dataset.range(60).batch(30, drop_remainder=True)
    with pytest.raises(ValueError, match="use 28 or 32"):
        devices_of("mirrored", 4).distribute(dataset)
    with pytest.raises(ValueError, match="batch_size=32, but the dataset yields batches of 30"):
        devices_of("mirrored", 2).distribute(dataset, batch_size=32)
    with pytest.raises(ValueError, match="expected an integer of at least 1"):
        devices_of("one", 1).replica_batch_size(0)


@pytest.mark.parametrize(("shard", "policy"), [("data", "DATA"), ("files", "FILE"), ("none", "OFF")])
def test_workers_share_input_by_policy(shard, policy):
    dataset = devices_of("multi_worker", 2, num_workers=2).distribute(tf.data.Dataset.range(8).batch(4), shard=shard)
    assert dataset.options().experimental_distribute.auto_shard_policy.name == policy
    with pytest.raises(ValueError, match="expected one of data, files, none"):
        devices_of("one", 1).distribute(dataset, shard="rows")


def test_jax_takes_even_batches_alone():
    with pytest.raises(ValueError, match=r"batches may differ in size.*drop_remainder=True"):
        devices_of("data_parallel", 2).distribute(tf.data.Dataset.range(8).batch(4))


def test_precision(monkeypatch):
    with pytest.raises(ValueError, match="'mixed_float16' gives NaN with several replicas"):
        device_sets.choose_precision("mixed_float16", {"device_type": "GPU", "num_replicas": 2})
    for knows, replicas, policy in ((True, 2, "mixed_bfloat16"), (False, 2, "float32"), (False, 1, "mixed_float16")):
        monkeypatch.setattr(device_sets, "_gpus_know_bfloat16", lambda knows=knows: knows)
        assert device_sets.choose_precision("auto", {"device_type": "GPU", "num_replicas": replicas}) == policy
    with choose_devices("one", precision="mixed_bfloat16").scope():
        assert keras.layers.Dense(1).compute_dtype == "bfloat16"
        assert choose_devices("one").precision == "mixed_bfloat16", "somebody chose already"
    assert keras.layers.Dense(1).compute_dtype == "float32"


# === TrainingModel ===


def small_model(**options):
    inputs = keras.Input((3,))
    model = TrainingModel(inputs, keras.layers.Dense(1)(keras.layers.Dropout(0.2, seed=1)(inputs)))
    model.compile("adamw", "mse", metrics=["mae"], **options)
    return model


def test_training_model_saves_and_loads_with_its_options(tmp_path):
    model = small_model(gradient_accumulation_steps=2)
    x = np.ones((8, 3), "float32")
    model.fit(x, x[:, :1], batch_size=4, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(loaded, TrainingModel)
    assert loaded.gradient_accumulation_steps == 2
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))
    assert int(loaded.optimizer.iterations) == 2, "one update a batch, whatever its parts"
    loaded.fit(x, x[:, :1], batch_size=4, verbose=0)


def test_one_device_trains_as_keras_does():
    x, y = np.random.default_rng(1).normal(size=(20, 3)), np.ones((20, 1))
    ours = small_model()
    plain = keras.Model.from_config(ours.get_config())
    plain.set_weights(ours.get_weights())
    plain.compile("adamw", "mse", metrics=["mae"])
    options = {"batch_size": 8, "epochs": 2, "verbose": 0, "shuffle": False, "validation_data": (x, y)}
    logs = [model.fit(x, y, **options).history for model in (ours, plain)]
    assert sorted(logs[0]) == ["loss", "mae", "val_loss", "val_mae"]
    for name in logs[0]:
        np.testing.assert_allclose(logs[0][name], logs[1][name], atol=1e-6, err_msg=name)
    for mine, theirs in zip(ours.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)
    batch = ours.train_on_batch(x, y, return_dict=True)
    assert sorted(batch) == ["loss", "mae"]


def test_gradient_accumulation_must_be_a_count():
    with pytest.raises(ValueError, match="gradient_accumulation_steps=0: expected an integer of at least 1"):
        small_model(gradient_accumulation_steps=0)


def test_a_mask_on_an_output_is_named_where_the_batch_is_divided():
    ids = keras.Input((4,), dtype="int32")
    model = TrainingModel(ids, keras.layers.Dense(1)(keras.layers.Embedding(5, 2, mask_zero=True)(ids)))
    x, y = np.array([[1, 2, 0, 0], [3, 4, 1, 2]]), np.ones((2, 4, 1))
    model.compile("sgd", "mse", jit_compile=False)
    model.fit(x, y, batch_size=2, verbose=0)
    model.compile("sgd", "mse", jit_compile=False, gradient_accumulation_steps=2)
    with pytest.warns(UserWarning, match=r"An output has a Keras mask.*Use sample weights instead"):
        model.fit(x, y, batch_size=2, verbose=0)


def test_weights_with_a_regularizer_train():
    inputs = keras.Input((3,))
    model = TrainingModel(inputs, keras.layers.Dense(1, kernel_initializer="ones", kernel_regularizer="l2")(inputs))
    model.compile(keras.optimizers.SGD(1.0), "mse", jit_compile=False)
    history = model.fit(np.zeros((2, 3)), np.zeros((2, 1)), verbose=0).history
    np.testing.assert_allclose(history["loss"], [0.03], atol=1e-6)
    np.testing.assert_allclose(model.get_weights()[0], 1 - 0.02, atol=1e-6)
