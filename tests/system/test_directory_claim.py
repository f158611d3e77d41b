"""A directory belongs to one process at a time, and to nobody when that has ended, however it ended."""

import subprocess
import sys

import pytest

from keras_bert.system.directory_claim import claimed, claims_its_directory

pytest.importorskip("fcntl")
HOLD = """
import sys, time
from keras_bert.system.directory_claim import claimed
with claimed(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_until_the_first_has_ended(tmp_path):
    place = tmp_path / "run"
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(place)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError, match=rf"Another process is writing to {place}; wait until it ends"):
            claimed(place).__enter__()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    with claimed(place):
        assert not list(place.iterdir())


def test_a_function_holds_its_directory_while_it_runs(tmp_path):
    @claims_its_directory
    def run(value, *, directory=None):
        if directory is not None:
            with pytest.raises(BlockingIOError):
                claimed(directory).__enter__()
        return value

    assert run(1) == 1 and run(2, directory=tmp_path) == run(2, directory=tmp_path) == 2
