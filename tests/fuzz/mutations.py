"""Breaks files on purpose: bytes of any kind, and the structure of JSON, safetensors, zip, protobuf and others.

`mutate(data, kind, rng)` takes the bytes of a good file and gives those of a bad one. Everything follows from the
generator, so a number names a file.
"""

import io
import json
import struct
import warnings
import zipfile
from typing import Any

import numpy as np

_NUMBERS = (0, 1, -1, 2, 127, 128, 255, 256, 32767, 65535, 65536, 2**31 - 1, -(2**31), 2**32 - 1, 2**62, 2**63 - 1)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -0.0, 1e308, 1.5, "", " ", "\x00", "../../etc/passwd"),
    *(
        10**400,
        "\ud83d\ude00",
        "a" * 5000,
        "NaN",
        [],
        {},
        [[]],
        [None],
        {"": None},
        ["a", 1],
        "__import__('os')",
        "\u2028",
    ),
)
_MOST_BYTES = 4 * 2**20


def mutate(data: bytes, kind: str, rng: np.random.Generator) -> bytes:
    """Break a file of a kind: `"bytes"`, or one of those whose structure is known, in `STRUCTURED`.

    Checksums of what is changed are made right in most of the files: a reader that only met wrong ones would be asked
    nothing.
    """
    for _ in range(int(rng.integers(1, 4))):
        structured = STRUCTURED.get(kind)
        if structured is not None and rng.random() < 0.7:
            try:
                data = structured(data, rng)
                continue
            except Exception:  # a second change to a file that is broken already
                pass
        data = _BYTES[int(rng.integers(len(_BYTES)))](data, rng)
    return data[:_MOST_BYTES]


# === Bytes ===


def _place(data: bytes, rng: np.random.Generator) -> int:
    # Headers are at the beginning, directories and footers at the end.
    where = rng.random()
    if where < 0.4:
        return int(rng.integers(0, min(len(data), 512) + 1))
    if where < 0.6:
        return int(rng.integers(max(0, len(data) - 512), len(data) + 1))
    return int(rng.integers(0, len(data) + 1))


