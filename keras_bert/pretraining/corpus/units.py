"""Cuts a corpus into units of work that are independent of each other, and decodes the documents of a unit.

Where the corpus is cut depends only on the files and `unit_bytes`, not on the number of workers or on interruptions. So
the same corpus always gives the same shards.

A next-sentence pair needs a segment of another document, and a worker sees one unit only. Most units have many
documents. Some have few (books, or one document that fills several units), so each unit also carries samples of the
last documents that ended before it or, for the first unit, of the first documents after it.
"""

import dataclasses
import json
import re
import zlib
from collections import deque
from collections.abc import Iterator
from itertools import islice

from keras_bert.pretraining.corpus.documents import BLANK_LINE, LONGEST_JSON_LINE, Block, file_size, read_blocks

_BLOCK_BYTES = 1 << 20
_SAMPLE_BYTES = 1 << 17
_SAMPLES = 4
_JOINTS = {b"\n": "\n", b" ": " "}  # how to join a long document where it was cut
_BLANK = re.compile(BLANK_LINE.pattern.decode())


@dataclasses.dataclass(frozen=True)
class Unit:
    """A part of the corpus that one worker turns into one shard."""

    group: int
    index: int
    blocks: tuple[Block, ...]
    neighbours: tuple[Block, ...]  # samples of documents that are in none of the blocks
    read_bytes: int  # of the files on disk, since the previous unit

    @property
    def name(self) -> str:
        """The name of its shard."""
        return f"shard-{self.group:05d}-{self.index:05d}"

    @property
    def text_bytes(self) -> int:
        """The size of its text in bytes."""
        return sum(len(block.data) + block.skipped_bytes for block in self.blocks)

    @property
    def checksum(self) -> int:
        """A checksum of the text, which shows whether it has changed."""
        checksum = 0
        for block in (*self.blocks, *self.neighbours):
            checksum = zlib.crc32(block.data, checksum)
        return checksum


# === Cutting ===


def group_files(paths: list[str], unit_bytes: int) -> list[list[str]]:
    """Group small files until they fill a unit, so that a million files do not become a million shards."""
    groups: list[list[str]] = [[]]
    size = 0
    for path in paths:
        if size >= unit_bytes:
            groups.append([])
            size = 0
        groups[-1].append(path)
        size += file_size(path)
    return groups


def read_units(groups: list[list[str]], group: int, unit_bytes: int) -> Iterator[Unit]:
    """Yield the units of one group of files, with one unit in memory at a time.

    ```python
    groups = group_files(find_files("corpus/*.txt.gz"), unit_bytes=1 << 24)
    for unit in read_units(groups, 0, unit_bytes=1 << 24):
        ...
    ```
    """
    recent: deque[Block] = deque(maxlen=_SAMPLES)
    blocks: list[Block] = []
    neighbours: tuple[Block, ...] = ()
    later: tuple[Block, ...] | None = None
    index = read_bytes = 0

    def close() -> Unit:
        nonlocal later
        lent = neighbours
        if not lent and _count_documents(blocks) < 2:
            if later is None:
                samples = (sample for sample in _find_later(groups, group, unit_bytes) if sample.data.strip())
                later = tuple(islice(samples, _SAMPLES))
            lent = later
        return Unit(group, index, tuple(blocks), lent, read_bytes)

    for block, new_bytes in _read_group(groups[group], unit_bytes):
        if sum(len(block.data) for block in blocks) >= unit_bytes:
            yield close()
            blocks, index, read_bytes, neighbours = [], index + 1, 0, tuple(recent)
        blocks.append(block)
        read_bytes += new_bytes
        if block.ends and block.data.strip():
            recent.append(_tail(block))
    if blocks:
        yield close()


