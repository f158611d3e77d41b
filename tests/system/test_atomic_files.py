"""Temporary files and directories: what a killed process left is removed, what a running one writes stays."""

import os
import signal
import subprocess
import sys
import time

import pytest

from keras_bert.system.atomic_files import temporary_directory, write_whole

pytest.importorskip("fcntl")
HOLD = """
import sys, time
from pathlib import Path
from keras_bert.system import atomic_files
path = Path(sys.argv[1])
if sys.argv[2] == "file":
    atomic_files.os.replace = lambda *names: (print("held", flush=True), time.sleep(60))
    atomic_files.write_whole(path, "half")
else:
    with atomic_files.temporary_directory(path.parent, ".new-"):
        print("held", flush=True)
        time.sleep(60)
"""


def hold(path, kind):
    command = [sys.executable, "-c", HOLD, str(path), kind]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "held\n"
    return child


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_what_a_killed_process_left_is_removed_and_what_a_running_one_has_stays(tmp_path, kind):
    path = tmp_path / "a[1].txt"  # characters that a pattern would read otherwise

    def write():
        if kind == "file":
            write_whole(path, "whole")
            assert path.read_text() == "whole"
            path.unlink()
        else:
            with temporary_directory(tmp_path, ".new-") as place:
                assert place.is_dir()
            assert not place.exists()

    child = hold(path, kind)
    try:
        (held,) = tmp_path.iterdir()
        write()
        assert list(tmp_path.iterdir()) == [held]
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    write()
    assert list(tmp_path.iterdir()) == []


def test_many_processes_write_one_file(tmp_path):
    code = (
        "import sys; from keras_bert.system.atomic_files import write_whole\n"
        "for _ in range(200): write_whole(sys.argv[1], sys.argv[2] * 1000)"
    )
    path = tmp_path / "file.txt"
    children = [subprocess.Popen([sys.executable, "-c", code, str(path), word]) for word in "abc"]
    while any(child.poll() is None for child in children):
        if path.exists():
            text = path.read_text()
            assert len(text) == 1000 and len(set(text)) == 1
        time.sleep(0.001)
    assert [child.wait() for child in children] == [0, 0, 0]
    assert os.listdir(tmp_path) == ["file.txt"]
