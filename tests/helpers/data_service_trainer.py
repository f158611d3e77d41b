"""One of two training processes that `fit` through a tf.data service; a worker of the service is killed meanwhile.

    TF_CONFIG=… python tests/helpers/data_service_trainer.py PORT SPLITS EXAMPLES_OF_EACH DIRECTORY

The model has a number for each example, which goes down by one whenever the example is trained on: what comes out, as
JSON, is how often each was. The chief runs the dispatcher at PORT, one worker of the service in its own process and
one in another, which it kills. By the one that is left it then reads the pretraining examples in DIRECTORY.
"""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
from strategy_processes import start

from keras_bert.pretraining.corpus.manifest import load_manifest
from keras_bert.pretraining.data_service import read_examples_through_service, read_through_service
from keras_bert.training.devices import Devices, choose_devices
from keras_bert.training.training_model import TrainingModel

PORT, SPLITS, EXAMPLES = map(int, sys.argv[1:4])
DIRECTORY = sys.argv[4]
ADDRESS, BATCH, KILL_AT = f"grpc://127.0.0.1:{PORT}", 8, 20


def read_split(split):
    first = split * EXAMPLES
    return tf.data.Dataset.range(EXAMPLES).map(lambda place: ([first + place], [-1e6]))


class Counting(keras.callbacks.Callback):
    """Counts the steps, and kills a worker of the service after some."""

    def __init__(self, victim):
        self.steps, self.victim = 0, victim

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if self.steps == KILL_AT and self.victim is not None:
            self.victim.kill()


def start_service():
    """A dispatcher and two workers, of which one can be killed."""
    service, address = tf.data.experimental.service, ADDRESS.split("://")[1]
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=PORT, worker_timeout_ms=1000))
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address, heartbeat_interval_ms=100))
    victim = start("data_service_worker.py", ADDRESS, stderr_too=False)
    victim.stdout.readline()
    return dispatcher, worker, victim


def train(devices, victim):
    """How often each example was trained on, and in how many steps: d|count − target| / d count = 1."""
    with devices.scope():
        number = keras.Input((1,), dtype="int64")
        counts = keras.layers.Embedding(SPLITS * EXAMPLES, 1, embeddings_initializer="zeros")(number)
        model = TrainingModel(number, keras.layers.Flatten()(counts))
        loss = keras.losses.MeanAbsoluteError(reduction="sum")
        model.compile(keras.optimizers.SGD(1.0), loss, jit_compile=False)
        options = {"service": ADDRESS, "batch_size": BATCH, "devices": devices, "patience": 3.0}
        dataset = read_through_service(range(SPLITS), read_split, **options)
        counting = Counting(victim)
        model.fit(devices.distribute(dataset, shard="none"), verbose=0, shuffle=False, callbacks=[counting])
    return {"seen": np.round(-np.ravel(model.get_weights()[0]), 3).tolist(), "steps": counting.steps}


def read_by_one_worker():
    """The sizes of the batches that the worker which lives on makes of three splits."""
    dataset = read_through_service([5, 6, 9], read_split, service=ADDRESS, batch_size=BATCH, patience=3.0)
    return [len(numbers) for numbers, _ in dataset]


def read_pretraining_examples():
    """The rows of DIRECTORY's one shard as two training processes get them, over two passes."""
    count, rows = load_manifest(DIRECTORY).examples, []
    for index in range(2):
        devices = Devices(name="multi_worker", reason="test", device_type="CPU", num_workers=2, worker_index=index)
        options = {"service": ADDRESS, "batch_size": 1, "devices": devices, "patience": 3.0}
        for batch in read_examples_through_service(DIRECTORY, **options).take((count + 1 - index) // 2 * 2):
            rows.append([batch[name].numpy().tolist() for name in ("next_sentence_label", "token_ids", "segment_ids")])
    return rows


def read_in_silence():
    """The error of a dispatcher that has no workers."""
    service = tf.data.experimental.service
    lonely = service.DispatchServer(service.DispatcherConfig())
    try:
        list(read_through_service([3, 4], read_split, service=lonely.target, batch_size=BATCH, patience=0.2))
    except tf.errors.UnknownError as error:
        return error.message
    return "no error"


def main():
    devices = choose_devices()
    servers = start_service() if devices.is_chief else [None]
    result = train(devices, victim=servers[-1])
    if devices.is_chief:
        result |= {"killed": servers[-1].wait(), "sizes": read_by_one_worker(), "silence": read_in_silence()}
        result["rows"] = read_pretraining_examples()
    print("\n" + json.dumps(result), flush=True)
    os._exit(0)  # the servers are stopped by nothing else


if __name__ == "__main__":
    main()
