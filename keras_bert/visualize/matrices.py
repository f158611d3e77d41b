"""Draw a matrix of tokens by tokens: as SVG for pages, on Matplotlib axes for pictures.

Takes tokens and colours `[T, T, 3]`; attention and masks are such matrices.
"""

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bert.visualize.colours import FAINT, INK, LINE, as_data_uri, as_hex
from keras_bert.visualize.view import escape, font_families

_LABELLED = 64  # with more tokens, their names would be too small to read
_LONGEST = 16


def shorten(token: str) -> str:
    """Shorten a token so that it fits beside a matrix."""
    return token if len(token) <= _LONGEST else token[: _LONGEST - 1] + "…"


def text_width(token: str, size: float = 12.0) -> float:
    """Estimate the width of a token in a monospaced font, in pixels; ideographs are twice as wide as letters."""
    wide = sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in token)
    return wide * size * 0.61


def matrix_svg(tokens: Sequence[str], pixels: np.ndarray, titles: np.ndarray | None = None) -> str:
    """The matrix as SVG. `titles [T, T]` are the tooltips of the cells; large matrices have none."""
    count, names = len(tokens), [shorten(token) for token in tokens]
    labelled = count <= _LABELLED
    cell = float(np.clip(620 / count, 13, 26)) if labelled else max(1.0, 620 / count)
    size = min(12.0, 0.8 * cell)
    margin = max(text_width(name, size) for name in names) + 10 if labelled else 2
    side = cell * count
    parts = [f'<g transform="translate({margin:.0f},{margin:.0f})" style="--kb-size: {size:.1f}px">']
    parts.append(f'<rect width="{side:.1f}" height="{side:.1f}" fill="{FAINT}"/>')
    parts.append(_cells(pixels, cell, titles) if labelled else _image(pixels, side))
    if labelled:
        for place, name in enumerate(names):
            middle = (place + 0.5) * cell
            parts.append(f'<text x="-6" y="{middle + 4:.1f}" text-anchor="end">{escape(name)}</text>')
            parts.append(f'<text transform="translate({middle + 4:.1f},-6) rotate(-90)">{escape(name)}</text>')
    parts.append(f'<rect width="{side:.1f}" height="{side:.1f}" fill="none" stroke="{LINE}"/></g>')
    whole = margin + side + 8
    return f'<svg width="{whole:.0f}" height="{whole:.0f}" role="img">{"".join(parts)}</svg>'


def _cells(pixels: np.ndarray, cell: float, titles: np.ndarray | None) -> str:
    gap = 1 if cell >= 10 else 0
    cells = []
    for row, column in np.ndindex(pixels.shape[:2]):
        title = "" if titles is None else f"<title>{escape(str(titles[row, column]))}</title>"
        cells.append(
            f'<rect x="{column * cell:.1f}" y="{row * cell:.1f}" width="{cell - gap:.1f}" height="{cell - gap:.1f}" '
            f'fill="{as_hex(pixels[row, column])}">{title}</rect>'
        )
    return "".join(cells)


def _image(pixels: np.ndarray, side: float) -> str:
    style = "image-rendering: pixelated"
    return f'<image width="{side:.1f}" height="{side:.1f}" style="{style}" href="{as_data_uri(pixels)}"/>'


def picture_inches(tokens: Sequence[str]) -> float:
    """The width and height of a picture of the matrix."""
    return float(np.clip(0.26 * len(tokens) + 1.6, 4.0, 11.0))


def draw_matrix(axes: Any, tokens: Sequence[str], pixels: np.ndarray) -> None:
    """Draw the matrix on Matplotlib axes."""
    axes.imshow(pixels, interpolation="nearest")
    count = len(tokens)
    axes.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False, labelcolor=INK)
    if count <= _LABELLED:
        size = float(np.clip(300 / count, 5, 9))
        names, families = [shorten(token) for token in tokens], font_families()
        axes.set_xticks(range(count), names, rotation=90, fontsize=size, fontfamily=families)
        axes.set_yticks(range(count), names, fontsize=size, fontfamily=families)
        if count <= 40:
            axes.set_xticks(np.arange(count + 1) - 0.5, minor=True)
            axes.set_yticks(np.arange(count + 1) - 0.5, minor=True)
            axes.grid(which="minor", color="white", linewidth=0.8)
            axes.tick_params(which="minor", length=0)
    else:
        axes.set_xticks([])
        axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(LINE)
