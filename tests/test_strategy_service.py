"""tf.data service as input: a worker dies in the middle, and every example still arrives exactly once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf
from strategy_processes import finish, start

from keras_bert.training.data_service import Ledger, read_through_service
from keras_bert.training.strategy import Devices

SPLITS, EXAMPLES = 30, 50


def read_split(split):
    return tf.data.Dataset.range(EXAMPLES).map(lambda place: {"number": split * EXAMPLES + place})


@pytest.mark.slow
def test_no_example_is_lost_when_a_worker_is_killed():
    """In a process of its own, because readers of a dead worker stay behind in it."""
    (printed,) = finish(start("data_service_reader.py", SPLITS, EXAMPLES))
    result = json.loads(printed.splitlines()[-1])
    assert result["killed_after"] < SPLITS * EXAMPLES / 2 < len(result["received"])
    assert sorted(result["received"]) == list(range(SPLITS * EXAMPLES))
    full, rest = divmod(SPLITS * EXAMPLES // 2, 8)
    assert result["batch_sizes"] == 2 * [*full * [8], rest], "batches are full across splits"
    assert "2 of 2 splits are missing, 3 among them. Start workers" in result["silence"]


def test_more_processes_than_splits():
    devices = Devices(name="multi_worker", reason="test", device_type="CPU", num_workers=2, worker_index=1)
    with pytest.raises(ValueError, match="1 splits for 2 training processes leave none for this one"):
        read_through_service([1], read_split, service="grpc://localhost:1", batch_size=8, devices=devices)


def test_ledger_asks_again_for_what_was_lost_and_leaves_out_what_came_twice():
    ledger = Ledger(3)
    first = [(0, 0, False, "a"), (1, 0, False, "b"), (0, 1, True, None), (2, 0, True, None)]
    assert list(ledger.take(first, patience=5)) == ["a", "b"]
    assert ledger.missing() == [1], "split 2 is empty, split 1 has no end yet"
    again = [(1, 1, False, "c"), (1, 0, False, "b"), (1, 2, True, None)]
    assert list(ledger.take(again, patience=5)) == ["c"]
    assert ledger.missing() == []


def test_reading_does_not_keep_the_process_alive():
    """A thread that waits for a dead worker is left behind; the process must end all the same."""
    code = (
        "import time\nfrom keras_bert.training.data_service import Ledger\n"
        "def stuck():\n    yield (0, 0, False, 'a')\n    time.sleep(1000)\n"
        "print(list(Ledger(1).take(stuck(), patience=0.2)))\n"
    )
    root = Path(__file__).parents[1]
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['a']"
