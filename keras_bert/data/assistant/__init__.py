"""The bundled data set: commands to a phone assistant, with their intents and slots.

It needs the standard library only, so that tests, examples and devices can read it without TensorFlow.

    >>> from keras_bert.data.assistant import load_assistant
    >>> first = load_assistant("train")[0]
    >>> first.text, first.intent
    ('wake me up at half past six tomorrow', 'set_alarm')
    >>> [(slot.name, slot.text) for slot in first.slots]
    [('time', 'half past six'), ('date', 'tomorrow')]

All utterances were written for this package. The training split has everyday wording. Validation and test were
written separately: they share no wording with the training split, most slot values are new, and the test split
has many indirect requests ("I can't see a thing in the stairwell"). In each file the intents alternate, so that
the first lines are a balanced sample.

**File format.** UTF-8 with a header, one utterance per line, `intent<TAB>utterance`; slots are marked inline as
`[words](slot)`:

    set_alarm<TAB>wake me up at [half past six](time) [tomorrow](date)

Square brackets are only for slots: an utterance cannot contain a literal one. Slots do not nest.

**What a slot covers.**

- Not included: prepositions ("at", "for", "in"), a leading "the", "a" or "my", the `'s` of an owner, and the
  words "list" and "playlist". Included: what changes the meaning ("every Sunday", "nearest pharmacy",
  "this Friday"), and an "a" that counts ("[an hour](duration)", "[a](amount) [cup](unit)").
- `message`, `phrase` and `reminder`, and every title or name, are marked as a whole: with their article, and with
  the dates and persons that they mention ("tell Mum [I'll be there on Sunday](message)").
- `time` is a time of day ("noon", "6 in the morning", a mealtime), `date` a day, a longer span or a
  repetition. A part of the day joins the day that it follows ("[tomorrow morning](date)"); "tonight" is a
  date. A length of time is always a `duration` ("in [an hour](duration)"). "now", "later" and "outside" are
  not marked.
- `person` is a contact, a role, a group or a historical figure, `place` also a business to call or to visit.
- `change` is what says which way a device or the volume goes: "on", "dim", "blue", "louder", "mute".
- `amount` and `unit` are separate, even where they are written together: `[40](amount)[%](unit)`.
- `genre` is a style or a mood, `item` what goes on a list, what is measured, or what a timer is for.
- Only what the request is about is marked, not side remarks ("I have a flight to catch").
- `small_talk` has no slots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

__all__ = ["Slot", "Utterance", "intents", "load_assistant", "read_utterances", "slot_names", "split_words"]

SPLITS = ("train", "validation", "test")
HEADER = "intent\tutterance"

_MARKS = "\u0300-\u036f\u200d\ufe00-\ufe0f"  # accents, joiner, variation selectors: never separate words
_WORD = re.compile(
    rf"""
      ['’]s\b                                           # Ana|'s   what|'s
    | \w[\w{_MARKS}]*                                   # a word ...
      (?: (?: ['’](?!s\b) | - | (?<=\d)[.,:/](?=\d) )   # ... joined: don't  lie-in  7:30  1,500  6.5
          \w[\w{_MARKS}]* )*
    | [^\w\s][{_MARKS}]*                                # any other character by itself
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MARKED = re.compile(r"\[([^\[\]]*)\]\(([^()\[\]]*)\)")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


# === Utterances ===


@dataclass(frozen=True)
class Slot:
    """A marked part of an utterance: `utterance.text[start:end] == text`."""

    name: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Utterance:
    """One command: its plain text, its intent, and its slots from left to right.

    >>> utterance = Utterance("Wake me at 7:30.", "set_alarm", (Slot("time", 11, 15, "7:30"),))
    >>> utterance.words()
    ['Wake', 'me', 'at', '7:30', '.']
    >>> utterance.bio_tags()
    ['O', 'O', 'O', 'B-time', 'O']
    """

    text: str
    intent: str
    slots: tuple[Slot, ...] = ()

    def __post_init__(self) -> None:
        spans = [(start, end) for _, start, end in split_words(self.text)]
        starts, ends = {start for start, _ in spans}, {end for _, end in spans}
        free_from = 0
        for slot in self.slots:
            if self.text[slot.start : slot.end] != slot.text:
                found = self.text[slot.start : slot.end]
                raise ValueError(
                    f"{slot} does not fit {self.text!r}: text[start:end] is {found!r}; expected the slot's text."
                )
            if slot.start < free_from:
                raise ValueError(
                    f"{slot} overlaps the slot before it, or is out of order; expected slots from left to right."
                )
            if slot.start not in starts or slot.end not in ends:
                raise ValueError(
                    f"Slot {slot.name!r} = {slot.text!r} must begin and end where a word does; "
                    f"the words of this utterance are {self.words()}."
                )
            free_from = slot.end

    def words(self) -> list[str]:
        """The words of the text, from `split_words`."""
        return [word for word, _, _ in split_words(self.text)]

    def bio_tags(self) -> list[str]:
        """One tag for each of `words()`: `B-slot` where a slot begins, `I-slot` within it, `O` elsewhere."""
        tags = []
        for _, start, end in split_words(self.text):
            slot = next((slot for slot in self.slots if slot.start <= start and end <= slot.end), None)
            tags.append("O" if slot is None else f"{'B' if start == slot.start else 'I'}-{slot.name}")
        return tags


def split_words(text: str) -> list[tuple[str, int, int]]:
    """Split a text into `(word, start, end)`. Slots are not looked at.

    A word is a run of letters and digits; an inner apostrophe or hyphen does not end it, nor does one of
    `.,:/` between digits. A final `'s` and every other character are separate words.

    >>> [word for word, _, _ in split_words("What's 1,500 kronor in €, Zoë?")]
    ['What', "'s", '1,500', 'kronor', 'in', '€', ',', 'Zoë', '?']
    """
    return [(match.group(), match.start(), match.end()) for match in _WORD.finditer(text)]


# === Files ===


def load_assistant(split: str = "train") -> list[Utterance]:
    """The utterances of one split of the bundled data set: `"train"`, `"validation"` or `"test"`.

    Example:
        >>> sorted({utterance.intent for utterance in load_assistant("test")})[:2]
        ['add_event', 'add_to_list']
    """
    if split not in SPLITS:
        raise ValueError(f"split={split!r}: expected one of {', '.join(map(repr, SPLITS))}.")
    return list(_bundled(split))


def read_utterances(path: str | Path) -> list[Utterance]:
    """Read a file in the format of the bundled ones (see the top of this module).

    A line that breaks the format raises a `ValueError` with file, line number and what is wrong.
    """
    try:
        content = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8.") from None
    return list(_parse(content, source=str(path)))


def intents() -> tuple[str, ...]:
    """The names of all intents, sorted: a name's position is its class number.

    >>> intents()[:3]
    ('add_event', 'add_to_list', 'adjust_volume')
    """
    return tuple(sorted({utterance.intent for utterance in _bundled("train")}))


def slot_names() -> tuple[str, ...]:
    """The names of all slots, sorted.

    >>> slot_names()[:3]
    ('amount', 'artist', 'change')
    """
    return tuple(sorted({slot.name for utterance in _bundled("train") for slot in utterance.slots}))


@cache
def _bundled(split: str) -> tuple[Utterance, ...]:
    name = f"assistant_{split}.tsv"
    return tuple(_parse(resources.files(__name__).joinpath(name).read_text(encoding="utf-8"), source=name))


def _parse(content: str, source: str) -> Iterator[Utterance]:
    header, *lines = content.removesuffix("\n").split("\n")
    if header != HEADER:
        raise ValueError(f"{source}, line 1: the header is {header!r}; expected {HEADER!r}.")
    for number, line in enumerate(lines, start=2):
        try:
            yield _parse_line(line)
        except ValueError as error:
            raise ValueError(f"{source}, line {number}: {error}") from None


def _parse_line(line: str) -> Utterance:
    fields = line.split("\t")
    if len(fields) != 2:
        raise ValueError(f"There are {len(fields)} columns; expected 2 with a tab between them: intent and utterance.")
    intent, marked = fields
    if not _NAME.fullmatch(intent):
        raise ValueError(f"Intent {intent!r}: expected a name of lower-case letters, digits and underscores.")
    if not marked or marked != " ".join(marked.split()):
        raise ValueError(
            f"Utterance {marked!r} is empty, or has a space at an end or two in a row; expected single spaces."
        )

    text, slots, done = "", [], 0
    for match in _MARKED.finditer(marked):
        words, name = match.groups()
        if not words or words != words.strip():
            raise ValueError(f"{match.group()!r} marks no words, or a space at an end; expected [words](slot).")
        if not _NAME.fullmatch(name):
            raise ValueError(f"Slot {name!r}: expected a name of lower-case letters, digits and underscores.")
        text += marked[done : match.start()]
        slots.append(Slot(name, len(text), len(text) + len(words), words))
        text += words
        done = match.end()
    text += marked[done:]
    if "[" in text or "]" in text:
        raise ValueError(f"A square bracket is left over in {text!r}; a slot is written [words](slot).")
    return Utterance(text, intent, tuple(slots))
