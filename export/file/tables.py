"""Read the tables, numbers and texts of a flatbuffer, with every offset checked against the end of the file.

The file may come from anywhere: an offset outside of it, or more to read than a graph has, raises a `ValueError`. The
schema's generated classes do not check offsets, and take long to import. Only the standard library is needed.
"""

import mmap
import struct
from functools import cached_property

IDENTIFIER = b"TFL3"  # marks a TFLite file
Content = bytes | mmap.mmap
# The most bytes to read of a file's graph, far more than a real one has. A table counts by its size in Python and takes
# four bytes in a list, so that the limit of a small file allows to read all its lists twice.
_MOST_READ, _BYTES_OF_A_TABLE = 1 << 26, 256
_MOST_READ_OF_A_BYTE = 2 * _BYTES_OF_A_TABLE // 4


class Allowance:
    """Counts how many bytes of a file's graph may still be read.

    Many entries of a flatbuffer may point to the same bytes, so that a small file could take gigabytes to read.

    Args:
        size: The bytes of the file.
    """

    def __init__(self, size: int):
        self._most = self._left = min(_MOST_READ, _MOST_READ_OF_A_BYTE * size)

    def take(self, size: int) -> None:
        """Use some of it; raise an error if it is used up."""
        self._left -= size
        if self._left < 0:
            raise ValueError(
                f"The TFLite file has over {self._most:,} bytes of graph, or points at some of them often."
            )


class Table:
    """A table of a flatbuffer. Fields have the numbers of the schema.

    Args:
        data: The file: bytes, or a map of it.
        position: Where the table begins.
        allowance: How much may still be read; tables inside of this one share it.

    Example:
        >>> data = struct.pack("<I4sHHHHi", 12, b"TFL3", 6, 8, 4, 0, 8) + struct.pack("<I", 3)
        >>> Table(data, 16).number(0, "<I")
        3
    """

    def __init__(self, data: Content, position: int, allowance: Allowance | None = None):
        self.data, self.position = data, position
        self.allowance = Allowance(len(data)) if allowance is None else allowance
        self._fields = position - _number("<i", data, position)  # the position of the field list
        self.num_fields = (_number("<H", data, self._fields) - 4) // 2

    def place(self, field: int) -> int | None:
        """The position of a field, or `None` if it has its default."""
        offset = _number("<H", self.data, self._fields + 4 + 2 * field) if field < self.num_fields else 0
        return self.position + offset if offset else None

    def number(self, field: int, layout: str, default: int = 0) -> int:
        """Read a number; `layout` as for `struct`."""
        position = self.place(field)
        return default if position is None else _number(layout, self.data, position)

    def target(self, field: int) -> int | None:
        """The position that an offset points to, or `None`."""
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
        """Read a vector of int32."""
        return self._unpack(self.vector(field), "i")

    def long_numbers(self, field: int) -> tuple[int, ...]:
        """Read a vector of int64."""
        return self._unpack(self.vector(field, item_size=8), "q")

    def _unpack(self, places: range, letter: str) -> tuple[int, ...]:
        self.allowance.take(len(places) * places.step)
        return struct.unpack_from(f"<{len(places)}{letter}", self.data, places.start) if places else ()

    def table(self, field: int) -> "Table | None":
        """Read a table, or `None`."""
        position = self.target(field)
        return None if position is None else Table(self.data, position, self.allowance)

    def tables(self, field: int) -> list["Table"]:
        """Read a vector of tables."""
        places = self.vector(field)
        self.allowance.take(len(places) * _BYTES_OF_A_TABLE)
        return [Table(self.data, item + _number("<I", self.data, item), self.allowance) for item in places]

    def raw_text(self, field: int) -> bytes:
        """Read a string as bytes."""
        characters = self.vector(field, item_size=1)
        self.allowance.take(len(characters))
        return self.data[characters.start : characters.stop]

    def text(self, field: int) -> str:
        """Read a string; invalid UTF-8 becomes U+FFFD."""
        return self.raw_text(field).decode("utf-8", "replace")


class FileTable(Table):
    """The root table of a TFLite file, `Model` in the schema."""

    VERSION, OPERATOR_CODES, SUBGRAPHS, BUFFERS, METADATA, SIGNATURES = 0, 1, 2, 4, 6, 7

    def __init__(self, data: Content):
        if len(data) < 8 or data[4:8] != IDENTIFIER:
            raise ValueError(f"The bytes begin with {bytes(data[:8])!r}; a TFLite file has TFL3 at byte 4.")
        super().__init__(data, _number("<I", data, 0))

    @cached_property
    def operator_codes(self) -> list[Table]:
        """The ops of the file."""
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
        """The signatures."""
        return self.tables(self.SIGNATURES)


class GraphTable(Table):
    """A graph of a TFLite file."""

    @cached_property
    def tensors(self) -> list[Table]:
        """Its tensors; inputs and outputs are numbers of them."""
        return self.tables(0)

    @cached_property
    def operators(self) -> list[Table]:
        """Its ops, in the order of execution."""
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
