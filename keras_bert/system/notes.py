"""Prints notes on standard error about what a command decided by itself."""

import sys


def note(words: str) -> None:
    """Print a note on standard error, so that standard output holds the result alone.

    Example:
        ```python
        note("the labels are numbers with fractions, so this is regression")
        ```
    """
    print(f"keras-bert: note: {words}", file=sys.stderr)
