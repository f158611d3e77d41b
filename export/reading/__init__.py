"""Inputs of a task → rows of tokens, and what a file gives for them → answers: NumPy alone, for it runs on the device.

A file for each kind of answer; `READERS` has one for every task that can be exported. A room of its own because the
device, the checks and the calibration must read texts in the same way, each with a tokenizer of its own.
"""

from export.reading.choices import ChoiceReader
from export.reading.commands import CommandReader
from export.reading.entities import EntityReader
from export.reading.labels import AspectReader, LabelReader
from export.reading.reader import Reader
from export.reading.relations import RelationReader
from export.reading.spans import SpanReader
from export.reading.vectors import VectorReader

_ALL = (
    AspectReader,
    ChoiceReader,
    CommandReader,
    EntityReader,
    LabelReader,
    RelationReader,
    SpanReader,
    VectorReader,
)
READERS: dict[str, type[Reader]] = {reader.task: reader for reader in _ALL}

__all__ = [
    "READERS",
    "AspectReader",
    "ChoiceReader",
    "CommandReader",
    "EntityReader",
    "LabelReader",
    "Reader",
    "RelationReader",
    "SpanReader",
    "VectorReader",
]
