"""Pages of a mapped file are given back, and its content stays readable."""

import mmap
import sys
from pathlib import Path

import pytest

from keras_bert.system.mapped_files import release_mapped


def resident_kilobytes(path):
    """How much of a file's mappings is in memory."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="Only Linux tells which pages are in memory.")
def test_pages_are_given_back_and_can_be_read_again(tmp_path):
    path, content = tmp_path / "model.tflite", bytes(range(256)) * 4096
    path.write_bytes(content)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert mapped[:] == content
        assert resident_kilobytes(path) >= 1024
        assert release_mapped(path) == len(content)
        assert resident_kilobytes(path) == 0
        assert mapped[:] == content


@pytest.mark.skipif(sys.platform != "linux", reason="Only Linux has /proc.")
def test_what_was_written_is_left_alone(tmp_path):
    path = tmp_path / "other"
    path.write_bytes(b"a" * 8192)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        mapped[:5] = b"words"
        assert release_mapped(path) == 0 and mapped[:6] == b"wordsa"
    assert release_mapped(path) == 0
