"""Turns the data of a run into tables, and tables into Markdown.

    tables_of(data) → [Table, ...] → table.markdown()

Rows, tables by caption, and nested objects all become tables without being asked; a page that wants more writes its
own rows. A list of numbers is the repetitions of one measurement: it is shown as their mean and deviation, or as the
best of them, with a warning where they differ by much. `{"mean": ..., "deviation": ..., "runs": ...}` stands for
repetitions that are not known one by one.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

WIDEST = 12  # columns of a table that nobody designed
UNSTABLE = 0.1  # a deviation over this share of the mean: pyperf's bound
WARNING = "⚠"
LEGEND = f"{WARNING}: the repetitions deviate by more than {UNSTABLE:.0%} of their mean."

Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A caption, the names of the columns and rows of values.

    Args:
        caption: What stands above; may be empty.
        rows: What each column holds, by name; columns come in the order in which rows name them.
        best: For columns with repetitions of which the best counts: `max` or `min`. Others show mean and deviation.
        decimals: For columns that have a number of them; others show four significant digits.
    """

    caption: str
    rows: Sequence[Row]
    best: Mapping[str, Callable[[Iterable[float]], float]] = field(default_factory=dict)
    decimals: Mapping[str, int] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The names, without columns that are empty in every row."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        return [name for name in names if any(row.get(name) not in (None, "", {}) for row in self.rows)]

    def markdown(self) -> str:
        """The table, with its caption above."""
        lines = [" | ".join(self._cell(name, row.get(name)) for name in self.columns) for row in self.rows]
        head = f"| {' | '.join(self.columns)} |\n|{'---|' * len(self.columns)}\n"
        text = head + "".join(f"| {line} |\n" for line in lines)
        return (f"{self.caption}:\n\n" if self.caption else "") + text

    def _cell(self, column: str, value: Any) -> str:
        decimals, best = self.decimals.get(column), self.best.get(column)
        if is_repetitions(value):
            return show_repetitions(value, best, decimals)
        if isinstance(value, (list, tuple)):
            return ", ".join(show(part, decimals) for part in value)
        return show(value, decimals)


def show(value: Any, decimals: int | None = None) -> str:
    """A value as a cell has it.

    Example:
        >>> [show(value) for value in (None, True, 120271, 0.99995, 26.84, 1.7e-06, 15022.5, "a|b")]
        ['', 'yes', '120,271', '1', '26.84', '1.7e-06', '15,022', 'a\\\\|b']
    """
    if value in (None, {}):
        return ""
    if is_summary(value):
        warning = f" {WARNING}" if value["deviation"] > UNSTABLE * abs(value["mean"]) else ""
        return f"{show(value['mean'], decimals)} ± {show(value['deviation'], decimals)}{warning}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value.replace("|", "\\|").replace("\n", " ")
    if isinstance(value, int) and decimals is None:
        return f"{value:,}"
    if decimals is not None:
        return f"{value:,.{decimals}f}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def is_repetitions(value: Any) -> bool:
    """Whether a value is the numbers of several runs."""
    numbers = isinstance(value, list) and bool(value)
    return numbers and all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in value)


class Mean(list[float]):
    """Repetitions of which the mean counts where others would take the best."""


def is_summary(value: Any) -> bool:
    """Whether a value is the mean and the deviation of runs that are not known one by one."""
    return isinstance(value, dict) and {"mean", "deviation"} <= value.keys()


def is_unstable(values: Sequence[float]) -> bool:
    """Whether repetitions deviate by more than a tenth of their mean."""
    return len(values) > 1 and float(np.std(values, ddof=1)) > UNSTABLE * abs(float(np.mean(values)))


