"""Close connections of clients that send requests too slowly or never take their answers.

uvicorn limits only the time between two requests. A timer of asyncio costs less than `asyncio.wait_for` for the body.
"""

import asyncio
from typing import Any

from export.server.extra import HttpToolsProtocol

_MOST_BYTES = 64 << 10  # of a request's first line and headers


class TimedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits on the size of headers, and the time for sending and for taking."""

    client_timeout = 20.0

    @classmethod
    def with_timeout(cls, seconds: float) -> type["TimedProtocol"]:
        """The protocol with that many seconds for requests and for answers."""
        return type(cls.__name__, (cls,), {"client_timeout": seconds})

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._header_bytes, self._received, self._in_headers = 0, 0, True
        self._timer: asyncio.TimerHandle | None = self.loop.call_later(self.client_timeout, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; of headers that do not end, only so many."""
        if self._in_headers:
            self._received += len(data)
        super().data_received(data)
        if self._in_headers and self._received > 2 * _MOST_BYTES and not self.transport.is_closing():
            self.send_400_response("The headers are too long.")

    def on_message_begin(self) -> None:
        """Begin to wait for the end of the request."""
        self._header_bytes, self._in_headers = 0, True
        if self._timer is None:
            self._timer = self.loop.call_later(self.client_timeout, self._give_up)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take the address, if it is not too long."""
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, if there are not too many."""
        self._count(name + value)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Bytes are no longer counted here."""
        self._received, self._in_headers = 0, False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of the request is there in time."""
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is written to the transport; the client has so many seconds to take it."""
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self.loop.call_later(self.client_timeout, self._give_up_on_reader)

    def timeout_keep_alive_handler(self) -> None:
        """Nothing came for long: close the connection, also where the last answer was never taken."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    def _count(self, part: bytes) -> None:
        self._header_bytes += len(part)
        if self._header_bytes > _MOST_BYTES:
            raise ValueError("The headers are too long.")  # which the parser turns into an answer with status 400

    def _give_up(self) -> None:
        self._timer = None
        if self.cycle is not None and not self.cycle.response_started:
            words = f'{{"error":"The body did not arrive within {self.client_timeout:g} seconds."}}'.encode()
            head = b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n"
            self.transport.write(head + f"content-length: {len(words)}\r\n\r\n".encode() + words)
            self.transport.close()
        else:
            self.transport.abort()

    def _give_up_on_reader(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
