"""MirroredStrategy on two logical CPUs against one device, on a model that traces quickly; prints JSON.

python tests/helpers/mirrored_checks.py
"""

import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
import tensorflow as tf

from keras_bert.model.dropout import HashDropout
from keras_bert.training.devices import choose_devices
from keras_bert.training.training_model import TrainingModel

RANDOM = np.random.default_rng(3)
IDS = RANDOM.integers(0, 9, (61, 5)).astype("int32")
TARGETS = RANDOM.normal(size=(61, 1)).astype("float32")
ROW_TARGETS = RANDOM.normal(size=(157, 1)).astype("float32")


def train(devices, *, model_class=TrainingModel, accumulate=1, **clip):
    """Weights and losses of two epochs in batches of 8; the last of 61 examples are 5: three and two a replica."""
    with devices.scope():
        ids = keras.Input((5,), dtype="int32")
        vectors = keras.layers.Embedding(9, 4, embeddings_initializer=keras.initializers.RandomNormal(seed=1))(ids)
        pooled = keras.layers.GlobalAveragePooling1D()(vectors)
        outputs = keras.layers.Dense(1, kernel_initializer=keras.initializers.RandomNormal(seed=2))(pooled)
        model = model_class(ids, outputs)
        options = devices.compile_options(steps_per_execution=1, gradient_accumulation_steps=accumulate)
        optimizer = keras.optimizers.SGD(0.5, momentum=0.9, **clip)
        model.compile(optimizer, "mse", **{**options, "jit_compile": False})
        dataset = tf.data.Dataset.from_tensor_slices((IDS, TARGETS)).batch(8)
        losses = model.fit(devices.distribute(dataset), epochs=2, verbose=0, shuffle=False).history["loss"]
    return np.concatenate([np.ravel(weight) for weight in model.get_weights()] + [losses])


# === Weighted losses ===

