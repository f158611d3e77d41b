"""What a server tells about itself: numbers for Prometheus, and a line of JSON for each event.

Nothing that a client sent is in either: no text, no path, no header.
"""

import logging
import sys
import threading
import time
import traceback
from typing import Any, TextIO

from export.server.extra import ProcessCollector, orjson, prometheus_client

_SECONDS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """The numbers of one server; `text` gives them in Prometheus' format."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[Any, Any]] = {}  # looking labels up costs more than counting
        self._registry = prometheus_client.CollectorRegistry()
        ProcessCollector(registry=self._registry)  # memory, processor time and open files
        every: dict[str, Any] = {"registry": self._registry, "namespace": "keras_bert"}
        self.requests = prometheus_client.Counter(
            "requests", "Requests that were answered.", ["method", "status"], **every
        )
        self.seconds = prometheus_client.Histogram(
            "request_seconds", "From the request to its answer.", ["method"], buckets=_SECONDS, **every
        )
        self.waits = prometheus_client.Histogram(
            "queue_seconds", "How long requests waited.", buckets=_SECONDS, **every
        )
        self.texts = prometheus_client.Counter("texts", "Texts that were answered.", **every)
        self.tokens = prometheus_client.Counter("tokens", "Tokens that were read.", **every)
        self.dropped = prometheus_client.Counter(
            "dropped_requests", "Requests whose client was gone before the answer.", **every
        )
        self.waiting = prometheus_client.Gauge("queue_texts", "Texts that wait.", **every)
        self.version = prometheus_client.Gauge("version", "The version of the model that answers.", **every)
        self.refused = prometheus_client.Counter("refused_versions", "New versions that could not be opened.", **every)

    def count(self, method: str, status: int, seconds: float) -> None:
        """Count a request."""
        known = self._known.get((method, status))
        if known is None:
            known = self.requests.labels(method, str(status)), self.seconds.labels(method)
            self._known[method, status] = known
        requests, latency = known
        requests.inc()
        latency.observe(seconds)

    def text(self) -> bytes:
        """All numbers, in Prometheus' text format."""
        return prometheus_client.generate_latest(self._registry)


class Log:
    """Writes events as lines of JSON.

    Args:
        stream: Where to; `None` is standard error.
        requests: Whether each request is an event.

    Example:
        >>> Log(sys.stdout).write("started", port=8501)  # doctest: +SKIP
        {"time": "2026-01-01T12:00:00.000Z", "event": "started", "port": 8501}
    """

    def __init__(self, stream: TextIO | None = None, *, requests: bool = True):
        self._stream, self.requests, self._lock = stream or sys.stderr, requests, threading.Lock()

    def write(self, event: str, **facts: Any) -> None:
        """Write an event."""
        now = time.time()
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03}Z"
        line = orjson.dumps({"time": stamp, "event": event, **facts}).decode()
        with self._lock:
            try:
                self._stream.write(f"{line}\n")
                self._stream.flush()
            except (OSError, ValueError):
                pass  # nobody reads it any more; answers go on

    def write_error(self, error: BaseException) -> None:
        """Write the type of an error and where it was raised; not its message, which may have parts of a text."""
        frames = traceback.extract_tb(error.__traceback__)[-4:]
        places = [f"{'/'.join(frame.filename.split('/')[-3:])}:{frame.lineno}" for frame in frames]
        self.write("error", type=type(error).__name__, places=places)


class ServerLogs(logging.Handler):
    """Turns what the web server logs into events: its plain messages, and of errors the type and the place.

    Args:
        log: Where they are written.
    """

    def __init__(self, log: Log):
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. Its arguments are left out, because they may be of a request."""
        if record.exc_info and record.exc_info[1] is not None:
            self._log.write_error(record.exc_info[1])
        else:
            self._log.write("server", level=record.levelname.lower(), message=str(record.msg))
