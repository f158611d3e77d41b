"""A text with two marked entities, and the forms in which it can be written.

Takes a text with tags (`The <e1>child</e1> lay in the <e2>cradle</e2>.`), or a text and two pairs of offsets; gives a
`MarkedText`, or what is wrong with it as a text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Span = tuple[int, int]

_TAGS = ("<e1>", "</e1>", "<e2>", "</e2>")
_TAG = re.compile("|".join(_TAGS))
_TWO_NUMBERS = re.compile(r"[\[(]?\s*(\d+)\s*[,:; -]\s*(\d+)\s*[\])]?")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class MarkedText:
    """A text and the offsets of two entities, in any order.

    Args:
        text: The text, without tags.
        first: The start and end of the first entity (`e1`): `text[start:end]`.
        second: The same for the second (`e2`).

    Example:
        >>> marked = MarkedText("The child lay in the cradle.", (4, 9), (21, 27))
        >>> marked.entities, marked.tagged
        (('child', 'cradle'), 'The <e1>child</e1> lay in the <e2>cradle</e2>.')
    """

    text: str
    first: Span
    second: Span

    def __post_init__(self) -> None:
        fault = find_fault(self.text, self.first, self.second)
        if fault is not None:
            raise ValueError(
                f"{str(self.text)[:40]!r} with entities at {self.first} and {self.second}: {fault}. Expected two parts "
                "of the text, each (start, end) in characters."
            )

    @property
    def entities(self) -> tuple[str, str]:
        """The texts of both entities."""
        return self.text[slice(*self.first)], self.text[slice(*self.second)]

    @property
    def second_leads(self) -> bool:
        """Whether the second entity comes before the first in the text."""
        return self.second < self.first

    @property
    def pieces(self) -> tuple[str, str, str, str, str]:
        """The five parts of the text: before, the left entity, between, the right entity, after."""
        (a, b), (c, d) = sorted((self.first, self.second))
        text = self.text
        return text[:a], text[a:b], text[b:c], text[c:d], text[d:]

    @property
    def tagged(self) -> str:
        """The text with tags, as `parse_tags` reads it."""
        tags = [*_TAGS[2:], *_TAGS[:2]] if self.second_leads else _TAGS
        before, left, between, right, after = self.pieces
        return "".join((before, tags[0], left, tags[1], between, tags[2], right, tags[3], after))


# === Faults ===


def find_fault(text: Any, first: Any, second: Any) -> str | None:
    """Say what is wrong with two entities of a text; `None` if nothing is.

    Example:
        >>> find_fault("a cat", (2, 5), (4, 5))
        'entities overlap'
    """
    if not isinstance(text, str):
        return "text is no string"
    if not text.strip():
        return "empty text"
    if _SURROGATE.search(text):
        return "invalid UTF-8"
    spans = (first, second)
    if not all(isinstance(span, tuple) and len(span) == 2 and all(type(end) is int for end in span) for span in spans):
        return "an entity is no (start, end)"
    if any(start > end for start, end in spans):
        return "an entity ends before it begins"
    if any(start < 0 or end > len(text) for start, end in spans):
        return "an entity lies outside of the text"
    if any(not text[start:end].strip() for start, end in spans):
        return "empty entity"
    left, right = sorted(spans)
    return "entities overlap" if left[1] > right[0] else None


# === Forms ===


def as_marked(item: Any) -> MarkedText | str:
    """Turn any accepted form into a marked text; or return, as a string, what is wrong.

    Args:
        item: A `MarkedText`; a string with tags; or `(text, first, second)`, where an entity is `(start, end)`, a
            dictionary or an object with `start` and `end`, such as an `Entity` from a tagger.

    Example:
        >>> as_marked(("a cat sat", (2, 5), (6, 9))).entities, as_marked("a <e1>cat</e1> sat")
        (('cat', 'sat'), 'missing tag <e2>')
    """
    if isinstance(item, MarkedText):
        return item
    if isinstance(item, str):
        return parse_tags(item)
    if isinstance(item, tuple | list) and len(item) == 3:
        return make_marked(*item)
    return "neither a text with tags nor (text, first, second)"


def is_marked_form(item: Any) -> bool:
    """Whether this is one text in a form that `as_marked` takes, and not a list of texts.

    Example:
        >>> is_marked_form(("a cat sat", (2, 5), (6, 9))), is_marked_form(["<e1>a</e1>", "b", "c"])
        (True, False)
    """
    if isinstance(item, tuple | list) and len(item) == 3:
        return isinstance(item[0], str) and not any(isinstance(part, str | MarkedText) for part in item[1:])
    return isinstance(item, str | MarkedText)


def make_marked(text: Any, first: Any, second: Any) -> MarkedText | str:
    """Make a marked text from a text and two pairs of offsets, or return what is wrong.

    Example:
        >>> make_marked("a cat sat", "2 5", {"start": 6, "end": 9}).entities
        ('cat', 'sat')
    """
    spans = _span(first), _span(second)
    return find_fault(text, *spans) or MarkedText(text, *spans)


def parse_tags(text: str) -> MarkedText | str:
    """Make a marked text from a text with tags, or return what is wrong. Spaces next to a tag are not part of it.

    Example:
        >>> parse_tags("The <e2>cradle</e2> held a <e1> child </e1>.").entities
        ('child', 'cradle')
    """
    found = [match.group() for match in _TAG.finditer(text)]
    for tag in _TAGS:
        if found.count(tag) != 1:
            return f"missing tag {tag}" if tag not in found else f"tag {tag} more than once"
    plain, places, end = [], {}, 0
    for match in _TAG.finditer(text):
        plain.append(text[end : match.start()])
        places[match.group()] = sum(map(len, plain))
        end = match.end()
    plain = "".join((*plain, text[end:]))
    return make_marked(plain, *(_tight(plain, places[tag], places[f"</{tag[1:]}"]) for tag in _TAGS[::2]))


def _tight(text: str, start: int, end: int) -> Span:
    part = text[start:end]
    if not part.strip():
        return start, end
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def _span(value: Any) -> Any:
    """The offsets of an entity in any form; other values stay as they are, and `find_fault` names them."""
    if isinstance(value, str):
        numbers = _TWO_NUMBERS.fullmatch(value.strip())
        return tuple(map(int, numbers.groups())) if numbers else value
    if isinstance(value, Mapping):
        return value.get("start"), value.get("end")
    if isinstance(value, Sequence):
        return tuple(value)
    return (value.start, value.end) if hasattr(value, "start") and hasattr(value, "end") else value