# Of 20 batches of 8 rows: up to 5 weighted tokens a row, in the second half of a batch few, in some of them none.
TOKENS = RANDOM.integers(0, 9, (157, 5)).astype("int32")
FEW = np.where(np.arange(157)[:, None] % 8 < 4, 0.9, 0.02 * (np.arange(157)[:, None] // 8 % 3))
TOKEN_WEIGHTS = (RANDOM.random((157, 5)) < FEW) * RANDOM.uniform(0.5, 2, (157, 5)).astype("float32")
ROW_WEIGHTS = RANDOM.uniform(0, 3, 157).astype("float32")


class EveryLoss(keras.callbacks.Callback):
    def __init__(self):
        self.values = []

    def on_train_batch_end(self, batch, logs=None):
        self.values += [float(logs[name]) for name in sorted(logs)]


def weighted_model():
    """Three outputs whose losses are divided by the weights, by the rows, and not at all; and a penalty beside them."""
    start = {"kernel_initializer": keras.initializers.RandomNormal(seed=2), "kernel_regularizer": "l2"}
    ids = keras.Input((5,), dtype="int32")
    vectors = keras.layers.Embedding(9, 4, embeddings_initializer=keras.initializers.RandomNormal(seed=1))(ids)
    rows = keras.layers.GlobalAveragePooling1D()(vectors)
    tokens = keras.layers.Dense(9, name="tokens", **start)(vectors)
    dense = {name: keras.layers.Dense(1, name=name, **start)(rows) for name in ("mean", "weighted", "sum")}
    return TrainingModel(ids, {"tokens": tokens, **dense})


def weighted_losses():
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
    loss = {
        "tokens": cross_entropy,
        "mean": "mse",
        "weighted": keras.losses.MeanAbsoluteError(reduction="mean_with_sample_weight"),
        "sum": keras.losses.MeanSquaredError(reduction="sum"),
    }
    return {"loss": loss, "loss_weights": {"tokens": 1.0, "mean": 0.3, "weighted": 0.7, "sum": 0.05}}


def train_weighted(devices, *, examples, accumulate=1, jit=False):
    """Weights, and all numbers of 20 steps, of the epoch and, where the rows are odd, of an evaluation."""
    targets = ROW_TARGETS[:examples]
    labels = {"tokens": TOKENS[:examples], "mean": targets, "weighted": targets, "sum": targets}
    rows = ROW_WEIGHTS[:examples]
    weights = {"tokens": TOKEN_WEIGHTS[:examples], "mean": rows, "weighted": rows, "sum": rows}
    dataset = tf.data.Dataset.from_tensor_slices((TOKENS[:examples], labels, weights)).batch(8)
    with devices.scope():
        model, recorder = weighted_model(), EveryLoss()
        options = devices.compile_options(steps_per_execution=1, gradient_accumulation_steps=accumulate)
        optimizer = keras.optimizers.SGD(0.3, momentum=0.9, global_clipnorm=1.0)
        model.compile(
            optimizer, **weighted_losses(), weighted_metrics={"tokens": "accuracy"}, **{**options, "jit_compile": jit}
        )
        logs = model.fit(devices.distribute(dataset), verbose=0, shuffle=False, callbacks=[recorder]).history
        numbers = [*recorder.values, *(logs[name][0] for name in sorted(logs))]
        if examples % 2:
            evaluated = model.evaluate(devices.distribute(dataset), verbose=0, return_dict=True)
            numbers += [evaluated[name] for name in sorted(evaluated)]
    assert len(numbers) == (20 + 1 + examples % 2) * 6
    return np.concatenate([np.ravel(weight) for weight in model.get_weights()] + [numbers])


def check_weighted(one, two):
    """How far several replicas, and batches in parts, are from one device where rows and weights are unequal."""
    even = train_weighted(one, examples=156)  # of which the last 4 still make parts; of 157 a replica gets 3, one 2
    return {
        "weighted losses": difference(train_weighted(two, examples=157, jit=True), train_weighted(one, examples=157)),
        "accumulation": difference(train_weighted(two, examples=156, accumulate=2, jit=True), even),
        "accumulation on one device": difference(train_weighted(one, examples=156, accumulate=4), even),
    }


# === All ===


def difference(first, second):
    return float(np.abs(first - second).max())


def error_of(function):
    try:
        function()
    except Exception as error:
        return str(error)
    return "no error"


def look_at_dropout(devices):
    """The outputs of a model that is nothing but dropout, by replica, in two steps."""
    with devices.scope():
        inputs = keras.Input((256,))
        dropped = HashDropout(0.5, seed=4)(keras.layers.Dense(256, kernel_initializer="identity")(inputs))
        model = TrainingModel(inputs, dropped)
        # With a huge loss for what is kept, the gradient of the bias shows the mask of both replicas together.
        model.compile(keras.optimizers.SGD(1.0), "mae", jit_compile=True)
        biases = []
        for _ in range(2):
            model.layers[1].bias.assign(np.zeros(256))
            model.layers[1].kernel.assign(np.eye(256))
            ones = np.ones((2, 256), "float32")
            model.fit(tf.data.Dataset.from_tensors((ones, ones * 0)), verbose=0, shuffle=False)
            biases.append(np.asarray(model.layers[1].bias))
    return biases


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    one, two = choose_devices("one"), choose_devices("mirrored")
    reference, clipped = train(one), train(one, global_clipnorm=0.05)
    biases = look_at_dropout(two)
    result = {
        "partial batches without XLA": difference(train(two), reference),
        "clipping": difference(train(two, global_clipnorm=0.05), clipped),
        "plain Keras clipping": difference(train(two, model_class=keras.Model, global_clipnorm=0.05), clipped),
        # A unit that one replica drops and the other keeps has half the gradient of one that both keep.
        "dropout masks differ between replicas": len(np.unique(np.round(biases[0], 6))) == 3,
        "dropout moves on": bool((biases[0] != biases[1]).any()),
        "uneven accumulation": error_of(lambda: train(two, accumulate=2)),
        "optimizer's accumulation": error_of(lambda: train(two, gradient_accumulation_steps=2)),
    }
    print(json.dumps({**result, **check_weighted(one, two)}), flush=True)


if __name__ == "__main__":
    main()
