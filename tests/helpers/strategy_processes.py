"""What the strategy tests share: processes of their own, with a timeout, on loopback addresses alone."""

import json
import os
import socket
import subprocess
import sys

from places import HELPERS, ROOT

TIMEOUT = 240

# XLA with little optimization: these tests look at numbers, not at speed, and compiling is most of their time.
QUICK_XLA = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


def free_ports(count):
    """Ports that nobody listens on, held together so that they differ."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def start(script, *arguments, backend="tensorflow", xla_flags="", stderr_too=True, **variables):
    """A Python process that runs one of the scripts beside the tests."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "TF_CONFIG"},
        "KERAS_BACKEND": backend,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"{QUICK_XLA} {xla_flags}".strip(),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(HELPERS))),
        **variables,
    }
    command = [sys.executable, str(HELPERS / script), *map(str, arguments)]
    errors = subprocess.STDOUT if stderr_too else subprocess.DEVNULL
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=HELPERS)


def finish(*processes, timeout=TIMEOUT):
    """What the processes printed; all must end well, and none is left behind."""
    try:
        printed = [process.communicate(timeout=timeout)[0] for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    for process, text in zip(processes, printed, strict=True):
        assert process.returncode == 0, text[-4000:]
    return printed


def cluster_of(count):
    """`TF_CONFIG` for each of some workers on this machine."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    return [
        json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
        for index in range(count)
    ]
