"""The colours of all views, and arrays of colours as PNG data URIs.

The palette can be read without telling red from green. Nothing here needs Matplotlib, so that HTML pages do not.
"""

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np

INK, GREY, LINE, FAINT = "#111827", "#6b7280", "#e5e7eb", "#f3f4f6"
STRONG, AGAINST = "#1f6f8b", "#c2571a"
# One for each text of a shared row, or each part of a sequence.
PARTS = ("#1f6f8b", "#d9822b", "#6d5bb0", "#4d9078", "#b0476f", "#8a7a2f")

_SEQUENTIAL = ("#ffffff", "#cde4ec", "#7db7cb", "#1f6f8b", "#0c3547")
_DIVERGING = ("#8f3c0d", "#d9822b", "#f6d3ad", "#ffffff", "#b5d8e4", "#3c8aa6", "#0f4c63")


def shades(values: np.ndarray) -> np.ndarray:
    """Turn values from 0 to 1 into colours from white to dark, uint8 `[…, 3]`.

    Example:
        >>> shades(np.array([0.0, 1.0])).tolist()
        [[255, 255, 255], [12, 53, 71]]
    """
    return _interpolate(np.asarray(values, float), _SEQUENTIAL)


def signed_shades(values: np.ndarray) -> np.ndarray:
    """Turn values from −1 to 1 into colours from orange over white to blue, uint8 `[…, 3]`.

    Example:
        >>> signed_shades(np.array([0.0])).tolist()
        [[255, 255, 255]]
    """
    return _interpolate((np.asarray(values, float) + 1) / 2, _DIVERGING)


def as_hex(colour: np.ndarray) -> str:
    """Format three numbers as `#rrggbb`."""
    return "#{:02x}{:02x}{:02x}".format(*(int(part) for part in colour))


def ink_on(colour: np.ndarray) -> str:
    """Black or white: the one that can be read on a colour."""
    red, green, blue = (int(part) for part in colour)
    return "#ffffff" if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else INK


def as_data_uri(pixels: np.ndarray) -> str:
    """Encode uint8 `[rows, columns, 3]` as a PNG in a data URI.

    Example:
        >>> as_data_uri(np.zeros((1, 1, 3), np.uint8))[:22]
        'data:image/png;base64,'
    """
    rows, columns, _ = pixels.shape
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), pixels.reshape(rows, -1)], axis=1)  # 0: no filter
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode("ascii")


def _interpolate(values: np.ndarray, stops: Sequence[str]) -> np.ndarray:
    colours = np.array([[int(stop[place : place + 2], 16) for place in (1, 3, 5)] for stop in stops], float)
    places = np.clip(np.nan_to_num(values), 0, 1) * (len(stops) - 1)
    channels = [np.interp(places, np.arange(len(stops)), colours[:, channel]) for channel in range(3)]
    return np.rint(np.stack(channels, axis=-1)).astype(np.uint8)
