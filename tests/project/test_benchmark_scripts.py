"""Every script of benchmarks/ that measures writes what it found to a results file."""

import argparse
import ast
import importlib
import json
import sys
from importlib.util import find_spec

import pytest
from benchmark_modules import load
from places import ROOT

results_files = load("results_files")
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))
HELPING = {"render.py", "serving_peers.py", "similarity.py"}  # no measurements, a server, one line of JSON
MEASURING = [path for path in SCRIPTS if "def main(" in path.read_text(encoding="utf-8") and path.name not in HELPING]


def called_names(path):
    """The functions that a script calls by their name alone."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    return {node.func.id for node in calls if isinstance(node.func, ast.Name)}


@pytest.mark.parametrize("path", MEASURING, ids=lambda path: path.name)
def test_a_script_writes_a_results_file(path):
    assert called_names(path) & {"write_run", "provenance", "compare"}, f"{path.name} prints only"


def imported_names(path):
    """What a script imports of the packages, inside of functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("keras_bert", "export"):
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_imports_what_is_there(path):
    missing = []
    for module, name in imported_names(path):
        home = importlib.import_module(module)
        is_module = hasattr(home, "__path__") and find_spec(f"{module}.{name}") is not None
        if not hasattr(home, name) and not is_module:
            missing.append(f"{module}.{name}")
    assert not missing, f"{path.name} imports {', '.join(missing)}, which is not there"


def test_a_comparison_of_trainings_writes_every_seed(tmp_path, monkeypatch, capsys):
    peer_training = load("peer_training")
    answers = iter([[100, [4.0, 2.0], {"f1": f1}] for f1 in (0.5, 0.4, 0.51, 0.41)])

    def run(command, **options):
        assert command[-4] == "--contenders" and command[-2] == "--seed"
        return argparse.Namespace(stdout=f"a word\n{json.dumps(next(answers))}\n")

    monkeypatch.setattr(peer_training, "subprocess", argparse.Namespace(run=run, PIPE=None))
    path = tmp_path / "entities.json"
    words = ["benchmarks/entities.py", "--data", "DIR", "--seeds", "0", "1", "--output", str(path)]
    monkeypatch.setattr(sys, "argv", words)
    contenders = {"ours": None, "torch": None}
    parser = peer_training.make_parser("x", contenders, epochs=2, batch=16)
    peer_training.compare(parser, contenders, scores={"f1": "F1"}, part=lambda arguments: "few")
    (found,) = results_files.read_runs(path)
    assert (found["part"], found["seeds"]) == ("few", [0, 1])
    assert found["settings"] == {"model": "all-MiniLM-L6-v2", "epochs": 2, "batch": 16}
    ours, theirs = found["results"]
    assert ours == {"contender": "ours", "F1": [50, 51], "examples/s": [50, 50], "first pass, s": [4, 4]}
    assert (theirs["contender"], theirs["F1"]) == ("transformers + PyTorch", [40, 41])
    assert "| torch | 1 | 41.00 | 50.0 | 4 |" in capsys.readouterr().out
