"""How much training prints: a bar on a terminal and in notebooks, a line for each epoch in a log file."""

import sys
from typing import TextIO


def fit_verbosity(verbose: int | str) -> int:
    """Give Keras's number for `verbose`: `"auto"` is 1 (a bar) where somebody looks on, and else 2 (a line an epoch).

    Example:
        >>> fit_verbosity(0), fit_verbosity("2")
        (0, 2)
    """
    if verbose != "auto":
        return int(verbose)
    return 1 if is_watched() else 2


def is_watched(stream: TextIO | None = None) -> bool:
    """Whether standard output (or another stream) is a terminal or a notebook, where a bar can move."""
    stream = sys.stdout if stream is None else stream
    return stream.isatty() or "ipykernel" in sys.modules


def hides_bar(progress: bool = True) -> bool:
    """What `tqdm` takes for `disable`: bars are for those who want them and can see them move.

    Example:
        >>> hides_bar(False)
        True
    """
    return not (progress and is_watched(sys.stderr))
