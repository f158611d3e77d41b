"""MirroredStrategy on two logical CPUs against one device, on a model that traces quickly; prints JSON.

python tests/mirrored_checks.py
"""

import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
import tensorflow as tf

from keras_bert.dropout import HashDropout
from keras_bert.training.strategy import choose_devices
from keras_bert.training.training_model import TrainingModel

RANDOM = np.random.default_rng(3)
IDS = RANDOM.integers(0, 9, (61, 5)).astype("int32")
TARGETS = RANDOM.normal(size=(61, 1)).astype("float32")


def train(devices, *, examples=61, model_class=TrainingModel, jit=True, accumulate=1, evaluate=False, **clip):
    """Weights and losses of two epochs in batches of 8; the last of 61 examples are 5: three and two a replica."""
    with devices.scope():
        ids = keras.Input((5,), dtype="int32")
        vectors = keras.layers.Embedding(9, 4, embeddings_initializer=keras.initializers.RandomNormal(seed=1))(ids)
        pooled = keras.layers.GlobalAveragePooling1D()(vectors)
        outputs = keras.layers.Dense(1, kernel_initializer=keras.initializers.RandomNormal(seed=2))(pooled)
        model = model_class(ids, outputs)
        options = devices.compile_options(steps_per_execution=1, gradient_accumulation_steps=accumulate)
        optimizer = keras.optimizers.SGD(0.5, momentum=0.9, **clip)
        model.compile(optimizer, "mse", **{**options, "jit_compile": jit and model_class is TrainingModel})
        dataset = tf.data.Dataset.from_tensor_slices((IDS[:examples], TARGETS[:examples])).batch(8)
        losses = model.fit(devices.distribute(dataset), epochs=2, verbose=0, shuffle=False).history["loss"]
        losses += [model.evaluate(dataset, verbose=0)] if evaluate else []
    return np.concatenate([np.ravel(weight) for weight in model.get_weights()] + [losses])


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
    reference, whole, clipped = train(one, evaluate=True), train(one, examples=56), train(one, global_clipnorm=0.05)
    biases = look_at_dropout(two)
    result = {
        "partial batches": difference(train(two, evaluate=True), reference),
        "partial batches without XLA": difference(train(two, jit=False), reference[:-1]),
        "accumulation": difference(train(two, examples=56, accumulate=2), whole),
        "accumulation on one device": difference(train(one, examples=56, accumulate=2), whole),
        "clipping": difference(train(two, global_clipnorm=0.05), clipped),
        "plain Keras clipping": difference(train(two, model_class=keras.Model, global_clipnorm=0.05), clipped),
        # A unit that one replica drops and the other keeps has half the gradient of one that both keep.
        "dropout masks differ between replicas": len(np.unique(np.round(biases[0], 6))) == 3,
        "dropout moves on": bool((biases[0] != biases[1]).any()),
        "uneven accumulation": error_of(lambda: train(two, accumulate=2)),
        "optimizer's accumulation": error_of(lambda: train(two, gradient_accumulation_steps=2)),
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
