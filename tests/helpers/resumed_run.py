"""A short pretraining run in a process of its own, for tests that kill it: `helpers/resumed_run.py DIRECTORY EPOCHS`.

Prints a JSON line for each epoch: its number and its exact loss.
"""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import tensorflow as tf
from tiny_encoders import CONFIG
from tiny_masked import MASKED, masked_batch

from keras_bert.pretraining.model import features_and_labels, losses_and_metrics, pretraining_model
from keras_bert.training.optimizers import bert_optimizer
from keras_bert.training.resume import SaveState, restore_state

STEPS = 4


class Print(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(json.dumps({"epoch": epoch, "loss": logs["loss"]}), flush=True)


def main(directory, epochs):
    model = pretraining_model(CONFIG, max_predictions=MASKED, seed=0)
    model.compile(bert_optimizer(1e-3, 100), jit_compile=False, **losses_and_metrics(model))
    step = restore_state(model, directory)
    batches = [features_and_labels(masked_batch(seed=seed)) for seed in range(7)]
    data = tf.data.Dataset.range(10_000).map(
        lambda number: tf.switch_case(tf.cast(number % 7, tf.int32), [lambda b=b: b for b in batches])
    )
    model.fit(
        data.skip(step),
        steps_per_epoch=STEPS,
        initial_epoch=step // STEPS,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=[SaveState(directory), Print()],
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
