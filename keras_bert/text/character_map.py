"""Normalizes texts by a compiled character map of SentencePiece, without TensorFlow.

The map is a trie of byte strings, of which the longest that fits is replaced. `CharacterMap` gives for a text what
SentencePiece cuts into pieces, and for each of its characters the place in the text that it comes from. The graph does
the same in an op; this is for devices.
"""

import functools
from collections.abc import Iterator

import numpy as np

from keras_bert.text.unigram_model import SPACE, UnigramModel, split_character_map


class CharacterMap:
    """What characters become, and how spaces are treated.

    Args:
        model: The model that has the compiled map.

    Example:
        >>> CharacterMap(UnigramModel.from_pieces([("a", -1.0)])).normalize("  a  b ")
        ('▁a▁b', [2, 2, 3, 5, 6])
    """

    def __init__(self, model: UnigramModel):
        units, self._texts = split_character_map(model.character_map)
        self._units = units.tolist()
        self._add_prefix, self._strip_spaces = model.add_prefix, model.strip_spaces
        self._known: dict[str, str | None] = {}  # what single characters become; None: it depends on what follows

    def normalize(self, text: str) -> tuple[str, list[int]]:
        """Return the normalized text, and the place of each of its characters in the text; one more for the end."""
        parts: list[str] = []
        origins: list[int] = []
        place = 0
        if self._strip_spaces:
            while place < len(text):
                replaced, size = self._replace(text, place)
                if replaced != " ":
                    break
                place += size
        if place == len(text):
            return "", [place]
        if self._add_prefix:
            parts.append(SPACE)
            origins.append(place)
        after_space = self._strip_spaces
        while place < len(text):
            replaced, size = self._replace(text, place)
            if after_space:
                replaced = replaced.lstrip(" ")
            if replaced:
                after_space = self._strip_spaces and replaced.endswith(" ")
                parts.append(replaced.replace(" ", SPACE))
                origins += [place] * len(replaced)
            place += size
        normalized = "".join(parts)
        origins.append(place)
        if self._strip_spaces:
            normalized = normalized.rstrip(SPACE)
            del origins[len(normalized) + 1 :]
        return normalized, origins

    @functools.cached_property
    def spaces(self) -> frozenset[str]:
        """The characters that become nothing but spaces."""
        found = {
            char for char in self._single_keys() if (become := self._replace(char, 0)[0]) and not become.strip(" ")
        }
        return frozenset(found | ({" "} - set(self._single_keys())))

    def _single_keys(self) -> Iterator[str]:
        """Yield the characters that are replaced wherever they stand."""
        units, labels = np.array(self._units, np.uint32), np.arange(1, 0x100)
        waiting = [(_offset(self._units[0]), b"")] if self._units else []
        while waiting:
            node, key = waiting.pop()
            places = node ^ labels
            fits = (places < len(units)) & (units[places.clip(max=len(units) - 1)] & 0x800000FF == labels)
            for byte in labels[fits].tolist():
                unit, longer = self._units[node ^ byte], key + bytes([byte])
                if len(longer) < _size_in_utf8(longer[0]):
                    waiting.append((node ^ byte ^ _offset(unit), longer))
                elif unit >> 8 & 1:
                    yield longer.decode("utf-8", "replace")

    def _replace(self, text: str, place: int) -> tuple[str, int]:
        """Return what the longest known string at a place becomes, and how many characters it has."""
        char = text[place]
        if (known := self._known.get(char, "")) is not None and (known or char in self._known):
            return known, 1
        first, more = self._search(char)
        if not more:
            self._known[char] = char if first is None else first[0]
            return self._known[char] or "", 1
        self._known[char] = None
        found, _ = self._search(text[place : place + 32])
        return found if found is not None else (char, 1)

    def _search(self, text: str) -> tuple[tuple[str, int] | None, bool]:
        """Find the longest key that a text begins with: its replacement and its characters; and whether one goes on."""
        units = self._units
        if not units:
            return None, False
        node, found = _offset(units[0]), None
        for count, char in enumerate(text, 1):
            for byte in char.encode("utf-8", "surrogatepass"):
                node ^= byte
                if node >= len(units) or units[node] & 0x800000FF != byte:
                    return found, False
                unit = units[node]
                node ^= _offset(unit)
            if unit >> 8 & 1:
                value = units[node] & 0x7FFFFFFF
                found = (self._texts[value : self._texts.index(b"\0", value)].decode(), count)
        return found, _has_children(units, node)


def _offset(unit: int) -> int:
    return unit >> 10 << ((unit & 0x200) >> 6)


def _size_in_utf8(lead: int) -> int:
    return 1 + sum(lead >= least for least in (0xC0, 0xE0, 0xF0))


def _has_children(units: list[int], node: int) -> bool:
    """Return whether a longer key goes on from a node; keys are UTF-8, so a zero byte is only an end."""
    return any((place := node ^ byte) < len(units) and units[place] & 0x800000FF == byte for byte in range(1, 0x100))
