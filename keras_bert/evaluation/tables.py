"""Formats the scores and counts of reports as the lines of printed tables."""

from collections.abc import Sequence
from typing import Any, Protocol


class ScoredReport(Protocol):
    """A report with precision, recall and F1 of each class, and their averages."""

    @property
    def classes(self) -> Sequence[Any]:
        """The scores of each class, with its `name`."""

    @property
    def micro(self) -> Any:
        """The scores over all decisions."""

    @property
    def macro(self) -> Any:
        """The mean of the classes."""

    @property
    def weighted(self) -> Any:
        """The mean of the classes, weighted by their support."""


def listed(names: Sequence[str]) -> str:
    """Return a few names, and how many more there are.

    Example:
        >>> listed(["a", "b"])
        'a, b'
    """
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def noted(notes: Sequence[str]) -> list[str]:
    """Return the lines of the notes, if there are any.

    Example:
        >>> noted(["all labels are 'a'"])
        ['', "note: all labels are 'a'"]
    """
    return ["", *(f"note: {note}" for note in notes)] if notes else []


def score_table(report: "ScoredReport") -> list[str]:
    """Return a line for each class, then one for each average."""
    averages = (("micro", report.micro), ("macro", report.macro), ("weighted", report.weighted))
    width = max(8, *(len(scores.name) for scores in report.classes))
    lines = [f"{'':<{width}}  precision  recall      f1  support"]
    for name, scores in [*((scores.name, scores) for scores in report.classes), *averages]:
        support = f"{scores.support:>9,}" if hasattr(scores, "support") else ""
        lines.append(
            f"{name:<{width}}  {scores.precision:9.4f}  {scores.recall:6.4f}  {scores.f1:6.4f}{support}".rstrip()
        )
    lines.insert(len(report.classes) + 1, "")
    return lines


def matrix_table(names: Sequence[str], confusion: Sequence[Sequence[int]]) -> list[str]:
    """Return the lines of the confusion matrix, with its names.

    Example:
        >>> print("\\n".join(matrix_table(["a", "b"], [[3, 0], [1, 12]])))
        true \\ predicted  a   b
        a                 3   0
        b                 1  12
    """
    corner = "true \\ predicted"
    first = max(len(corner), *(len(name) for name in names))
    widths = [max(len(name), *(len(str(row[index])) for row in confusion)) for index, name in enumerate(names)]
    lines = ["  ".join([f"{corner:<{first}}", *map(str.rjust, names, widths)])]
    for name, row in zip(names, confusion, strict=True):
        lines.append("  ".join([f"{name:<{first}}", *map(str.rjust, map(str, row), widths)]))
    return lines
