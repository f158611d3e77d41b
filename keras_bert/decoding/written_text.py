"""Joins WordPiece tokens to a text, with spaces only where they belong.

The tokenizer drops spaces, so they are put back by rules. There is no space next to a CJK character; after an opening
bracket or quote; before a closing one, a comma or a full stop; around a hyphen, a slash or an English apostrophe
between letters; and around a point, comma or colon between digits.
"""

from collections.abc import Iterable

CLOSING = frozenset(",.!?;:)]}%…”»")
OPENING = frozenset("([{$£€#@“«")
LINKS = frozenset("-/")
APOSTROPHES = frozenset("'’")
ENGLISH_ENDINGS = frozenset(("s", "t", "re", "ve", "m", "ll", "d"))
# Ideographs as the tokenizer splits them, and full-width punctuation.
WIDE = (
    *((0x3000, 0x303F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF)),
    *((0xFF00, 0xFFEF), (0x20000, 0x2FA1F)),
)


def write_text(tokens: Iterable[str]) -> str:
    """Return the text of tokens.

    Example:
        >>> write_text(["it", "'", "s", "un", "##aff", "##able", "(", "3", ".", "5", ")", "!"])
        "it's unaffable (3.5)!"
        >>> write_text(["证", "明", "怎", "么", "开", "?"])
        '证明怎么开?'
    """
    stream = TextStream()
    return "".join([*(stream.add(token) for token in tokens), stream.finish()])


class TextStream:
    """Turns tokens into text while they are generated: `add` returns the text that is certain, `finish` the rest.

    Whether there is a space before a word depends on the next word, so the last two words are kept back.

    Example:
        >>> stream = TextStream()
        >>> [stream.add(token) for token in ("un", "##able", "to", "go", ".")], stream.finish()
        (['', '', '', 'unable', ' to'], ' go.')
    """

    def __init__(self) -> None:
        self._words: list[str] = []
        self._written = 0  # words that were returned
        self._quotes = 0  # quotation marks among them

    def add(self, token: str) -> str:
        """Add a token and return the text that is now certain, which may be empty."""
        if token.startswith("##") and len(token) > 2 and self._words:
            self._words[-1] += token[2:]
            return ""
        self._words.append(token)
        return self._write(len(self._words) - 2)

    def finish(self) -> str:
        """Return the text of the remaining words."""
        return self._write(len(self._words))

    def _write(self, end: int) -> str:
        written = ""
        while self._written < end:
            word = self._words[self._written]
            joined = self._written == 0 or self._is_joined(self._written)
            written += word if joined else f" {word}"
            self._quotes += word == '"'
            self._written += 1
        return written

    def _is_joined(self, index: int) -> bool:
        """Return whether there is no space before a word."""
        before, word = self._words[index - 1], self._words[index]
        after = self._words[index + 1] if index + 1 < len(self._words) else ""
        earlier = self._words[index - 2] if index >= 2 else ""
        if _is_wide(before[-1]) or _is_wide(word[0]) or word in CLOSING or before in OPENING:
            return True
        if word == '"' or before == '"':
            # With an odd number of quotation marks before this word, a quote is open.
            return self._quotes % 2 == 1
        return _is_link(before, word, after) or _is_link(earlier, before, word)


def _is_link(before: str, word: str, after: str) -> bool:
    """Return whether a word joins the words around it."""
    if not before or not after:
        return False
    if word in LINKS:
        return before[-1].isalnum() and after[0].isalnum()
    if word in APOSTROPHES:
        return before[-1].isalpha() and after.lower() in ENGLISH_ENDINGS
    return word in (".", ",", ":") and before[-1].isdigit() and after[0].isdigit()


def _is_wide(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in WIDE)
