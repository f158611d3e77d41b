"""Files with a text a line: read with blank lines kept, so that answers stand beside their lines."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from keras_bert.system.notes import note


def read_lines(path: Path) -> list[str]:
    """The lines of a file, blank ones too. A line ends at a newline alone: U+2028 and others stand within texts."""
    lines = path.read_bytes().decode("utf-8-sig").split("\n")
    lines = [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]
    blank = [str(number) for number, line in enumerate(lines, 1) if not line.strip()]
    if blank and len(blank) < len(lines):
        shown = ", ".join(blank[:10]) + (f" and {len(blank) - 10:,} more" if len(blank) > 10 else "")
        note(f"line{'s' * (len(blank) > 1)} {shown} of {path}: blank, so without an answer (null in JSON).")
    return lines


def answer_filled(texts: Sequence, ask: Callable[[list], Sequence]) -> list[Any]:
    """The answers to texts, and None for those that are blank: as many as there are texts.

    Example:
        >>> answer_filled(["a", "", "b"], lambda texts: [text.upper() for text in texts])
        ['A', None, 'B']
    """
    answers = iter(ask([text for text in texts if not is_blank(text)]))
    return [None if is_blank(text) else next(answers) for text in texts]


def is_blank(text: Any) -> bool:
    """Whether this is a line with nothing in it."""
    return isinstance(text, str) and not text.strip()
