"""Builds the character table of tensorflow-text's `FastBertNormalize` op from replacements of characters.

The op replaces characters by looking them up in a trie. Its built-in tables differ from the original BERT's, but the
trie is an input of the op. An exact table therefore makes the op exact, in every runtime that has it, TF Serving
included. This module knows the format of the trie and nothing about BERT.

The format is a double array, as in the darts-clone library: one array of 32-bit units. The children of a node are at
`base ^ byte`. A unit holds the byte that leads to it, the distance to its base, and whether the base has a value.
Blocks of 64 characters (one trailing UTF-8 byte) with equal contents share a node, which keeps the table small.
"""

import flatbuffers
import numpy as np

CODE_POINTS = 0x110000
_BLOCK = 64  # code points that differ only in the last UTF-8 byte
_PAGE = 256  # `base ^ byte` stays within one page
_HAS_VALUE, _IS_VALUE, _IS_CHANGED = 1 << 8, 1 << 31, 1 << 30
_LONGEST = 63  # the most bytes of a replacement that fit into a value

_Target = tuple[int, bool] | None  # where a unit leads: `(base, has a value)`, or None for no unit


class CharacterTable:
    """A replacement for every code point; characters that are not mentioned stay as they are.

    ```python
    table = CharacterTable(malformed="?")
    table.replace(range(0x41, 0x42), "a")
    model = table.build()  # uint8, for tensorflow_text.FastBertNormalizer(model_buffer=tf.constant(model))
    ```
    """

    def __init__(self, malformed: str):
        """Start with no replacements; `malformed` replaces bytes that are not UTF-8."""
        self._choice = np.zeros(5 * _BLOCK**3, np.int32)  # as far as a 4-byte lead F4 can reach
        self._strings = {malformed: 1}

    def replace(self, codes: range, text: str) -> None:
        """Replace every character of a range by `text`."""
        if len(text.encode()) > _LONGEST:
            raise ValueError(
                f"{text!r} has more than {_LONGEST} bytes of UTF-8, the most the op can write; shorten it."
            )
        self._choice[codes.start : codes.stop] = self._strings.setdefault(text, len(self._strings) + 1)

    def build(self) -> np.ndarray:
        """Return the op's model as a uint8 array."""
        pool, values = bytearray(), [0]
        for text in self._strings:
            piece = text.encode()
            values.append(_IS_CHANGED | len(pool) << 6 | len(piece))
            pool += piece
        units = _DoubleArray(values).build(self._choice)
        return _to_flatbuffer(units, values[self._choice[0]], np.frombuffer(bytes(pool), np.uint8))


class _DoubleArray:
    """Lays out the trie."""

    def __init__(self, values: list[int]):
        self._pages = [np.zeros(_PAGE, np.uint32), np.zeros(_PAGE, np.uint32)]  # the root's unit; its children
        self._halves: list[int] = []  # bases of free half pages; each has space for one block of children
        self._free: list[int] = []  # free slots for values
        self._malformed = (self._place_value(values[1]), True)
        others = [(self._place_value(value), True) for value in values[2:]]
        self._targets: list[_Target] = [None, self._malformed, *others]

    def build(self, choice: np.ndarray) -> np.ndarray:
        """Return the units; `choice` says for each code point which value it has, 0 for none."""
        last = self._place_level(self._targets, choice)
        third = self._place_level(*last)
        second = self._place_level(*third)
        leads: list[_Target] = [self._targets[value] for value in choice[:0x80]] + [self._malformed] * 0x80
        leads[0xC2:0xE0] = [last[0][block] for block in last[1][2:32]]
        leads[0xE0:0xF0] = [third[0][block] for block in third[1][:16]]
        leads[0xF0:0xF5] = [second[0][block] for block in second[1][:5]]
        self._link(0, _PAGE)
        for byte, target in enumerate(leads):
            if byte and target:  # byte 0 cannot be in a trie; the op has a separate field for it
                self._link(_PAGE + byte, *target, label=byte)
        return np.concatenate(self._pages)

    def _place_level(self, targets: list[_Target], choice: np.ndarray) -> tuple[list[_Target], np.ndarray]:
        """Place a node for each distinct block of 64 children; return the targets, and the target of each block."""
        nodes: list[_Target] = []
        which: list[int] = []
        seen: dict[bytes, int] = {}
        for block in choice.reshape(-1, _BLOCK):
            which.append(seen.setdefault(block.tobytes(), len(seen)))
            if which[-1] < len(nodes):
                continue
            base = self._place_children()
            for byte, child in enumerate(block, start=0x80):
                target: _Target = targets[child]
                if target:
                    self._link(base ^ byte, *target, label=byte)
            nodes.append((base, True))  # the value replaces a character that breaks off here
        return nodes, np.array(which, np.int32)

    def _place_children(self) -> int:
        if not self._halves:
            page = self._add_page()
            # The children of both bases fill the upper half; their values take two slots of the lower half.
            self._halves = [page, page + _BLOCK]
            self._free += [page + slot for slot in range(1, 2 * _BLOCK) if slot != _BLOCK]
        base = self._halves.pop()
        self._write(base, self._read(self._malformed[0]))
        return base

    def _place_value(self, value: int) -> int:
        if not self._free:
            page = self._add_page()
            self._free = [page + slot for slot in range(_PAGE)]
        slot = self._free.pop()
        self._write(slot, _IS_VALUE | value)
        return slot

    def _add_page(self) -> int:
        self._pages.append(np.zeros(_PAGE, np.uint32))
        return (len(self._pages) - 1) * _PAGE

    def _link(self, slot: int, base: int, has_value: bool = False, label: int = 0) -> None:
        self._write(slot, (slot ^ base) << 10 | has_value * _HAS_VALUE | label)

    def _read(self, slot: int) -> int:
        return int(self._pages[slot // _PAGE][slot % _PAGE])

    def _write(self, slot: int, unit: int) -> None:
        self._pages[slot // _PAGE][slot % _PAGE] = unit


def _to_flatbuffer(units: np.ndarray, value_of_zero: int, pool: np.ndarray) -> np.ndarray:
    """Write the parts as a `FastBertNormalizerModel`; the op never reads its field 0."""
    builder = flatbuffers.Builder(4 * len(units) + len(pool) + 256)
    units_offset = builder.CreateNumpyVector(units)
    pool_offset = builder.CreateNumpyVector(pool)
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(1, units_offset, 0)
    builder.PrependInt32Slot(2, value_of_zero, 0)
    builder.PrependUOffsetTRelativeSlot(3, pool_offset, 0)
    builder.Finish(builder.EndObject())
    return np.frombuffer(bytes(builder.Output()), np.uint8)
