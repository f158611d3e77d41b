"""Serve a model with uvicorn until the process is told to stop."""

import logging
import os
import signal
import socket
import sys

from export.server.app import Service, make_app
from export.server.extra import uvicorn
from export.server.limits import Limits
from export.server.monitoring import Log, ServerLogs
from export.server.protocol import TimedProtocol
from export.server.source import Source
from export.server.versions import Versions
from keras_bert.system.allocator import return_freed_memory


def serve(
    source: Source,
    *,
    host: str = "127.0.0.1",
    port: int = 8501,
    num_threads: int | None = None,
    limits: Limits | None = None,
    refresh: float = 1.0,
    log_requests: bool = True,
) -> None:
    """Serve a model until SIGTERM or SIGINT; then finish the requests that were taken.

    Args:
        source: From `open_source`.
        host: The address to listen on; `"0.0.0.0"` is every one of the machine's.
        port: The port; 0 takes a free one.
        num_threads: Interpreters, each with a thread; `None` is one for each core.
        limits: What is allowed.
        refresh: Seconds between two looks for new versions; 0 never looks.
        log_requests: Whether each request is a line of the log.

    Example:
        >>> serve(open_source("out/model.tflite"))  # doctest: +SKIP
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # each interpreter has a thread already
    return_freed_memory()
    limits, log = limits or Limits(), Log(requests=log_requests)
    versions = Versions(source, num_threads or available_cores())
    service = Service(source.name, versions, limits, log, refresh)
    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [ServerLogs(log)], False
    config = uvicorn.Config(
        make_app(service),
        http=TimedProtocol.with_timeout(limits.client_timeout),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=max(5, int(limits.client_timeout)),
        timeout_graceful_shutdown=max(1, int(limits.shutdown_timeout)),
    )
    with listen(host, port) as sock:
        address = f"http://{host}:{sock.getsockname()[1]}"
        facts = {"threads": versions.num_threads, "task": versions.current.metadata.task}
        log.write("started", address=address, model=source.name, version=versions.current.number, **facts)
        # uvicorn raises the signal again when it is done; then the process has ended well.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: sys.exit(0))
        try:
            uvicorn.Server(config).run(sockets=[sock])
        finally:
            log.write("stopped")


def available_cores() -> int:
    """The cores that this process may use.

    Example:
        >>> available_cores() > 0
        True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def listen(host: str, port: int) -> socket.socket:
    """Open the port, or say why it cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(2048)
    except OSError as error:
        sock.close()
        raise OSError(f"Cannot listen on {host}:{port} ({error.strerror}); choose another --port or --host.") from None
    return sock
