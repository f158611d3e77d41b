"""Splits a text into words with their offsets, for the taggers: an entity begins and ends at a word.

Only spaces are left out, and no word ends before an accent or within an emoji. The module needs only the standard
library, so it runs on a device, too.
"""

import re
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache

SPLITTINGS = ("words", "characters", "spaces")

_IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f"
_SKIN = "\U0001f3fb-\U0001f3ff"
_FLAGS = "\U0001f1e6-\U0001f1ff"


def split_words(text: str, splitting: str = "words") -> list[tuple[str, int, int]]:
    """Split a text into words, as `(word, start, end)` with offsets in characters.

    Args:
        text: Any string.
        splitting: `"words"` splits as the common corpora do: letters and digits with the hyphens, apostrophes and
            decimal points within them are a word, and so is `'s`, an abbreviation, an address, and each ideograph or
            other sign. `"characters"` makes every character a word, for texts without spaces. `"spaces"` splits only
            at spaces.

    Example:
        >>> [word for word, _, _ in split_words("Zoë's U.S. visa cost €1,500!")]
        ['Zoë', "'s", 'U.S.', 'visa', 'cost', '€', '1,500', '!']
        >>> split_words("东京Tower")
        [('东', 0, 1), ('京', 1, 2), ('Tower', 2, 7)]
    """
    if splitting not in SPLITTINGS:
        raise ValueError(f"splitting={splitting!r}: expected one of {', '.join(map(repr, SPLITTINGS))}.")
    return [(match.group(), match.start(), match.end()) for match in _pattern(splitting).finditer(text)]


def locate_words(text: str | Sequence[str], splitting: str = "words") -> tuple[str, list[tuple[str, int, int]]]:
    """Return a text and its words with offsets; a list of words is joined by spaces.

    Example:
        >>> locate_words(["go", "on"])
        ('go on', [('go', 0, 2), ('on', 3, 5)])
    """
    if isinstance(text, str):
        return text, split_words(text, splitting)
    words, start = [], 0
    for word in text:
        words.append((word, start, start + len(word)))
        start += len(word) + 1
    return " ".join(text), words


@cache
def _pattern(splitting: str) -> re.Pattern[str]:
    if splitting == "spaces":
        return re.compile(r"\S+")
    marks = _marks()
    tail = rf"(?:[{marks}\u200d{_SKIN}]|(?<=\u200d)[^\w\s])*"  # accents; emoji joiners, and the emoji they join
    if splitting == "characters":
        return re.compile(rf"[{_FLAGS}]{{2}}|\S{tail}")
    word = rf"[^\W{_IDEOGRAPHS}][{marks}\u200d]*"
    return re.compile(
        rf"""
          (?:https?://|www\.) [^\s<>"]* [^\s<>"'.,;:!?)\]}}]          # a web address
        | [\w.+-]{{1,64}} @ [\w-]+ (?:\.[\w-]+)+                      # a mail address
        | [@#] (?:{word})+                                            # a user, a topic
        | (?:[^\W\d_{_IDEOGRAPHS}]\.){{2,}}                           # U.S.  a.m.
        | ['’]s\b                                                     # Ana|'s   what|'s
        | (?:{word})+                                                 # a word ...
          (?: (?: ['’](?!s\b) | - | (?<=\d)[.,:/](?=\d) )             # ... joined: don't  Jean-Luc  7:30  1,500
              (?:{word})+ )*
        | [{_FLAGS}]{{2}}
        | [^\s]{tail}                                                 # an ideograph, any other sign
        """,
        re.VERBOSE | re.IGNORECASE,
    )


def _marks() -> str:
    """Return all combining marks of Unicode as a character class; `re` has no name for them."""
    ranges: list[str] = []
    begin: int | None = None
    for code in range(sys.maxunicode + 2):
        is_mark = code <= sys.maxunicode and unicodedata.category(chr(code))[0] == "M"
        if is_mark and begin is None:
            begin = code
        elif not is_mark and begin is not None:
            ranges.append(f"\\U{begin:08x}-\\U{code - 1:08x}")
            begin = None
    return "".join(ranges)
