"""A server in a process of its own, started as users start it; it ends with the test."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request

from places import ROOT

_MAIN = "import sys; from keras_bert.cli import main; from export.cli import serve; "
_MAIN += (
    "import argparse; p = argparse.ArgumentParser(); p.add_argument('--import', dest='imports'); "
    "c = p.add_subparsers(); serve.add(c); a = p.parse_args(sys.argv[1:]); a.run(a)"
)


class ServerProcess:
    """The process, its address and the lines of its log."""

    def __init__(self, process):
        self.process, self.log, self._started = process, [], threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        for line in self.process.stderr:
            if line.startswith("{"):
                self.log.append(json.loads(line))
                if self.log[-1]["event"] == "started":
                    self._started.set()
        self._started.set()

    @property
    def address(self):
        """Such as `http://127.0.0.1:41023`, as soon as the server listens."""
        assert self._started.wait(60) and self.log, f"the server ended with {self.process.poll()}"
        return next(line["address"] for line in self.log if line["event"] == "started")

    def post(self, path, body, timeout=60):
        """Post JSON; give the JSON answer."""
        content = json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.address}{path}", content, timeout=timeout) as answer:
            return json.load(answer)

    def get(self, path):
        """The bytes at an address."""
        with urllib.request.urlopen(f"{self.address}{path}", timeout=60) as answer:
            return answer.read()

    def stop(self, number=signal.SIGTERM):
        """Ask it to end; give its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._thread.join(10)
        return code


@contextlib.contextmanager
def server_process(*words):
    """Run `keras-bert serve` with these words, on a free port."""
    command = [sys.executable, "-c", _MAIN, "serve", *map(str, words), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    server = ServerProcess(process)
    try:
        yield server
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stderr.close()
