"""Read through a tf.data service with two workers, kill one in the middle, print what came as JSON.

python tests/data_service_reader.py SPLITS EXAMPLES_OF_EACH
"""

import json
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf
from strategy_processes import start

from keras_bert.training.data_service import read_through_service
from keras_bert.training.strategy import Devices

SPLITS, EXAMPLES = map(int, sys.argv[1:])


def read_split(split):
    return tf.data.Dataset.range(EXAMPLES).map(lambda place: {"number": split * EXAMPLES + place})


def read(dispatcher, workers):
    """All numbers as two training processes get them, each its own share of the splits."""
    received, batch_sizes, killed_after = [], [], None
    for index in range(2):
        devices = Devices(name="multi_worker", reason="test", device_type="CPU", num_workers=2, worker_index=index)
        options = {"service": dispatcher, "batch_size": 8, "devices": devices, "patience": 2.0}
        for batch in read_through_service(range(SPLITS), read_split, **options):
            numbers = batch["number"].numpy().tolist()
            received += numbers
            batch_sizes.append(len(numbers))
            if killed_after is None and len(received) > 100:
                killed_after = len(received)
                workers[0].kill()
            time.sleep(0.003)  # a training step: without it all would have arrived before the kill
    return {"received": received, "batch_sizes": batch_sizes, "killed_after": killed_after}


def read_in_silence():
    """The error of a dispatcher that has no workers."""
    service = tf.data.experimental.service
    lonely = service.DispatchServer(service.DispatcherConfig())
    try:
        list(read_through_service([3, 4], read_split, service=lonely.target, batch_size=8, patience=0.2))
    except tf.errors.UnknownError as error:
        return error.message
    return "no error"


def main():
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer(service.DispatcherConfig(worker_timeout_ms=1000))
    workers = [start("data_service_worker.py", dispatcher.target, stderr_too=False) for _ in range(2)]
    try:
        for worker in workers:
            worker.stdout.readline()
        result = read(dispatcher.target, workers)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    print(json.dumps({**result, "silence": read_in_silence()}), flush=True)
    os._exit(0)  # the servers are stopped by nothing else


if __name__ == "__main__":
    main()
