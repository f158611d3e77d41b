"""Draws the records of a pretraining run: PNG plots, and one `report.html` that shows them with the plan.

Takes the directory of a run, with or without phases, and writes files into it that can be viewed on their own. It only
reads files, so it works on finished, running and killed runs.
"""

import base64
import fnmatch
import html
import io
import json
import os
from pathlib import Path
from typing import Any

from keras_bert.pretraining.records import HISTORY, PLAN, read_history
from keras_bert.system.atomic_files import write_whole

PLOTS, REPORT = "plots", "report.html"

_TRAINING, _VALIDATION, _GREY = "#1f6f8b", "#d9822b", "#6b7280"
# File name, title, column (or a pattern of its name), and the format of its numbers.
_PICTURES = (
    ("loss", "Loss", "loss", "{:.2f}"),
    ("teacher_distance", "Distance to the teacher's states", "hidden_*_loss", "{:.3f}"),
    ("mlm_accuracy", "Masked tokens guessed right", "mlm_logits_accuracy", "{:.1%}"),
    ("nsp_accuracy", "Next sentence told right", "nsp_logits_accuracy", "{:.1%}"),
    ("tokens_per_second", "Real tokens per second", "tokens_per_second", "{:,.0f}"),
)
_TABLE_ROWS = 40


def write_report(directory: str | os.PathLike[str]) -> Path:
    """Draw the progress of a pretraining run so far; return the path of its `report.html`.

    Args:
        directory: The `output` of `pretrain` or `pretrain_in_phases`.

    Example:
        ```python
        write_report("my-bert")  # my-bert/report.html, my-bert/plots/loss.png, …
        ```
    """
    directory = Path(directory)
    phases = read_phases(directory)
    plots = _draw(directory / PLOTS, phases)
    return write_whole(directory / REPORT, _page(directory.resolve().name, phases, plots))


def read_phases(directory: Path) -> list[dict[str, Any]]:
    """Read the `plan` and `history` of each phase; steps are counted across phases."""
    places = sorted((path.parent for path in directory.glob(f"phase-*/{HISTORY}")), key=_phase_number)
    places = places or [directory]
    phases, before = [], 0
    for place in places:
        history = read_history(place / HISTORY)
        if not history:
            continue
        plan = json.loads((place / PLAN).read_text(encoding="utf-8")) if (place / PLAN).exists() else {"plan": {}}
        last = history["step"][-1]
        history["step"] = [before + step for step in history["step"]]
        phases.append({"plan": plan, "history": history, "begins": before})
        before += last
    if not phases:
        raise ValueError(f"{directory} has no {HISTORY} with a line yet; expected the output of a pretraining run.")
    return phases


def _phase_number(path: Path) -> int:
    return int(path.name.removeprefix("phase-"))


# === Plots ===


def _draw(directory: Path, phases: list[dict[str, Any]]) -> dict[str, Path]:
    """Draw the PNG files; return their paths by title."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('Plots need matplotlib; install it with pip install "keras-bert-edge[plots]".') from error
    directory.mkdir(parents=True, exist_ok=True)
    paths = {}
    for name, title, column, form in _PICTURES:
        found = fnmatch.filter((key for phase in phases for key in phase["history"]), column)
        if not found:
            continue
        column = found[-1]
        figure = Figure(figsize=(6.4, 3.8), dpi=150, layout="constrained")
        engine: Any = figure.get_layout_engine()  # the constrained one, which has these settings
        engine.set(w_pad=0.12, h_pad=0.12)
        FigureCanvasAgg(figure)  # no window, no global state
        _draw_curves(figure.add_subplot(), phases, title, column, form)
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png")
        paths[title] = write_whole(directory / f"{name}.png", drawn.getvalue())
    return paths


def _draw_curves(axes: Any, phases: list[dict[str, Any]], title: str, column: str, form: str) -> None:
    for key, color, label in ((column, _TRAINING, "training"), (f"val_{column}", _VALIDATION, "validation")):
        curves = [(phase["history"]["step"], phase["history"][key]) for phase in phases if key in phase["history"]]
        for number, (steps, values) in enumerate(curves):
            marker = "o" if len(values) < 25 else ""
            style = {"color": color, "linewidth": 1.8, "marker": marker, "markersize": 3.5}
            axes.plot(steps, values, label=label if number == 0 else "_", **style)
        if curves:
            step, value = curves[-1][0][-1], curves[-1][1][-1]
            style = {"color": color, "fontsize": 9, "fontweight": "bold", "va": "center"}
            place = {"xytext": (6, _nudge(phases, column, key)), "textcoords": "offset points"}
            axes.annotate(form.format(value), (step, value), **place, **style)
    _tidy(axes, title, form)
    _draw_borders(axes, phases)


def _nudge(phases: list[dict[str, Any]], column: str, key: str) -> int:
    """How far to move a curve's last number up or down, because two curves often end at the same height."""
    history = phases[-1]["history"]
    if f"val_{column}" not in history or column not in history:
        return 0
    training_is_higher = history[column][-1] >= history[f"val_{column}"][-1]
    return 7 if (key == column) == training_is_higher else -7


