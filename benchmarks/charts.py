"""Draws the charts of this directory from the results files, so that every number stands in one place.

    make results                # or python benchmarks/charts.py: benchmarks/charts/*.svg, which are committed

Takes the runs of a file, gives SVG files. Needs matplotlib (`pip install "keras-bert-edge[plots]"`). A chart of a
column that the data do not have is an error: results cannot change without their charts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claims import column, row
from result_tables import best_number
from results_files import Run, part, read_all

HERE = Path(__file__).parent
OURS, OTHERS, INK = "#d9480f", "#adb5bd", "#212529"


@dataclass(frozen=True)
class Chart:
    """Bars for the contenders of a run.

    Args:
        name: What to call the picture.
        title: What stands over it.
        file: The results file.
        values: Takes the run, gives the numbers by contender.
        part: Which run of the file.
        more: Whether more is better, of repetitions, too.
    """

    name: str
    title: str
    file: str
    values: Callable[[Run], dict[str, Any]]
    part: str | None = None
    more: bool = True


CHARTS = (
    Chart("tokenizer", "Tokenizing English prose, MB/s", "tokenizer", column("MB/s")),
    Chart(
        "pretraining",
        "Pretraining on short paragraphs, real tokens per second",
        "pretraining",
        row(None, rows="short"),
        "speed",
    ),
    Chart("finetuning", "Fine-tuning MiniLM on SST-2, examples per second", "finetuning", column("examples/s")),
    Chart("student_size", "A classifier's file, MB", "teacher_to_student", column("MB", first="file"), more=False),
    Chart(
        "student_time",
        "A text of SST-2 at its own length, ms",
        "teacher_to_student",
        column("ms", first="file"),
        more=False,
    ),
    Chart(
        "inference",
        "A text of SST-2 at its own length, ms on one thread",
        "inference_wall",
        column("own length, ms"),
        "1 thread",
        more=False,
    ),
    Chart("inference_size", "The same files, MB", "inference_wall", column("MB"), "1 thread", more=False),
)


def values(chart: Chart, runs: list[Run]) -> dict[str, float]:
    """What a chart draws, by name."""
    pick = max if chart.more else min
    found = chart.values(part(runs, chart.part))
    return {name: best_number(value, pick) for name, value in found.items()}


def draw(chart: Chart, numbers: dict[str, float], path: Path) -> None:
    """One picture: bars with their numbers, ours, and of ours what was made small, in colour."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib.figure import Figure

    # Text stays text, and the same numbers give the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": chart.name, "font.family": "sans-serif"}):
        figure = Figure(figsize=(8, 0.7 + 0.34 * len(numbers)), layout="constrained")
        axes = figure.subplots()
        names = list(numbers)[::-1]
        colours = [OURS if name.startswith(("ours", "student")) else OTHERS for name in names]
        bars = axes.barh(names, [numbers[name] for name in names], color=colours, height=0.72)
        axes.bar_label(bars, [label(numbers[name]) for name in names], padding=4, color=INK, fontsize=9)
        better = "more" if chart.more else "less"
        figure.suptitle(f"{chart.title} ({better} is better)", x=0.01, ha="left", fontsize=11, color=INK)
        axes.margins(x=0.12)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        axes.tick_params(axis="y", length=0, colors=INK, labelsize=9)
        axes.xaxis.set_visible(False)
        figure.savefig(path, metadata={"Date": None})


def label(number: float) -> str:
    """A number as a bar has it: four digits."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


def shows(picture: str, numbers: dict[str, float]) -> bool:
    """Whether the text of a picture has all names and numbers."""
    return all(f">{text}</text>" in picture for name, value in numbers.items() for text in (name, label(value)))


def write_charts(results: dict[str, list[Run]], directory: Path = HERE / "charts") -> list[Path]:
    """Draw what has changed; what shows the same numbers stays, whichever version of matplotlib drew it."""
    directory.mkdir(exist_ok=True)
    written = []
    for chart in CHARTS:
        path, numbers = directory / f"{chart.name}.svg", values(chart, results[chart.file])
        if not (path.exists() and shows(path.read_text(encoding="utf-8"), numbers)):
            draw(chart, numbers, path)
            written.append(path)
    return written


if __name__ == "__main__":
    print(*write_charts(read_all()), sep="\n")