def show_repetitions(
    values: Sequence[float], best: Callable[[Iterable[float]], float] | None = None, decimals: int | None = None
) -> str:
    """Repetitions in one cell: mean ± deviation, or the best of them.

    Example:
        >>> show_repetitions([89.6, 89.3, 90.1]), show_repetitions([1.0, 2.0], min), show_repetitions([5.5])
        ('89.67 ± 0.40', '1 ⚠', '5.5')
    """
    if len(values) == 1:
        return show(values[0], decimals)
    warning = f" {WARNING}" if is_unstable(values) else ""
    if best is not None:
        return show(best(values), decimals) + warning
    mean, deviation = float(np.mean(values)), float(np.std(values, ddof=1))
    places = _places(mean, deviation) if decimals is None else decimals
    return f"{mean:,.{places}f} ± {deviation:,.{places}f}{warning}"


def _places(mean: float, deviation: float) -> int:
    """Decimals that show two digits of a deviation, but no more than four or so of the mean."""
    if not deviation:
        return 2 if mean % 1 else 0
    most = 3 - math.floor(math.log10(abs(mean))) if mean else 2
    return max(0, min(1 - math.floor(math.log10(deviation)), most))


# === Any data as tables ===


def tables_of(value: Any, caption: str = "") -> list[Table]:
    """Tables of data of any form.

    Example:
        >>> tables_of({"results": [{"contender": "ours", "ms": 2}]})
        [Table(caption='', rows=[{'contender': 'ours', 'ms': 2}], best={}, decimals={})]
        >>> [table.rows for table in tables_of({"int8": {"ms": 1}, "float32": {"ms": 3}})]
        [[{'': 'int8', 'ms': 1}, {'': 'float32', 'ms': 3}]]
    """
    if isinstance(value, dict):
        if list(value) == ["results"]:
            return tables_of(value["results"], caption)
        objects = {name: one for name, one in value.items() if isinstance(one, dict) and one}
        if len(objects) == len(value) and max(len(_flat(one)) for one in objects.values()) <= WIDEST:
            return _tables_of_rows([{"": name, **one} for name, one in objects.items()], caption)
        plain = {name: one for name, one in value.items() if name not in objects and not _is_rows(one)}
        found = _table(caption, [{"": name, "value": _listed(one)} for name, one in plain.items()])
        for name, one in value.items():
            if name not in plain:
                found += tables_of(one, _joined(caption, "" if name == "results" else name))
        return found
    if _is_rows(value):
        return _tables_of_rows(value, caption)
    return _table(caption, [{"": "", "value": _listed(value)}])


def _tables_of_rows(rows: list[dict[str, Any]], caption: str) -> list[Table]:
    """One table of what is in the rows, and one for each table inside of a row."""
    found = _table(caption, [_flat(row) for row in rows])
    for row in rows:
        name = str(next(iter(row.values())))
        for key, one in row.items():
            if _is_rows(one) or (isinstance(one, dict) and _has_tables(one)):
                found += tables_of(one, _joined(caption, f"{name}, {key}"))
    return found


def _listed(value: Any) -> Any:
    """A list of settings, which are no repetitions."""
    return ", ".join(show(one) for one in value) if isinstance(value, list) else value


def _table(caption: str, rows: list[Row]) -> list[Table]:
    return [Table(caption, rows)] if rows and any(rows) else []


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _has_tables(value: dict[str, Any]) -> bool:
    return any(_is_rows(one) or (isinstance(one, dict) and _has_tables(one)) for one in value.values())


def _flat(row: dict[str, Any], before: str = "") -> Row:
    """A row without objects inside; their values are columns of it."""
    found: Row = {}
    for name, value in row.items():
        column = _joined(before, name)
        if isinstance(value, dict) and not is_summary(value):
            found |= {} if _has_tables(value) else _flat(value, column)
        elif not _is_rows(value):
            found[column] = value
    return found


def _joined(before: str, name: str) -> str:
    return f"{before}, {name}" if before and name else before or name


def best_number(value: Any, best: Callable[[Iterable[float]], float]) -> float:
    """A number, or the best of its repetitions."""
    if is_summary(value):
        return float(value["mean"])
    if isinstance(value, Mean):
        return float(np.mean(value))
    return float(best(value) if is_repetitions(value) else value)