def _draw_borders(axes: Any, phases: list[dict[str, Any]]) -> None:
    """Draw a line where a phase begins, with the length of its rows."""
    if len(phases) < 2:
        return
    for phase in phases:
        if phase["begins"]:
            axes.axvline(phase["begins"], color=_GREY, linewidth=0.8, linestyle=(0, (4, 3)))
        length = phase["plan"].get("examples", {}).get("sequence_length")
        place = (phase["begins"] or axes.get_xlim()[0], 1.0)
        style = {"xytext": (4, -1), "textcoords": "offset points", "color": _GREY, "fontsize": 8, "va": "top"}
        axes.annotate(f"{length} tokens", place, xycoords=("data", "axes fraction"), **style)


def _tidy(axes: Any, title: str, form: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color="#111827")
    axes.set_xlabel("step", color=_GREY)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#d1d5db")
    axes.tick_params(colors=_GREY, labelsize=9)
    axes.grid(axis="y", color="#e5e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0.02, y=0.12)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    rounded = form.replace(".1%", ".0%").replace(".2f", ".1f")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: rounded.format(value)))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    if title.endswith("per second"):
        axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    if len(axes.get_legend_handles_labels()[1]) > 1:
        axes.legend(frameon=False, fontsize=9, labelcolor=_GREY, loc="best")


# === The page ===

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #111827; max-width: 1080px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.under { color: #6b7280; margin-top: .2rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 1rem;
  margin-top: 1.5rem; }
.plots img { width: 100%; border: 1px solid #e5e7eb; border-radius: 8px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .8rem .28rem 0; text-align: right; border-bottom: 1px solid #e5e7eb; white-space: nowrap; }
th { color: #6b7280; font-weight: 600; } th:first-child, td:first-child { text-align: left; }
"""


def _page(name: str, phases: list[dict[str, Any]], plots: dict[str, Path]) -> str:
    images = "".join(f'<img alt="{html.escape(title)}" src="{_as_data(path)}">' for title, path in plots.items())
    last = phases[-1]["history"]
    tokens = sum(sum(phase["history"].get("tokens", ())) for phase in phases)
    seconds = sum(sum(phase["history"].get("seconds", ())) for phase in phases)
    under = f"{last['step'][-1]:,} steps, {tokens:,.0f} tokens, {_as_time(seconds)} of training"
    title = f"Pretraining of {html.escape(name)}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>\n'
        f'<h1>{title}</h1><p class="under">{under}</p>\n<div class="plots">{images}</div>\n'
        f"<h2>Numbers</h2>\n{_table(*_history_table(phases))}\n<h2>Plan</h2>\n{_table(*_plan_table(phases))}\n"
        "</body></html>\n"
    )


def _as_data(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode("ascii")


def _as_time(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s"


def _history_table(phases: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Head and rows: all lines of the history, or every nth one if there are many; always with the last one."""
    names = list(dict.fromkeys(name for phase in phases for name in phase["history"]))
    histories = [phase["history"] for phase in phases]
    rows = [[h.get(n, [None] * len(h["step"]))[i] for n in names] for h in histories for i in range(len(h["step"]))]
    stride = -(-len(rows) // _TABLE_ROWS)
    head = [name.replace("_logits", "").replace("_", " ") for name in names]
    return head, [[_as_number(value) for value in row] for row in rows[::-1][::stride][::-1]]


def _plan_table(phases: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    columns = [_flat(phase["plan"]) for phase in phases]
    names = list(dict.fromkeys(name for column in columns for name in column))
    head = ["", *(f"phase {number}" for number, _ in enumerate(phases, start=1))] if len(phases) > 1 else ["", ""]
    return head, [[name, *(_as_number(column.get(name)) for column in columns)] for name in names]


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for group, value in record.items():
        values |= (
            {f"{group}: {name}": item for name, item in value.items()} if isinstance(value, dict) else {group: value}
        )
    return values


def _as_number(value: Any) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return "" if value is None else str(value)
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value) if value else ""
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:.4g}" if abs(value) < 0.01 else f"{value:,.4f}" if abs(value) < 100 else f"{value:,.1f}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    def line(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    return f'<div class="wide"><table>\n{line(head, "th")}\n{body}\n</table></div>'
