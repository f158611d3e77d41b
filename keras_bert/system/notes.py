"""Notes on standard error: what a command decided by itself."""

import sys


def note(words: str) -> None:
    """Tell the user what was decided: beside the answer, not in it.

    Example:
        ```python
        note("the labels are numbers with fractions, so this is regression")
        ```
    """
    print(f"keras-bert: note: {words}", file=sys.stderr)
