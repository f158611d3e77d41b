"""Character tables for tensorflow-text's normalizer: takes replacements of characters, gives a model.

tensorflow-text's `FastBertNormalize` op walks a text once and replaces characters by looking them up in a
trie. Its own tables are not the original BERT's, but the trie is an input of the op, so an exact table makes
the op exact, in every runtime that has the op, stock TF Serving included. This room knows the format of that
trie and nothing of BERT.

The format is a double array, as in the darts-clone library: one array of 32-bit units. The children of a node
lie at `base ^ byte`; a unit holds the byte by which it is reached, the distance from itself to its base, and
whether a value hangs at the base. Characters in blocks of 64 (one trailing UTF-8 byte) with equal contents
share their node, which keeps a table about all 1.1 million code points at a few 100 kB.
"""

import flatbuffers
import numpy as np

CODE_POINTS = 0x110000
_BLOCK = 64  # code points that differ in the last UTF-8 byte alone
_PAGE = 256  # `base ^ byte` stays within one page
_HAS_VALUE, _IS_VALUE, _IS_CHANGED = 1 << 8, 1 << 31, 1 << 30
_LONGEST = 63  # bytes of a replacement that a value can say


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
        """Let every character of a range become `text`."""
        if len(text.encode()) > _LONGEST:
            raise ValueError(f"{text!r} has more than {_LONGEST} bytes of UTF-8, the longest replacement of the op.")
        self._choice[codes.start : codes.stop] = self._strings.setdefault(text, len(self._strings) + 1)

    def build(self) -> np.ndarray:
        """Return the model as a uint8 array."""
        pool, values = bytearray(), [0]
        for text in self._strings:
            piece = text.encode()
            values.append(_IS_CHANGED | len(pool) << 6 | len(piece))
            pool += piece
        units = _DoubleArray(values).build(self._choice)
        return _to_flatbuffer(units, values[self._choice[0]], np.frombuffer(bytes(pool), np.uint8))


class _DoubleArray:
    """Lays out the trie. A target is where a unit leads, `(base, has a value)`, or None for no unit."""

    def __init__(self, values):
        self._pages = [
            np.zeros(_PAGE, np.uint32),
            np.zeros(_PAGE, np.uint32),
        ]  # the root's unit; its children
        self._halves = []  # bases of free half pages, each with room for one block of children
        self._free = []  # free slots for values
        self._targets = [None] + [(self._place_value(value), True) for value in values[1:]]

    def build(self, choice):
        last = self._place_level(self._targets, choice)
        third = self._place_level(*last)
        second = self._place_level(*third)
        malformed = self._targets[1]
        leads = [self._targets[value] for value in choice[:0x80]] + [malformed] * 0x80
        leads[0xC2:0xE0] = [last[0][block] for block in last[1][2:32]]
        leads[0xE0:0xF0] = [third[0][block] for block in third[1][:16]]
        leads[0xF0:0xF5] = [second[0][block] for block in second[1][:5]]
        self._link(0, _PAGE)
        for byte, target in enumerate(leads):
            if byte and target:  # byte 0 cannot be in a trie; the op has a field of its own for it
                self._link(_PAGE + byte, *target, label=byte)
        return np.concatenate(self._pages)

    def _place_level(self, targets, choice):
        """Place a node for every distinct block of 64 children; return their targets and which is whose."""
        nodes, which, seen = [], [], {}
        for block in choice.reshape(-1, _BLOCK):
            which.append(seen.setdefault(block.tobytes(), len(seen)))
            if which[-1] < len(nodes):
                continue
            base = self._place_children()
            for byte, child in enumerate(block, start=0x80):
                if targets[child]:
                    self._link(base ^ byte, *targets[child], label=byte)
            nodes.append((base, True))  # the value says what a character that breaks off here becomes
        return nodes, np.array(which, np.int32)

    def _place_children(self):
        if not self._halves:
            page = self._add_page()
            self._halves = [
                page,
                page + _BLOCK,
            ]  # their children fill the upper half, their values two slots below
            self._free += [page + slot for slot in range(1, 2 * _BLOCK) if slot != _BLOCK]
        base = self._halves.pop()
        self._write(base, self._read(self._targets[1][0]))
        return base

    def _place_value(self, value):
        if not self._free:
            page = self._add_page()
            self._free = [page + slot for slot in range(_PAGE)]
        slot = self._free.pop()
        self._write(slot, _IS_VALUE | value)
        return slot

    def _add_page(self):
        self._pages.append(np.zeros(_PAGE, np.uint32))
        return (len(self._pages) - 1) * _PAGE

    def _link(self, slot, base, has_value=False, label=0):
        self._write(slot, (slot ^ base) << 10 | has_value * _HAS_VALUE | label)

    def _read(self, slot):
        return int(self._pages[slot // _PAGE][slot % _PAGE])

    def _write(self, slot, unit):
        self._pages[slot // _PAGE][slot % _PAGE] = unit


def _to_flatbuffer(units, value_of_zero, pool):
    """Pack the parts as a `FastBertNormalizerModel`; the op never reads its field 0."""
    builder = flatbuffers.Builder(4 * len(units) + len(pool) + 256)
    units = builder.CreateNumpyVector(units)
    pool = builder.CreateNumpyVector(pool)
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(1, units, 0)
    builder.PrependInt32Slot(2, value_of_zero, 0)
    builder.PrependUOffsetTRelativeSlot(3, pool, 0)
    builder.Finish(builder.EndObject())
    return np.frombuffer(bytes(builder.Output()), np.uint8)
