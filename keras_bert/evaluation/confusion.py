"""Draws the confusion matrix of a classification report.

A cell has a fixed width in inches, so the picture grows with the number of classes and stays readable.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_bert.evaluation.extras import new_figure, save_figure

if TYPE_CHECKING:
    from keras_bert.evaluation.reports import ClassificationReport

_LONGEST_NAME = 28
_LARGE = 20  # with more classes, the names are on all four sides


def plot_confusion(report: "ClassificationReport", path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Draw a row for each true class and a column for each predicted one, as PNG.

    The colour shows the share of the row, so that rare classes are as visible as frequent ones. The numbers are counts;
    zeros are left out.

    Args:
        report: The result of `classification_report`.
        path: The file to write.
        title: The title; by default the accuracy and the number of examples.

    Example:
        >>> plot_confusion(report, "confusion.png")  # doctest: +SKIP
        PosixPath('confusion.png')
    """
    names = [name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…" for name in report.names]
    counts = np.array(report.confusion)
    cell = _cell_inches(len(names), counts.max())
    size = min(12.0, 30 * cell)  # points; 72 are an inch
    is_large = len(names) > _LARGE
    longest = max(map(len, names))
    side = cell * len(names) + 1.1 + (2 if is_large else 1) * longest * size / 110
    figure = new_figure(max(side, 4.2), max(side, 3.4))
    axes = figure.add_subplot()
    _draw_cells(axes, counts, cell, size)
    axes.set_xticks(range(len(names)), names, rotation=0 if longest * size / 110 < cell else 90, fontsize=size)
    axes.set_yticks(range(len(names)), names, fontsize=size)
    # In a large matrix, cells far from the names are hard to follow.
    axes.tick_params(top=is_large, labeltop=is_large, right=is_large, labelright=is_large)
    heading = 20 if is_large else 11
    axes.set_xlabel("predicted", fontsize=heading)
    axes.set_ylabel("true", fontsize=heading)
    figure.suptitle(title or f"accuracy {report.accuracy:.3f}, {report.count:,} examples", fontsize=heading)
    return save_figure(figure, path)


def _draw_cells(axes: Any, counts: np.ndarray, cell: float, size: float) -> None:
    # The square root of the share, so that small shares are visible, too.
    shades = np.sqrt(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))
    axes.imshow(shades, cmap="Blues", vmin=0, vmax=1, aspect="equal")
    for row, column in zip(*np.nonzero(counts), strict=True):
        text = f"{counts[row, column]:,}"
        colour = "white" if shades[row, column] > 0.6 else "black"
        fitting = min(size, 72 * cell * 0.9 / (0.62 * len(text)))
        number = axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=fitting)
        number.set_in_layout(False)  # a number stays in its cell; laying out thousands of them takes seconds
    edges = np.arange(len(counts) + 1) - 0.5
    axes.set_xticks(edges, minor=True)
    axes.set_yticks(edges, minor=True)
    axes.grid(which="minor", color="0.85", linewidth=0.5)
    axes.tick_params(which="minor", length=0)


def _cell_inches(classes: int, largest: int) -> float:
    """Return the width of a cell: wide for a few classes, and never too small for the largest number."""
    return max(0.9 if classes <= 4 else 0.6 if classes <= 12 else 0.3, 0.07 * len(f"{largest:,}"))
