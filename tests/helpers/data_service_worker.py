"""A worker of a tf.data service in a process of its own, for tests that kill it.

python tests/helpers/data_service_worker.py grpc://localhost:PORT
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import tensorflow as tf


def main():
    service = tf.data.experimental.service
    address = sys.argv[1].split("://")[1]
    server = service.WorkerServer(service.WorkerConfig(dispatcher_address=address, heartbeat_interval_ms=100))
    print("up", flush=True)
    server.join()


if __name__ == "__main__":
    main()