def _read_group(paths: list[str], unit_bytes: int) -> Iterator[tuple[Block, int]]:
    """Yield the blocks of several files, each with the number of bytes that were read for it."""
    longest = max(4096, unit_bytes // 4)
    for path in paths:
        before = 0
        for block, position in read_blocks(path, min(_BLOCK_BYTES, longest), longest):
            yield block, position - before
            before = position


def _count_documents(blocks: list[Block]) -> int:
    count = 0
    for block in blocks:
        parts = block.data.split(b"\n") if block.is_json else BLANK_LINE.split(block.data)
        count += sum(1 for part in parts if part.strip()) - block.continues
    return count


def _find_later(groups: list[list[str]], group: int, unit_bytes: int) -> Iterator[Block]:
    """Yield samples of the documents after the first one of a group, then of other groups."""
    has_begun = False
    for block, _ in _read_group(groups[group], unit_bytes):
        data = block.data.lstrip()
        if has_begun and not block.continues:
            yield _head(block)
        elif block.ends and (blank := BLANK_LINE.search(data)):
            yield _head(dataclasses.replace(block, data=data[blank.end() :]))
        has_begun = has_begun or bool(data)
    for other in (*range(group + 1, len(groups)), *range(group)):
        for block, _ in _read_group(groups[other], unit_bytes):
            yield _head(block)


def _head(block: Block) -> Block:
    """The first whole lines of a block."""
    data = block.data
    cut = data.rfind(b"\n", 0, _SAMPLE_BYTES) + 1 or (data.find(b"\n") + 1 if block.is_json else _SAMPLE_BYTES)
    return _sample(block, data[: cut or len(data)])


def _tail(block: Block) -> Block:
    """The last whole lines of a block."""
    data = block.data.rstrip()
    if len(data) <= _SAMPLE_BYTES:
        return _sample(block, data)
    start = len(data) - _SAMPLE_BYTES
    return _sample(block, data[data.find(b"\n", start) + 1 or (data.rfind(b"\n") + 1 if block.is_json else start) :])


def _sample(block: Block, data: bytes) -> Block:
    data = data.decode(errors="ignore").encode()  # it may have been cut within a character
    return Block(block.path, block.line, data)


# === Decoding ===


def decode_documents(blocks: tuple[Block, ...], text_field: str) -> tuple[list[str], list[str]]:
    """Decode blocks into the texts of their documents, and list the lines that were left out with the reason.

    >>> block = Block("a.txt", 1, b"One.\\nTwo.\\n\\nThree.\\n\\xff\\n")
    >>> decode_documents((block,), "text")
    (['One.\\nTwo.', 'Three.'], ['a.txt:5: not UTF-8 (invalid start byte)'])
    """
    documents: list[str] = []
    bad_lines: list[str] = []
    for number, block in enumerate(blocks):
        if block.skipped_bytes:
            size = f"{block.skipped_bytes:,} bytes, over {LONGEST_JSON_LINE:,}"
            bad_lines.append(f"{block.path}:{block.line}: too long ({size}); split it into several documents")
        if block.is_json:
            documents += _decode_json(block, text_field, bad_lines)
            continue
        found = [text.strip() for text in _BLANK.split(_decode_text(block, bad_lines))]
        if block.continues and number and documents:
            documents[-1] += _JOINTS.get(blocks[number - 1].data[-1:], "") + found.pop(0)
        documents += filter(None, found)
    return documents, bad_lines


def _decode_text(block: Block, bad_lines: list[str]) -> str:
    try:
        return block.data.decode()
    except UnicodeDecodeError:
        return "\n".join(_decode_lines(block, bad_lines))


def _decode_lines(block: Block, bad_lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(block.data.split(b"\n"), block.line):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            bad_lines.append(f"{block.path}:{number}: not UTF-8 ({error.reason})")


def _decode_json(block: Block, text_field: str, bad_lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(block.data.split(b"\n"), block.line):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
            text = document.get(text_field) if isinstance(document, dict) else None
            if not isinstance(text, str):
                raise ValueError(f"no string in the field {text_field!r}")
            text.encode()  # a lone surrogate is valid JSON, but not valid text
        except (ValueError, RecursionError) as error:
            fault = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error) or type(error).__name__
            bad_lines.append(f"{block.path}:{number}: {fault}")
        else:
            yield text
