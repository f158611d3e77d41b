"""Read files with one text per line. Blank lines are kept, so that answers and lines correspond."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_bert.system.notes import note


def read_lines(path: Path) -> list[str]:
    """Read the lines of a file, including blank ones. Only newlines end a line: U+2028 and others are part of texts."""
    lines = path.read_bytes().decode("utf-8-sig").split("\n")
    lines = [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]
    blank = [str(number) for number, line in enumerate(lines, 1) if not line.strip()]
    if blank and len(blank) < len(lines):
        shown = ", ".join(blank[:10]) + (f" and {len(blank) - 10:,} more" if len(blank) > 10 else "")
        note(f"line{'s' * (len(blank) > 1)} {shown} of {path}: blank, so without an answer (null in JSON).")
    return lines


def answer_filled(texts: Sequence[Any], ask: Callable[[list[Any]], Sequence[Any]]) -> list[Any]:
    """Give an answer for each text, and `None` for blank ones.

    Example:
        >>> answer_filled(["a", "", "b"], lambda texts: [text.upper() for text in texts])
        ['A', None, 'B']
    """
    answers = iter(ask([text for text in texts if not is_blank(text)]))
    return [None if is_blank(text) else next(answers) for text in texts]


def is_blank(text: Any) -> bool:
    """Whether a text is a blank line."""
    return isinstance(text, str) and not text.strip()
