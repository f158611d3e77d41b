"""tf.data service as input: a worker dies in the middle, and every example still arrives exactly once."""

import json
import signal
import subprocess
import sys

import pytest
import tensorflow as tf
from places import ROOT
from pretraining_run import write_tiny_examples
from strategy_processes import cluster_of, finish, free_ports, start

from keras_bert.pretraining.corpus.reading import read_examples
from keras_bert.pretraining.data_service import Ledger, read_through_service
from keras_bert.training.devices import Devices

SPLITS, EXAMPLES = 31, 50  # 16 splits for one training process, 15 for the other: one ends before the other


def read_split(split):
    return tf.data.Dataset.range(EXAMPLES).map(lambda place: {"number": split * EXAMPLES + place})


@pytest.mark.slow
def test_two_workers_fit_through_a_service_and_no_example_is_lost_when_one_of_its_workers_is_killed(tmp_path):
    directory = write_tiny_examples(tmp_path / "examples", documents=20)
    (port,), configs = free_ports(1), cluster_of(2)
    arguments = ("data_service_trainer.py", port, SPLITS, EXAMPLES, directory)
    printed = finish(*(start(*arguments, TF_CONFIG=config) for config in configs))
    chief, other = (json.loads(text.splitlines()[-1]) for text in printed)
    assert chief["killed"] == -signal.SIGKILL
    assert any("asking again for" in text for text in printed), "nothing was lost, so nothing was proved"
    assert chief["seen"] == other["seen"] == [1.0] * (SPLITS * EXAMPLES)
    assert chief["steps"] == other["steps"] == -(-16 * EXAMPLES // 4), "4 rows each of the global batch of 8"
    assert chief["sizes"] == [8] * 18 + [6], "batches are full across splits"
    assert "2 of 2 splits are missing, 3 among them. Start workers" in chief["silence"]
    names = ("next_sentence_label", "token_ids", "segment_ids")
    once = [[batch[name].numpy().tolist() for name in names] for batch in read_examples(directory, batch_size=1)]
    assert sorted(chief["rows"]) == sorted(2 * once), "every example once a pass, by two processes, over two passes"


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


@pytest.mark.slow
def test_reading_does_not_keep_the_process_alive():
    """A thread that waits for a dead worker is left behind; the process must end all the same."""
    code = (
        "import time\nfrom keras_bert.pretraining.data_service import Ledger\n"
        "def stuck():\n    yield (0, 0, False, 'a')\n    time.sleep(1000)\n"
        "print(list(Ledger(1).take(stuck(), patience=0.2)))\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['a']"
