"""Every long job survives a kill: started again, it ends with what an undisturbed run gives."""

import json
import subprocess
import sys

import pytest
from places import ROOT


def disturb(place, *arguments):
    command = [sys.executable, str(ROOT / "tests/faults/run.py"), "--output", str(place / "counts.json"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=place, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    (run,) = json.loads((place / "counts.json").read_text(encoding="utf-8"))["runs"]
    return {row["job"]: row for row in run["results"]}


def test_the_quickest_job_survives_kills(tmp_path):
    counts = disturb(tmp_path, "--jobs", "vocabulary", "--times", "2", "--work", str(tmp_path / "work"))
    assert counts["vocabulary"]["disturbed"] == 2
    # The same command goes on from the counts.
    counts = disturb(tmp_path, "--jobs", "vocabulary", "--times", "3", "--work", str(tmp_path / "work"))
    assert counts["vocabulary"]["disturbed"] == 3 and counts["vocabulary"]["rounds"] >= 2


@pytest.mark.slow
def test_every_job_survives_a_kill(tmp_path):
    counts = disturb(tmp_path, "--times", "1")
    assert len(counts) == 12 and all(count["disturbed"] >= 1 for count in counts.values())