def _flip(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        if changed:
            changed[min(_place(data, rng), len(changed) - 1)] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _overwrite(data: bytes, rng: np.random.Generator) -> bytes:
    place, size = _place(data, rng), int(rng.choice([1, 2, 4, 8]))
    number = int(rng.choice(np.array(_NUMBERS, dtype=object))) % 2 ** (8 * size)
    order = "little" if rng.random() < 0.8 else "big"
    return data[:place] + number.to_bytes(size, order) + data[place + size :]


def _cut(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: _place(data, rng)]


def _remove(data: bytes, rng: np.random.Generator) -> bytes:
    place = _place(data, rng)
    return data[:place] + data[place + int(rng.integers(1, 65)) :]


def _repeat(data: bytes, rng: np.random.Generator) -> bytes:
    place = _place(data, rng)
    part = data[place : place + int(rng.integers(1, 129))]
    return data[:place] + part * int(rng.integers(2, 20)) + data[place:]


def _insert(data: bytes, rng: np.random.Generator) -> bytes:
    place = _place(data, rng)
    return data[:place] + rng.bytes(int(rng.integers(1, 33))) + data[place:]


def _splice(data: bytes, rng: np.random.Generator) -> bytes:
    first, second = sorted((_place(data, rng), _place(data, rng)))
    return data[second:] + data[:first] if rng.random() < 0.2 else data[:first] + data[second:]


_BYTES = (_flip, _flip, _overwrite, _overwrite, _cut, _remove, _repeat, _insert, _splice)

# === Structure ===


def _text(data: bytes, rng: np.random.Generator) -> bytes:
    """Lines: one away, twice, swapped, with odd characters or more columns."""
    lines = data.split(b"\n")
    place = int(rng.integers(len(lines)))
    odd = (b"\t", b",", b'"', b"\r", b"\x00", b"\xff\xfe", b"\xed\xa0\x80", "\u202e".encode(), b"]]>", b"\\", b"\x0b")
    choice = int(rng.integers(6))
    if choice == 0:
        del lines[place]
    elif choice == 1:
        lines.insert(place, lines[int(rng.integers(len(lines)))])
    elif choice == 2:
        lines[place] = b""
    elif choice == 3:
        times = int(rng.integers(2, 200))
        lines[place] *= min(times, 2 + _MOST_BYTES // (1 + len(lines[place])))  # what is longer is cut off anyway
    else:
        at = int(rng.integers(len(lines[place]) + 1))
        lines[place] = lines[place][:at] + odd[int(rng.integers(len(odd)))] + lines[place][at:]
    return b"\n".join(lines)


def _json(data: bytes, rng: np.random.Generator) -> bytes:
    value = json.loads(data)
    places = list(_json_places(value))
    if not places:
        return json.dumps(_value(rng)).encode()
    holder, key = places[int(rng.integers(len(places)))]
    choice = rng.random()
    if choice < 0.15:
        del holder[key]
    elif choice < 0.3:  # the value of another place, which often has the right type
        other, name = places[int(rng.integers(len(places)))]
        holder[key] = json.loads(json.dumps(other[name]))
    elif choice < 0.35 and isinstance(holder, dict):
        holder[str(_value(rng))] = holder.pop(key)
    elif choice < 0.5 and isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
        holder[key] = int(rng.choice(np.array(_NUMBERS, dtype=object)))
    else:
        holder[key] = _value(rng)
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _json_places(value: Any, depth: int = 0) -> Any:
    if depth > 12:
        return
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items)[:2000]:
        yield value, key
        yield from _json_places(inner, depth + 1)


def _value(rng: np.random.Generator) -> Any:
    if rng.random() < 0.02:
        nested: Any = 0
        for _ in range(2000):
            nested = [nested]
        return nested
    return _VALUES[int(rng.integers(len(_VALUES)))]


def _jsonl(data: bytes, rng: np.random.Generator) -> bytes:
    lines = data.split(b"\n")
    place = int(rng.integers(len(lines)))
    lines[place] = _json(lines[place], rng)
    return b"\n".join(lines)


def _safetensors(data: bytes, rng: np.random.Generator) -> bytes:
    """The header: its JSON, the length before it, or what it says of a tensor, in words that it may have."""
    size = int.from_bytes(data[:8], "little")
    header, rest = data[8 : 8 + size], data[8 + size :]
    choice = rng.random()
    if choice < 0.1:
        numbers = np.array([0, 1, max(size - 1, 0), size + 1, 2**40, 2**63], dtype=object)
        return int(rng.choice(numbers)).to_bytes(8, "little") + data[8:]
    if choice < 0.3:
        return data[: 8 + size] + _BYTES[int(rng.integers(len(_BYTES)))](rest, rng)
    changed = _json(header, rng) if choice < 0.5 else _tensor(header, rng)
    return len(changed).to_bytes(8, "little") + changed + rest


def _tensor(header: bytes, rng: np.random.Generator) -> bytes:
    """One tensor of a header: of another type or shape, elsewhere, or under another name."""
    told = json.loads(header)
    names = [name for name in told if name != "__metadata__"]
    one, other = (names[int(rng.integers(len(names)))] for _ in range(2))
    entry, choice = told[one], int(rng.integers(6))
    if choice == 0:
        entry["dtype"] = str(rng.choice(["F64", "F32", "F16", "BF16", "I32", "U8", "BOOL", "F8_E4M3"]))
    elif choice == 1:
        entry["shape"] = entry["shape"][::-1]
    elif choice == 2:
        entry["shape"] = [*entry["shape"], 1] if rng.random() < 0.5 else [int(np.prod(entry["shape"]))]
    elif choice == 3:
        told[one]["data_offsets"], told[other]["data_offsets"] = told[other]["data_offsets"], entry["data_offsets"]
    elif choice == 4:
        told[f"{one}.more" if rng.random() < 0.5 else one.replace("bert.", "")] = told.pop(one)
    else:
        told[one], told[other] = told[other], told[one]
    return json.dumps(told).encode()


def _zip(data: bytes, rng: np.random.Generator) -> bytes:
    """Members of an archive at the end of a file: their names, bytes and number."""
    start = data.rindex(b"PK\x05\x06")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
        begin = min(info.header_offset for info in archive.infolist()) if members else start
    names = ("../evil", "/etc/passwd", "a/../../b", "", "a" * 300, "labels.txt", "vocab.txt", "\x00", "C:\\x")
    place = int(rng.integers(len(members)))
    name, content = members[place]
    choice = rng.random()
    if choice < 0.3:
        members[place] = (names[int(rng.integers(len(names)))], content)
    elif choice < 0.7:
        members[place] = (name, mutate(content, "json" if name.endswith(".json") else "text", rng))
    elif choice < 0.8:
        members.append((name, content))
    elif choice < 0.9:
        members[place] = (name, b"\x00" * 2**22)  # a small archive that grows
    else:
        del members[place]
    buffer = io.BytesIO(data[:begin])
    buffer.seek(begin)
    # The reader wants stored members; one that is packed is refused at once.
    packing = zipfile.ZIP_DEFLATED if rng.random() < 0.1 else zipfile.ZIP_STORED
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", packing) as archive:
        warnings.simplefilter("ignore")  # two members of a name
        for member, inner in members:
            archive.writestr(member or "x", inner)
    return buffer.getvalue()


def _protobuf(data: bytes, rng: np.random.Generator) -> bytes:
    """A field of a message: its number, its type, its length."""
    places, place = [], 0
    while place < len(data) and len(places) < 100_000:
        places.append(place)
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == 0:
            _, place = _varint(data, place)
        elif kind == 1:
            place += 8
        elif kind == 2:
            length, place = _varint(data, place)
            place += length
        elif kind == 5:
            place += 4
        else:
            raise ValueError("not a message")
    at = places[int(rng.integers(len(places)))]
    choice = rng.random()
    if choice < 0.3:
        return data[:at] + bytes([int(rng.integers(256))]) + data[at + 1 :]
    if choice < 0.7 and at + 1 < len(data):
        return data[: at + 1] + _as_varint(int(rng.choice(np.array(_NUMBERS, dtype=object))) % 2**64) + data[at + 2 :]
    end = places[min(places.index(at) + int(rng.integers(1, 4)), len(places) - 1)]
    return data[:at] + data[at:end] * int(rng.integers(0, 4)) + data[end:]


def _varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if not byte & 128:
            return number, place
        if shift > 70:
            raise ValueError("not a number")


def _as_varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _flatbuffer(data: bytes, rng: np.random.Generator) -> bytes:
    """A word of four bytes, where offsets, lengths and numbers are: another number, a bit more or less, or a copy."""
    end = data.find(b"PK\x03\x04")
    words = (len(data) if end < 0 else end) // 4
    at = 4 * int(rng.integers(min(words, 2000) if rng.random() < 0.5 else words))
    (number,) = struct.unpack_from("<I", data, at)
    choice = rng.random()
    if choice < 0.4:
        number = int(rng.choice(np.array(_NUMBERS, dtype=object)))
    elif choice < 0.8:
        number += int(rng.integers(-64, 65))
    else:
        (number,) = struct.unpack_from("<I", data, 4 * int(rng.integers(words)))
    return data[:at] + struct.pack("<I", number % 2**32) + data[at + 4 :]


def _records(data: bytes, rng: np.random.Generator) -> bytes:
    """A record of a TFRecord file, which is a message; its checksums are right again."""
    records, place = [], 0
    while place < len(data):
        (size,) = struct.unpack_from("<Q", data, place)
        records.append(data[place + 12 : place + 12 + size])
        place += 16 + size
    at = int(rng.integers(len(records)))
    choice = rng.random()
    if choice < 0.7:
        records[at] = _protobuf(records[at], rng)
    elif choice < 0.85:
        records[at] = _BYTES[int(rng.integers(len(_BYTES)))](records[at], rng)
    else:
        records.insert(at, records[int(rng.integers(len(records)))])
    parts = []
    for record in records:
        size = struct.pack("<Q", len(record))
        parts += [size, _checksum(size), record, _checksum(record)]
    return b"".join(parts)


def _sorted_table(data: bytes, rng: np.random.Generator) -> bytes:
    """A block of a TF1 checkpoint's index, a table of messages as LevelDB has it; checksums are right again."""
    place, blocks = len(data) - 48, []
    for _ in range(2):  # the two blocks that the footer names; the data stand before them
        offset, place = _varint(data, place)
        size, place = _varint(data, place)
        blocks.append((offset, size))
    blocks.append((0, min(offset for offset, _ in blocks) - 5))
    changed = bytearray(data)
    offset, size = blocks[2] if rng.random() < 0.8 else blocks[int(rng.integers(3))]
    for _ in range(int(rng.integers(1, 4))):
        at = offset + int(rng.integers(size))
        changed[at] = int(rng.choice([0, 1, 127, 128, 255, changed[at] ^ 1 << int(rng.integers(8))]))
    block = bytes(changed[offset : offset + size + 1])  # with its kind
    changed[offset + size + 1 : offset + size + 5] = _checksum(block)
    return bytes(changed)


def _checksum(data: bytes) -> bytes:
    """CRC-32C, turned as TensorFlow turns it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32)


def _crc_table() -> list[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ 0x82F63B78 * (number & 1)
        table.append(number)
    return table


_CRC = _crc_table()

STRUCTURED = {
    "text": _text,
    "json": _json,
    "jsonl": _jsonl,
    "safetensors": _safetensors,
    "zip": _zip,
    "protobuf": _protobuf,
    "flatbuffer": _flatbuffer,
    "records": _records,
    "sorted_table": _sorted_table,
}
