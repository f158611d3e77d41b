"""What the original BERT does to a character: takes it and the text rules, gives its normalized spelling.

The rules of BERT's text cleaning are short (drop control characters, give CJK its own words, strip accents,
lowercase, give punctuation its own words), but each of them hangs on a Unicode table, and the reference
implementation mixes tables of several Unicode versions that no other library has. This room holds those
tables, as `unicode_tables.json`, and the one function that reads them, so that everything else speaks of
characters alone. `tests/helpers/make_unicode_tables.py` writes the data by asking the reference about every code
point.
"""

import dataclasses
import functools
import json
import unicodedata
from importlib import resources

HANGUL_SYLLABLES = range(0xAC00, 0xD7A4)


@dataclasses.dataclass(frozen=True)
class TextRules:
    """Which steps of BERT's text cleaning are on, beside those that always are."""

    lowercase: bool = True
    strip_accents: bool = True
    split_cjk: bool = True


@dataclasses.dataclass(frozen=True)
class UnicodeTables:
    """The reference's Unicode: characters by what happens to them. Code points, unless said otherwise."""

    drop: tuple[range, ...]  # control, format and private-use characters, and U+FFFD
    space: tuple[range, ...]  # whitespace
    cjk: tuple[range, ...]  # ideographs that become words of their own
    punctuation: frozenset[int]
    mark: frozenset[int]  # accents, to be stripped
    combining_class: dict[int, int]  # rank in canonical order, from 1; starters are not in here
    lower: dict[int, str]
    decomposition: dict[int, str]  # full canonical decomposition, without the Hangul syllables

    def reorderable(self) -> list[int]:
        """Characters that survive accent stripping and yet may trade places with their neighbours in it.

        They are why normalization cannot be done character by character for every text: about 80 rare signs.
        """
        return sorted(set(self.combining_class) - self.mark)

    def decompose(self, char: str) -> str:
        """Return the canonical decomposition (NFD) of one character."""
        if ord(char) in HANGUL_SYLLABLES:  # by arithmetic, the same in every version of Unicode
            return unicodedata.normalize("NFD", char)
        return self.decomposition.get(ord(char), char)


@functools.cache
def load_tables() -> UnicodeTables:
    """Read the tables that ship with the package.

    >>> load_tables().lower[ord("A")]
    'a'
    """
    data = json.loads((resources.files("keras_bert.text") / "unicode_tables.json").read_text("ascii"))
    ranks = enumerate(data["combining_class"], start=1)
    return UnicodeTables(
        drop=_ranges(data["drop"]),
        space=_ranges(data["space"]),
        cjk=_ranges(data["cjk"]),
        punctuation=frozenset(_members(data["punctuation"])),
        mark=frozenset(_members(data["mark"])),
        combining_class={code: rank for rank, group in ranks for code in _members(group)},
        lower=_mapping(data["lower"]),
        decomposition=_mapping(data["decomposition"]),
    )


def spell(char: str, rules: TextRules) -> str:
    """Return what BERT's cleaning makes of one character, with spaces around what becomes a word of its own.

    >>> spell("É", TextRules()), spell("½", TextRules()), spell("。", TextRules())
    ('e', '½', ' 。 ')
    """
    tables, code = load_tables(), ord(char)
    if in_ranges(code, tables.drop):
        return ""
    if in_ranges(code, tables.space):
        return " "
    chars = char
    if rules.strip_accents:
        chars = [part for part in tables.decompose(char) if ord(part) not in tables.mark]
    if rules.lowercase:
        chars = [part for upper in chars for part in tables.lower.get(ord(upper), upper)]
    spelled = "".join(f" {part} " if ord(part) in tables.punctuation else part for part in chars)
    return f" {spelled} " if rules.split_cjk and in_ranges(code, tables.cjk) else spelled


@functools.cache
def spell_all(rules: TextRules) -> dict[int, str]:
    """Return the spelling of every character that cleaning changes, but for those whose range tells it.

    >>> spell_all(TextRules())[ord("Ä")]
    'a'
    """
    tables = load_tables()
    codes = {*range(0x80), *HANGUL_SYLLABLES, *tables.punctuation, *tables.mark, *tables.lower}
    return {code: spell(chr(code), rules) for code in sorted(codes | set(tables.decomposition))}


def in_ranges(code: int, ranges: tuple[range, ...]) -> bool:
    """Say whether a code point lies in one of a few ranges."""
    return any(code in span for span in ranges)


def _ranges(text):
    """Read `41-5a 61`."""
    bounds = (item.split("-") for item in text.split())
    return tuple(range(int(bound[0], 16), int(bound[-1], 16) + 1) for bound in bounds)


def _members(text):
    return [code for span in _ranges(text) for code in span]


def _mapping(text):
    """Read `c0:41+300`."""
    pairs = (item.split(":") for item in text.split())
    return {int(code, 16): "".join(chr(int(part, 16)) for part in parts.split("+")) for code, parts in pairs}
