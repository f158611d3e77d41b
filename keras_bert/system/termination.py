"""Lets training end in good order when the process is asked to stop: by a cluster, a phone's scheduler, `kill`."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class Termination:
    """Whether SIGTERM has come; made by `noticing_termination`."""

    def __init__(self) -> None:
        self.asked = False

    def note(self, number: int, frame: Any) -> None:
        """Handle the signal. A second one ends the process at once."""
        self.asked = True
        signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def noticing_termination() -> Iterator[Termination]:
    """Notice SIGTERM while the block runs, instead of ending at once.

    Nothing changes where the program handles the signal by itself, and outside of the main thread, where Python cannot.

    Example:
        ```python
        with noticing_termination() as termination:
            while not termination.asked:
                step()
        ```
    """
    termination = Termination()
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield termination
        return
    signal.signal(signal.SIGTERM, termination.note)
    try:
        yield termination
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
