"""Draws the charts of this directory's README from the README's own tables, so that every number stands in one place.

    python benchmarks/charts.py            # seconds; writes benchmarks/charts/*.svg, which are committed

Takes the Markdown, gives SVG files. Needs matplotlib (`pip install "keras-bert-edge[plots]"`). A chart that names a
heading, a row or a column that the README does not have is an error: a table cannot change without its chart.
"""

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
OURS, OTHERS, INK = "#d9480f", "#adb5bd", "#212529"


@dataclass(frozen=True)
class Chart:
    """Bars for the rows of a table, or for the columns of one row.

    Args:
        file: What to call the picture.
        title: What stands over it.
        heading: How the table's section begins.
        column: The column whose numbers are drawn; `None` draws the columns of `row`.
        row: With `column=None`: how the row begins.
        names: Rows, or columns, to draw, as the table names them; `None` takes all rows.
        table: Which table of the section, from 0.
        log: Whether the scale is logarithmic.
    """

    file: str
    title: str
    heading: str
    column: str | None = None
    row: str | None = None
    names: tuple[str, ...] | None = None
    table: int = 0
    log: bool = False


CHARTS = (
    Chart("tokenizer", "Tokenizing English prose, MB/s (more is better)", "Tokenizer", column="MB/s"),
    Chart(
        "pretraining",
        "Pretraining on short paragraphs, real tokens per second (more is better)",
        "Pretraining",
        row="short",
        names=("ours packed", "ours padded", "keras-hub", "transformers"),
    ),
    Chart(
        "finetuning", "Fine-tuning MiniLM on SST-2, examples per second (more is better)", "Fine-tuning", "examples/s"
    ),
    Chart("student_size", "A classifier's file, MB (less is better)", "Teacher to student", "MB"),
    Chart("student_time", "A text of SST-2 at its own length, ms (less is better)", "Teacher to student", "ms"),
    Chart(
        "inference", "A text of SST-2 at its own length, ms on one thread (less is better)", "Inference", "own length"
    ),
    Chart("inference_size", "The same files, MB (less is better)", "Inference", "MB"),
)


# === The tables ===


def read_tables(text: str, heading: str) -> list[list[dict[str, str]]]:
    """The tables of the section whose heading begins so: a list of rows each, by the names of the columns.

    Example:
        >>> read_tables("## Speed: x\\n\\n| | ms |\\n|---|---|\\n| ours | 1.5 |\\n", "Speed")
        [[{'': 'ours', 'ms': '1.5'}]]
    """
    sections = [part for part in re.split(r"(?m)^## ", text)[1:] if re.match(re.escape(heading) + r"[:\s]", part)]
    if len(sections) != 1:
        raise ValueError(f"{len(sections)} sections begin with {heading!r}; expected one.")
    tables = re.findall(r"(?m)(?:^\|.*\|[ ]*\n?)+", sections[0])
    return [_rows(table.strip().splitlines()) for table in tables]


def _rows(lines):
    names, _, *rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    return [dict(zip(names, row, strict=True)) for row in rows]


def first_number(cell: str) -> float:
    """The number that a cell begins with, whatever is bold or stands behind it.

    Example:
        >>> first_number("**1,595** (1.9×)")
        1595.0
    """
    found = re.match(r"\**\s*([\d,]+(?:\.\d+)?)", cell)
    if found is None:
        raise ValueError(f"{cell!r} does not begin with a number.")
    return float(found.group(1).replace(",", ""))


def values(chart: Chart, text: str) -> dict[str, float]:
    """What a chart draws, by name."""
    table = read_tables(text, chart.heading)[chart.table]
    first = next(iter(table[0]))
    if chart.column is None:
        (row,) = (row for row in table if row[first].startswith(chart.row))
        return {name: first_number(row[name]) for name in chart.names}
    cells = {_plain(row[first]): row[chart.column] for row in table}
    return {name: first_number(cells[name]) for name in chart.names or cells}


def _plain(name):
    return re.sub(r"[`*]", "", name).split(": ")[0]


# === The pictures ===


def draw(chart: Chart, numbers: dict[str, float], path: Path) -> None:
    """One picture: bars with their numbers, ours, and of ours what was made small, in colour."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib.figure import Figure

    # Text stays text, and the same numbers give the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": chart.file, "font.family": "sans-serif"}):
        figure = Figure(figsize=(8, 0.7 + 0.34 * len(numbers)), layout="constrained")
        axes = figure.subplots()
        names = list(numbers)[::-1]
        colours = [OURS if name.startswith(("ours", "student")) else OTHERS for name in names]
        bars = axes.barh(names, [numbers[name] for name in names], color=colours, log=chart.log, height=0.72)
        axes.bar_label(bars, [f"{numbers[name]:,g}" for name in names], padding=4, color=INK, fontsize=9)
        axes.set_title(chart.title, loc="left", fontsize=11, color=INK)
        axes.margins(x=0.12)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        axes.tick_params(axis="y", length=0, colors=INK, labelsize=9)
        axes.xaxis.set_visible(False)
        figure.savefig(path, metadata={"Date": None})


def main():
    text = (HERE / "README.md").read_text(encoding="utf-8")
    (HERE / "charts").mkdir(exist_ok=True)
    for chart in CHARTS:
        path = HERE / "charts" / f"{chart.file}.svg"
        draw(chart, values(chart, text), path)
        print(path)


if __name__ == "__main__":
    main()
