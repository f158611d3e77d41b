"""Chooses how progress is shown: a bar on a terminal or in a notebook, one line per epoch in a log file."""

import sys
from typing import TextIO


def fit_verbosity(verbose: int | str) -> int:
    """Return Keras's number for `verbose`: `"auto"` is 1 (a bar) on a terminal or in a notebook, else 2 (lines).

    Example:
        >>> fit_verbosity(0), fit_verbosity("2")
        (0, 2)
    """
    if verbose != "auto":
        return int(verbose)
    return 1 if is_watched() else 2


def is_watched(stream: TextIO | None = None) -> bool:
    """Return whether standard output, or the given stream, is a terminal or a notebook."""
    stream = sys.stdout if stream is None else stream
    return stream.isatty() or "ipykernel" in sys.modules


def hides_bar(progress: bool = True) -> bool:
    """Return the value of tqdm's `disable`: bars are shown if wanted, on a terminal or in a notebook.

    Example:
        >>> hides_bar(False)
        True
    """
    return not (progress and is_watched(sys.stderr))
