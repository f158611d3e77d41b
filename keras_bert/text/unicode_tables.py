"""Normalizes single characters as the original BERT does.

BERT drops control characters, splits off CJK characters and punctuation as separate words, strips accents and
lowercases. Each of these steps depends on a Unicode table, and the reference implementation mixes tables of several
Unicode versions. They are kept in `unicode_tables.json`, which `tests/helpers/make_unicode_tables.py` writes by running
the reference on every code point.
"""

import dataclasses
import functools
import json
import unicodedata
from importlib import resources

HANGUL_SYLLABLES = range(0xAC00, 0xD7A4)


@dataclasses.dataclass(frozen=True)
class TextRules:
    """The optional steps of BERT's normalization."""

    lowercase: bool = True
    strip_accents: bool = True
    split_cjk: bool = True


@dataclasses.dataclass(frozen=True)
class UnicodeTables:
    """The reference's Unicode tables. Values are code points unless a comment says otherwise."""

    drop: tuple[range, ...]  # control, format and private-use characters, and U+FFFD
    space: tuple[range, ...]  # whitespace
    cjk: tuple[range, ...]  # ideographs that become separate words
    punctuation: frozenset[int]
    mark: frozenset[int]  # accents, to be stripped
    combining_class: dict[int, int]  # rank in canonical order, from 1; starters are not in here
    lower: dict[int, str]
    decomposition: dict[int, str]  # full canonical decomposition, without the Hangul syllables

    def reorderable(self) -> list[int]:
        """Return the characters that accent stripping keeps but may reorder.

        Because of these few rare characters, some texts cannot be normalized character by character.
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
    """Return one character after normalization, with spaces around it if it becomes a separate word.

    >>> spell("É", TextRules()), spell("½", TextRules()), spell("。", TextRules())
    ('e', '½', ' 。 ')
    """
    tables, code = load_tables(), ord(char)
    if in_ranges(code, tables.drop):
        return ""
    if in_ranges(code, tables.space):
        return " "
    chars = [char]
    if rules.strip_accents:
        chars = [part for part in tables.decompose(char) if ord(part) not in tables.mark]
    if rules.lowercase:
        chars = [part for upper in chars for part in tables.lower.get(ord(upper), upper)]
    spelled = "".join(f" {part} " if ord(part) in tables.punctuation else part for part in chars)
    return f" {spelled} " if rules.split_cjk and in_ranges(code, tables.cjk) else spelled


@functools.cache
def spell_all(rules: TextRules) -> dict[int, str]:
    """Return the normalized form of every character that is not covered by one of the tables of ranges.

    >>> spell_all(TextRules())[ord("Ä")]
    'a'
    """
    tables = load_tables()
    codes = {*range(0x80), *HANGUL_SYLLABLES, *tables.punctuation, *tables.mark, *tables.lower}
    return {code: spell(chr(code), rules) for code in sorted(codes | set(tables.decomposition))}


def in_ranges(code: int, ranges: tuple[range, ...]) -> bool:
    """Return whether a code point lies in one of the ranges."""
    return any(code in span for span in ranges)


def _ranges(text: str) -> tuple[range, ...]:
    """Read `41-5a 61`."""
    bounds = (item.split("-") for item in text.split())
    return tuple(range(int(bound[0], 16), int(bound[-1], 16) + 1) for bound in bounds)


def _members(text: str) -> list[int]:
    return [code for span in _ranges(text) for code in span]


def _mapping(text: str) -> dict[int, str]:
    """Read `c0:41+300`."""
    pairs = (item.split(":") for item in text.split())
    return {int(code, 16): "".join(chr(int(part, 16)) for part in parts.split("+")) for code, parts in pairs}
