"""The charts of benchmarks/: drawn from the results files, and not older than they are."""

import pytest
from benchmark_modules import load
from places import ROOT

charts, results_files = load("charts"), load("results_files")
RESULTS = results_files.read_all()
RUN = {"results": [{"contender": "ours a", "ms": 1001.5}, {"contender": "other", "ms": [7.0, 8.0]}]}


@pytest.mark.parametrize("chart", charts.CHARTS, ids=lambda chart: chart.name)
def test_committed_charts_show_what_the_data_say(chart):
    picture = (ROOT / "benchmarks/charts" / f"{chart.name}.svg").read_text(encoding="utf-8")
    numbers = charts.values(chart, RESULTS[chart.file])
    assert len(numbers) > 2
    assert charts.shows(picture, numbers), f"{chart.name}.svg is older than {chart.file}.json: make results"
    name = next(iter(numbers))
    assert not charts.shows(picture, {**numbers, name: numbers[name] * 1.01})


def test_a_redraw_changes_nothing_in_git(tmp_path):
    chart = charts.Chart("x", "title", "speed", charts.column("ms"), more=False)
    numbers = charts.values(chart, [RUN])
    assert numbers == {"ours a": 1001.5, "other": 7.0}
    for name in ("x.svg", "y.svg"):
        charts.draw(chart, numbers, tmp_path / name)
    assert (tmp_path / "x.svg").read_bytes() == (tmp_path / "y.svg").read_bytes()
    assert charts.shows((tmp_path / "x.svg").read_text(encoding="utf-8"), {"ours a": 1001.5})


def test_a_chart_of_what_is_not_there_is_an_error():
    with pytest.raises(TypeError):
        charts.values(charts.Chart("x", "title", "speed", charts.column("GB")), [RUN])
    with pytest.raises(ValueError, match="0 runs have the part 'fast'"):
        charts.values(charts.Chart("x", "title", "speed", charts.column("ms"), "fast"), [RUN])
