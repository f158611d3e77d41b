"""What a server allows, and the errors that a client gets beyond it."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a server.

    Args:
        max_body: Bytes of a request's body.
        max_texts: Texts, or rows, of a request.
        max_characters: Characters of a text.
        max_queue: Texts that wait; a request beyond them is refused with 503.
        timeout: Seconds in which a request has to be answered.
        client_timeout: Seconds that a client has to send a request, and to take its answer.
        shutdown_timeout: Seconds for finishing requests when the server is stopped.

    Example:
        >>> Limits(max_texts=8).max_texts
        8
    """

    max_body: int = 2 << 20
    max_texts: int = 512
    max_characters: int = 20_000
    max_queue: int = 4096
    timeout: float = 30.0
    client_timeout: float = 20.0
    shutdown_timeout: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ValueError(f"Got {field.name}={value}; expected a number over 0.")
        if self.max_queue < self.max_texts:
            raise ValueError(
                f"Got max_queue={self.max_queue} and max_texts={self.max_texts}; expected room for a request's texts."
            )


class RequestError(Exception):
    """A request that cannot be answered.

    Args:
        status: The HTTP status, 400 to 599.
        sentence: What is wrong, for the client. It is never logged, because it may have parts of the request.
        retry_after: Seconds after which to try again.

    Example:
        >>> RequestError(404, "There is no model of that name.").status
        404
    """

    def __init__(self, status: int, sentence: str, retry_after: int | None = None):
        super().__init__(sentence)
        self.status, self.sentence, self.retry_after = status, sentence, retry_after
