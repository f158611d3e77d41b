"""The drawn pictures of the guides are what their scripts draw, and show what was measured."""

import importlib
import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from places import ROOT

PICTURES = ROOT / "docs" / "pictures"


@pytest.fixture
def drawing(monkeypatch):
    """Imports a script of docs/drawing."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "drawing"))
    return importlib.import_module


def test_diagrams_are_what_the_script_draws(drawing):
    for name, draw in drawing("diagrams").PICTURES.items():
        kept = (PICTURES / "drawn" / f"{name}.svg").read_text(encoding="utf-8")
        assert kept == draw().svg(), f"python docs/drawing/diagrams.py draws {name}.svg anew"


def test_the_gallery_shows_the_kept_answers_of_every_task(drawing):
    gallery = drawing("gallery")
    drawn = gallery.drawn()
    assert set(drawn) == set(gallery.PICTURES)
    for name, svg in drawn.items():
        kept = (PICTURES / "gallery" / f"{name}.svg").read_text(encoding="utf-8")
        assert kept == svg, f"python docs/drawing/gallery.py draws {name}.svg anew"


def test_marked_parts_of_a_text_lie_where_they_are_written(drawing):
    gallery = drawing("gallery")
    text = "a " * 30 + "marked part of a line"
    start = text.index("marked")
    card = gallery.Card("title")
    card.marked(text, [(start, start + 6, "label", "blue")])
    svg = ElementTree.fromstring(card.done().svg())
    (box,) = [one for one in svg.findall(".//{*}rect") if one.get("class") == "blue"]
    (line,) = [one for one in svg.findall(".//{*}text") if "marked part" in (one.text or "")]
    place = line.text.index("marked") * gallery.SIZE * 0.6
    assert float(box.get("x")) == pytest.approx(float(line.get("x")) + place - 2, abs=0.11)
    assert "label" in [one.text for one in svg.findall(".//{*}text")]


def test_the_terminal_shows_the_measured_demo(drawing):
    terminal = drawing("terminal")
    lines = (PICTURES / "drawn" / "demo.txt").read_text(encoding="utf-8").splitlines()
    assert (PICTURES / "drawn" / "demo.svg").read_text(encoding="utf-8") == terminal.terminal(lines).svg()
    run = json.loads((ROOT / "benchmarks/results/demo.json").read_text(encoding="utf-8"))
    rows = [re.findall(r"[\d.]+(?=%| MB| ms)", line) for line in lines if " MB " in line]
    files = [one for one in run["files"] if one["status"] == "measured"]
    expected = [
        [f"{one['score'] * 100:.1f}", f"{one['num_bytes'] / 1e6:.1f}", f"{one['milliseconds']:.2f}"] for one in files
    ]
    assert rows == expected


def test_progress_is_left_out_of_the_terminal(drawing):
    log = "pip\n1. Loading\nEpoch 1/6\n47/47 - 3s\nINFO: x\nteacher · any length: 0.9\n   kept\n\nreal 1m\n"
    assert drawing("terminal").kept_lines(log) == ["1. Loading", "   kept"]
