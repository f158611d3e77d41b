"""The charts of benchmarks/README.md: drawn from its tables, and not older than they are."""

import importlib.util
import re

import pytest
from places import ROOT

BENCHMARKS = ROOT / "benchmarks"
README = (BENCHMARKS / "README.md").read_text(encoding="utf-8")


def _load():
    spec = importlib.util.spec_from_file_location("charts", BENCHMARKS / "charts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


charts = _load()
TABLE = """## Speed: `x`

| | ms | MB |
|---|---|---|
| ours `a` | **1,001.5** (2×) | 3 |
| other | 7 | 4 |

## More
"""


@pytest.mark.parametrize("chart", charts.CHARTS, ids=lambda chart: chart.file)
def test_committed_charts_show_what_the_tables_say(chart):
    picture = (BENCHMARKS / "charts" / f"{chart.file}.svg").read_text(encoding="utf-8")
    shown = set(re.findall(r">([^<>]+)</text>", picture))
    for name, number in charts.values(chart, README).items():
        assert name in shown, f"{chart.file}.svg does not show {name}: python benchmarks/charts.py"
        assert f"{number:,g}" in shown, (
            f"{chart.file}.svg does not show {number} of {name}: python benchmarks/charts.py"
        )
    assert f"](charts/{chart.file}.svg)" in README


def test_values_of_a_column_and_of_a_row(tmp_path):
    column = charts.Chart("x", "title", "Speed", column="ms")
    row = charts.Chart("x", "title", "Speed", row="other", names=("MB", "ms"))
    assert charts.values(column, TABLE) == {"ours a": 1001.5, "other": 7.0}
    assert charts.values(row, TABLE) == {"MB": 4.0, "ms": 7.0}
    charts.draw(column, {"ours a": 1001.5, "other": 7.0}, tmp_path / "x.svg")
    charts.draw(column, {"ours a": 1001.5, "other": 7.0}, tmp_path / "y.svg")
    assert (tmp_path / "x.svg").read_bytes() == (tmp_path / "y.svg").read_bytes()  # a redraw changes nothing in git
    assert "1,001.5" in (tmp_path / "x.svg").read_text(encoding="utf-8")


def test_a_chart_of_what_is_not_there_is_an_error():
    with pytest.raises(ValueError, match="0 sections begin with 'Sped'"):
        charts.values(charts.Chart("x", "title", "Sped", column="ms"), TABLE)
    with pytest.raises(KeyError, match="GB"):
        charts.values(charts.Chart("x", "title", "Speed", column="GB"), TABLE)
    with pytest.raises(ValueError, match="does not begin with a number"):
        charts.first_number("about 3")
