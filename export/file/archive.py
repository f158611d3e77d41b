"""Read and write the files after a `.tflite` file's flatbuffer, in an uncompressed zip archive.

The archive begins where the flatbuffer ends; `unzip -l model.tflite` lists it. A file that is read may come from
anywhere, so everything in it is checked.
"""

import io
import os
import struct
import zipfile
from collections.abc import Mapping
from typing import BinaryIO

_MAX_ENTRIES, _MAX_DIRECTORY_BYTES = 16, 1 << 14
# The errors that zipfile raises for damaged archives.
_DAMAGE = (
    zipfile.BadZipFile,
    struct.error,
    EOFError,
    RuntimeError,
    OverflowError,
    ValueError,
    OSError,  # a file in the archive begins before byte 0
)


def append_files(content: bytes, files: Mapping[str, bytes]) -> bytes:
    """Append files to a TFLite file.

    They are stored uncompressed, because MediaPipe reads them in place, and have a fixed date, so that the same input
    gives the same bytes.
    """
    buffer = io.BytesIO(content)
    buffer.seek(0, io.SEEK_END)
    with zipfile.ZipFile(buffer, "w") as archive:  # writes from here on, with offsets from the file's beginning
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()


def read_files(path_or_bytes: str | os.PathLike[str] | bytes, max_bytes: Mapping[str, int]) -> dict[str, bytes]:
    """Read the named files after a TFLite file; raise a ValueError for anything unexpected.

    Args:
        path_or_bytes: The TFLite file. With a path, only the end is read.
        max_bytes: The names of the files, and the most bytes that each may have.
    """
    with io.BytesIO(path_or_bytes) if isinstance(path_or_bytes, bytes) else open(path_or_bytes, "rb") as stream:
        _check_end(stream)
        try:
            with zipfile.ZipFile(stream) as archive:
                names = archive.namelist()
                _check_names(names)
                return {name: _read(archive, name, most) for name, most in max_bytes.items() if name in names}
        except _DAMAGE as error:
            raise ValueError(f"The files behind the model are damaged: {error}") from None


def _check_end(stream: BinaryIO) -> None:
    """Check the archive's last record before zipfile does, which lists as many entries as the record claims."""
    stream.seek(4)
    if stream.read(4) != b"TFL3":
        raise ValueError("It is not a TFLite file, which has TFL3 at byte 4.")
    size = stream.seek(0, io.SEEK_END)
    stream.seek(max(0, size - 42))  # the last record, and a zip64 locator that may stand before it
    tail = stream.read(42)
    mark, *_, entries, directory_bytes, _, comment = struct.unpack("<4s4H2LH", tail[-22:].rjust(22, b"\0"))
    if mark != b"PK\5\6" or comment:
        raise ValueError("There are no files behind the model: it was cut short, or written without metadata.")
    if tail.startswith(b"PK\6\7") or entries > _MAX_ENTRIES or directory_bytes > _MAX_DIRECTORY_BYTES:
        raise ValueError(f"Its archive claims {entries} files; expected at most {_MAX_ENTRIES}.")


def _check_names(names: list[str]) -> None:
    strange = [name for name in names if name in ("", ".", "..") or set(name) & set("/\\:\0")]
    if strange or len(set(names)) != len(names):
        raise ValueError(f"The names are {names}; expected plain names, each once.")


def _read(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    entry = archive.getinfo(name)
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or entry.file_size != entry.compress_size:
        raise ValueError(f"{name} is compressed or encrypted; expected a stored file.")
    if entry.file_size > most:
        raise ValueError(f"{name} has {entry.file_size:,} bytes; expected at most {most:,}.")
    return archive.read(entry)
