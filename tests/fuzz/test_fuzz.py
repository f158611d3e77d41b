"""Broken files of every format are refused with words, by the command that fuzzes them for longer."""

import json
import subprocess
import sys

import pytest
from places import ROOT

RUN = ROOT / "tests/fuzz/run.py"


def fuzz(place, *targets, files):
    command = [sys.executable, str(RUN), "--files", str(files), "--keep", str(place / "kept")]
    command += ["--output", str(place / "counts.json")]
    command += ["--targets", *targets] if targets else []
    done = subprocess.run(command, capture_output=True, text=True, cwd=place, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    (run,) = json.loads((place / "counts.json").read_text(encoding="utf-8"))["runs"]
    return {row["format"]: row for row in run["results"]}


@pytest.mark.slow
def test_manifests_and_metadata(tmp_path):
    counts = fuzz(tmp_path, "manifest", "tflite_metadata", files=60)
    assert all(count["opened"] + count["refused"] >= 60 and count["refused"] > 20 for count in counts.values())


@pytest.mark.slow
def test_every_format(tmp_path):
    counts = fuzz(tmp_path, files=150)
    # Readers of plain text take most of what a mutation leaves; a corpus has its bad lines counted, and tags too.
    quiet = {"corpus", "corpus_jsonl", "vocabulary_text", "conll"}
    assert len(counts) > 50
    for name, count in counts.items():
        assert count["opened"] + count["refused"] == 150 and (count["refused"] > 0 or name in quiet), (name, count)


def test_a_crash_a_hang_and_a_strange_error_are_found(tmp_path):
    program = f"""
import os, sys, time
sys.path.insert(0, {str(RUN.parent)!r})
import run, targets

def open_file(path):
    found = path.read_bytes()
    if found == b"good": return
    number = len(found) % 4
    if number == 0: os.abort()
    if number == 1: time.sleep(30)
    if number == 2: raise ZeroDivisionError("a strange error")
    open({str(tmp_path / "outside" / "x")!r}, "w").close()

def make(directory):
    (directory / "file").write_bytes(b"good")
    return directory / "file"

run.SECONDS = 1
run.TARGETS["bad"] = targets.TARGETS["bad"] = targets.Target("bytes", make, open_file)
if __name__ == "__main__":
    sys.argv[1:] = ["--targets", "bad", "--files", "12"]
    run.main()
"""
    (tmp_path / "outside").mkdir()
    (tmp_path / "broken.py").write_text(program, encoding="utf-8")
    # The directory of the hook is one that it may not write to.
    command = [sys.executable, str(tmp_path / "broken.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=600)
    assert done.returncode == 1, done.stdout + done.stderr
    for words in ("ended the process (SIGABRT)", "took more than 1 seconds", "ZeroDivisionError: a strange error"):
        assert words in done.stdout, done.stdout + done.stderr
