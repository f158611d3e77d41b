"""Draw pictures of a report page as SVG and HTML, without scripts, fonts or other files.

Takes trials, times and tables; gives strings. Colours are classes of the page's style sheet, so that they follow its
light or dark theme.
"""

import html
import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from export.search.trials import Trial

_WIDTH, _HEIGHT = 460, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 26, 44


class _Axes:
    """A frame that turns numbers into positions: x on a logarithmic or a plain scale, y on a plain one."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], *, log: bool):
        self.log, self.y_range = log, y
        self.x_range: tuple[float, float] = (math.log10(x[0]), math.log10(x[1])) if log else x

    def x(self, value: float) -> float:
        low, high = self.x_range
        share = ((math.log10(value) if self.log else value) - low) / (high - low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_range
        share = (min(max(value, low), high) - low) / (high - low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def draw(
        self,
        x_ticks: Sequence[float],
        y_ticks: Sequence[float],
        x_name: str,
        y_name: str,
        y_form: Callable[[float], str],
    ) -> list[str]:
        """Draw the lines, numbers and names of the axes."""
        right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        parts = []
        for value in y_ticks:
            y = self.y(value)
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{y_form(value)}</text>')
        for value in x_ticks:
            x = self.x(value)
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>')
            parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{value:g}</text>')
        middle = (_LEFT + right) / 2
        parts.append(f'<text class="name" x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">{x_name}</text>')
        parts.append(f'<text class="name" x="2" y="{_TOP - 8}">{html.escape(y_name)}</text>')
        return parts


def _svg(parts: list[str], title: str) -> str:
    body = "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{html.escape(title)}">\n'
        f"<title>{html.escape(title)}</title>\n{body}\n</svg>"
    )


# === Trials ===


def pareto_picture(
    trials: Sequence[Trial],
    chosen: Trial,
    *,
    least: float,
    teacher_score: float,
    metric: str,
    of: Callable[[Trial], float],
    x_name: str,
) -> str:
    """Draw scores over a cost, such as the size: a dot for each trial, the front as a line, the budget dashed.

    Args:
        trials: The trials; those without numbers are left out.
        chosen: The trial with a ring.
        least: The lowest score within the budget.
        teacher_score: The score of the teacher.
        metric: The name of the score.
        of: The cost of a trial.
        x_name: The name of the cost.
    """
    measured = [trial for trial in trials if trial.is_measured]
    costs = [of(trial) for trial in measured]
    low = max(min(trial.score for trial in measured), teacher_score - 4 * max(teacher_score - least, 0.01))
    high = max(teacher_score, *(trial.score for trial in measured))
    space = max(0.1 * (high - min(low, least)), 0.002)
    floor = min(0.0, *(trial.score for trial in measured))  # a budget may be larger than the score itself
    axes = _Axes((min(costs) / 1.25, max(costs) * 1.25), (max(floor, min(low, least)) - space, high + space), log=True)
    parts = axes.draw(_log_ticks(costs), _ticks(*axes.y_range), x_name, metric, _share)
    for score, kind, words in ((teacher_score, "teacher", "teacher"), (least, "budget", "budget")):
        y = axes.y(score)
        parts.append(f'<line class="{kind}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        place = f'x="{_LEFT + 4}" y="{y - 4:.1f}"'
        if kind == "budget":
            place = f'x="{_WIDTH - _RIGHT - 4}" y="{y + 12:.1f}" text-anchor="end"'
        parts.append(f'<text class="{kind}-name" {place}>{words}</text>')
    parts += _front_line(axes, measured, of)
    for trial in sorted(measured, key=lambda trial: trial.key == chosen.key):
        parts.append(_dot(axes, trial, of(trial), trial.key == chosen.key))
    return _svg(parts, f"{metric} over {x_name}")


def _front_line(axes: _Axes, trials: Sequence[Trial], of: Callable[[Trial], float]) -> list[str]:
    best, places = -math.inf, []
    for trial in sorted(trials, key=lambda trial: (of(trial), -trial.score)):
        if trial.score > best:
            best = trial.score
            places.append((axes.x(of(trial)), axes.y(trial.score)))
    steps = [f"M{places[0][0]:.1f},{places[0][1]:.1f}"]
    for (_, before), (x, y) in pairwise(places):
        steps.append(f"L{x:.1f},{before:.1f}L{x:.1f},{y:.1f}")
    return [f'<path class="front" d="{"".join(steps)}"/>']


def _dot(axes: _Axes, trial: Trial, cost: float, is_chosen: bool) -> str:
    x, y = axes.x(cost), axes.y(trial.score)
    words = html.escape(f"{trial.name}: {trial.score:.4f}, {trial.num_bytes / 1e6:.2f} MB, {trial.milliseconds:.2f} ms")
    if trial.score < axes.y_range[0]:  # far below: a triangle at the edge, pointing down
        shape = f'<path class="dot {trial.stage}" d="M{x - 5:.1f},{y - 8:.1f}h10l-5,8z"/>'
    else:
        shape = f'<circle class="dot {trial.stage}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
    ring = f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="9"/>' if is_chosen else ""
    return f"<g><title>{words}</title>{ring}{shape}</g>"


# === Times ===


def latency_picture(rows: Sequence[tuple[int, float, float]]) -> str:
    """Draw milliseconds over tokens, for the teacher and the chosen file."""
    tokens, before, now = (np.array(column, float) for column in zip(*rows, strict=True))
    axes = _Axes((0, tokens.max() * 1.05), (0, max(before.max(), now.max()) * 1.1), log=False)
    parts = axes.draw(_ticks(*axes.x_range), _ticks(*axes.y_range), "tokens", "ms", lambda value: f"{value:g}")
    for values, kind in ((before, "quantize"), (now, "distill")):
        places = " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in zip(tokens, values, strict=True))
        parts.append(f'<polyline class="line {kind}" points="{places}"/>')
        for x, y in zip(tokens, values, strict=True):
            parts.append(
                f'<circle class="dot {kind}" cx="{axes.x(x):.1f}" cy="{axes.y(y):.1f}" r="3.5">'
                f"<title>{x:g} tokens: {y:.2f} ms</title></circle>"
            )
    return _svg(parts, "milliseconds by length")


# === Tables ===


def confusion_table(labels: Sequence[str], counts: np.ndarray, caption: str) -> str:
    """A confusion matrix as a table; cells are darker the larger their share of the row."""
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    head = "".join(f"<th><span>{html.escape(label)}</span></th>" for label in labels)
    lines = [f"<tr><th></th>{head}</tr>"]
    for label, row, share in zip(labels, counts, shares, strict=True):
        cells = "".join(
            f'<td style="--share:{part:.3f}"{" class=dark" if part > 0.55 else ""}>{count or ""}</td>'
            for count, part in zip(row, share, strict=True)
        )
        lines.append(f"<tr><th>{html.escape(label)}</th>{cells}</tr>")
    size = " many" if len(labels) > 6 else ""
    return f'<table class="confusion{size}"><caption>{html.escape(caption)}</caption>{"".join(lines)}</table>'


def confused_pairs(labels: Sequence[str], counts: np.ndarray, caption: str, *, top: int = 15) -> str:
    """The most frequent confusions, for too many classes for a matrix."""
    wrong = counts * (1 - np.eye(len(labels), dtype=int))
    order = np.argsort(-wrong, axis=None, kind="stable")[:top]
    lines = ["<tr><th>is</th><th>taken for</th><th class=number>times</th></tr>"]
    for row, column in (np.unravel_index(place, wrong.shape) for place in order):
        if wrong[row, column]:
            names = (html.escape(labels[row]), html.escape(labels[column]))
            lines.append(f"<tr><td>{names[0]}</td><td>{names[1]}</td><td class=number>{wrong[row, column]}</td></tr>")
    return f'<table class="rows short"><caption>{html.escape(caption)}</caption>{"".join(lines)}</table>'


# === Ticks ===


def _ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two limits."""
    step = 10 ** math.floor(math.log10((high - low) / about))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (factor * step) <= about + 1)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 10) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(values: Sequence[float]) -> list[float]:
    low, high = min(values) / 1.25, max(values) * 1.25
    found = [factor * 10.0**power for power in range(-4, 5) for factor in (1, 2, 5)]
    found = [value for value in found if low <= value <= high]
    return found if len(found) <= 8 else [value for value in found if str(value).strip("0.")[0] == "1"]


def _share(value: float) -> str:
    return f"{100 * value:.1f}%" if value else "0"
