"""The bytes of a flatbuffer → its tables, numbers and texts, every offset checked against the end of the file.

Takes a file that may come from anywhere, gives `Table` values; what leads outside of it, and what is more to read than
a graph has, is a `ValueError`. A room of its own because everything that looks into a `.tflite` file without changing
it reads with this: the generated classes of the schema trust every offset, and loading them takes longer than a cold
start may. Standard library alone.
"""

import mmap
import struct
from functools import cached_property

IDENTIFIER = b"TFL3"  # of a TFLite file
Content = bytes | mmap.mmap
# What may be read of a file: a hundred times what MiniLM has. A table counts for what it is in Python, and stands in a
# list for four bytes, so that a small file with all its lists read twice is within the bound as well.
_MOST_READ, _BYTES_OF_A_TABLE = 1 << 26, 256
_MOST_READ_OF_A_BYTE = 2 * _BYTES_OF_A_TABLE // 4


class Allowance:
    """How many bytes of a file's graph may still be read.

    A thousand entries of a flatbuffer may point at the same bytes: a file of a megabyte is then gigabytes to whoever
    follows them all.

    Args:
        size: The bytes of the file.
    """

    def __init__(self, size: int):
        self._most = self._left = min(_MOST_READ, _MOST_READ_OF_A_BYTE * size)

    def take(self, size: int) -> None:
        """An error where it is used up."""
        self._left -= size
        if self._left < 0:
            raise ValueError(
                f"The TFLite file has over {self._most:,} bytes of graph, or points at some of them often."
            )


class Table:
    """A table of a flatbuffer. Fields are called by their number in the schema.

    Args:
        data: The file: bytes, or a map of it.
        position: Where the table begins.
        allowance: How much may be read from here on; what a table leads to shares its own.

    Example:
        >>> data = struct.pack("<I4sHHHHi", 12, b"TFL3", 6, 8, 4, 0, 8) + struct.pack("<I", 3)
        >>> Table(data, 16).number(0, "<I")
        3
    """

    def __init__(self, data: Content, position: int, allowance: Allowance | None = None):
        self.data, self.position = data, position
        self.allowance = Allowance(len(data)) if allowance is None else allowance
        self._fields = position - _number("<i", data, position)  # the list of where the fields are
        self.num_fields = (_number("<H", data, self._fields) - 4) // 2

    def place(self, field: int) -> int | None:
        """Where a field stands, or `None` where it has its default."""
        offset = _number("<H", self.data, self._fields + 4 + 2 * field) if field < self.num_fields else 0
        return self.position + offset if offset else None

    def number(self, field: int, layout: str, default: int = 0) -> int:
        """A number; `layout` as for `struct`."""
        position = self.place(field)
        return default if position is None else _number(layout, self.data, position)

    def target(self, field: int) -> int | None:
        """What an offset points to, or `None`."""
        position = self.place(field)
        return None if position is None else position + _number("<I", self.data, position)

    def vector(self, field: int, item_size: int = 4) -> range:
        """The positions of a vector's items."""
        start = self.target(field)
        if start is None:
            return range(0)
        count = _number("<I", self.data, start)
        _check_range(self.data, start + 4, count * item_size)
        return range(start + 4, start + 4 + count * item_size, item_size)

    def numbers(self, field: int) -> tuple[int, ...]:
        """A vector of int32."""
        return self._unpack(self.vector(field), "i")

    def long_numbers(self, field: int) -> tuple[int, ...]:
        """A vector of int64."""
        return self._unpack(self.vector(field, item_size=8), "q")

    def _unpack(self, places: range, letter: str) -> tuple[int, ...]:
        self.allowance.take(len(places) * places.step)
        return struct.unpack_from(f"<{len(places)}{letter}", self.data, places.start) if places else ()

    def table(self, field: int) -> "Table | None":
        """A table, or `None`."""
        position = self.target(field)
        return None if position is None else Table(self.data, position, self.allowance)

    def tables(self, field: int) -> list["Table"]:
        """A vector of tables."""
        places = self.vector(field)
        self.allowance.take(len(places) * _BYTES_OF_A_TABLE)
        return [Table(self.data, item + _number("<I", self.data, item), self.allowance) for item in places]

    def raw_text(self, field: int) -> bytes:
        """A string as it stands in the file."""
        characters = self.vector(field, item_size=1)
        self.allowance.take(len(characters))
        return self.data[characters.start : characters.stop]

    def text(self, field: int) -> str:
        """A string; what is not UTF-8 in it becomes U+FFFD."""
        return self.raw_text(field).decode("utf-8", "replace")


class FileTable(Table):
    """The root of a TFLite file, which the schema calls `Model`, with the parts that readers ask for."""

    VERSION, OPERATOR_CODES, SUBGRAPHS, BUFFERS, METADATA, SIGNATURES = 0, 1, 2, 4, 6, 7

    def __init__(self, data: Content):
        if len(data) < 8 or data[4:8] != IDENTIFIER:
            raise ValueError(f"The bytes begin with {bytes(data[:8])!r}; a TFLite file has TFL3 at byte 4.")
        super().__init__(data, _number("<I", data, 0))

    @cached_property
    def operator_codes(self) -> list[Table]:
        """Which ops there are."""
        return self.tables(self.OPERATOR_CODES)

    @cached_property
    def subgraphs(self) -> list["GraphTable"]:
        """The graphs."""
        return [GraphTable(self.data, table.position, self.allowance) for table in self.tables(self.SUBGRAPHS)]

    @cached_property
    def buffers(self) -> list[Table]:
        """The constants."""
        return self.tables(self.BUFFERS)

    @cached_property
    def signatures(self) -> list[Table]:
        """The named ways in."""
        return self.tables(self.SIGNATURES)


class GraphTable(Table):
    """A graph of a TFLite file."""

    @cached_property
    def tensors(self) -> list[Table]:
        """Its tensors; inputs and outputs are their numbers."""
        return self.tables(0)

    @cached_property
    def operators(self) -> list[Table]:
        """Its ops, in the order of their run."""
        return self.tables(3)

    @property
    def inputs(self) -> tuple[int, ...]:
        """The numbers of its inputs."""
        return self.numbers(1)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The numbers of its outputs."""
        return self.numbers(2)


def _check_range(data: Content, position: int, size: int) -> None:
    if position < 0 or position + size > len(data):
        raise _outside(data, position + size)


def _outside(data: Content, end: int) -> ValueError:
    return ValueError(f"The TFLite file points to byte {end:,} of its {len(data):,}: it was cut short or is damaged.")


def _number(layout: str, data: Content, position: int) -> int:
    if position < 0:  # which would count from the end
        raise _outside(data, position)
    try:
        return struct.unpack_from(layout, data, position)[0]
    except struct.error:
        raise _outside(data, position + struct.calcsize(layout)) from None
