"""The base class of all views: a value that displays itself in a browser, in a notebook and as a picture."""

import functools
import html
import io
import os
import warnings
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from keras_bert.system.atomic_files import write_whole
from keras_bert.visualize.colours import FAINT, GREY, INK

_STYLE = f"""
.kb-view {{ font: 14px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; color: {INK};
  background: #fff; padding: 16px 20px; border-radius: 10px; overflow-x: auto; }}
.kb-view h2 {{ font-size: 17px; font-weight: 650; margin: 0; color: {INK}; }}
.kb-view .under {{ color: {GREY}; margin: 2px 0 16px; font-size: 13px; }}
.kb-view svg text {{ font: var(--kb-size, 12px) ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace;
  fill: {INK}; }}
.kb-view .note {{ color: {GREY}; font-size: 12.5px; margin: 14px 0 0; max-width: 62em; }}
"""
_PAGE_STYLE = f"body {{ margin: 0; background: {FAINT}; }} .kb-view {{ margin: 24px auto; width: fit-content; }}"

# Fonts with characters that Matplotlib's default font does not have; used if they are installed.
_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "Arial Unicode MS")


class View(ABC):
    """A view: `html()` gives a page, `save` writes it or a PNG, and a notebook displays it."""

    @property
    @abstractmethod
    def title(self) -> str:
        """One line that says what the view shows."""

    @property
    def subtitle(self) -> str:
        """A second line; may be empty."""
        return ""

    @abstractmethod
    def _body(self) -> str:
        """The view as HTML, with every text escaped."""

    @abstractmethod
    def _draw(self) -> Any:
        """The view as a Matplotlib figure, from `new_figure`."""

    def html(self) -> str:
        """A self-contained page: one file without external scripts, fonts or pictures."""
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{_PAGE_STYLE}</style></head><body>\n{self._repr_html_()}\n</body></html>\n"
        )

    def _repr_html_(self) -> str:
        under = f'<p class="under">{escape(self.subtitle)}</p>' if self.subtitle else ""
        return f'<div class="kb-view"><style>{_STYLE}</style><h2>{escape(self.title)}</h2>{under}\n{self._body()}</div>'

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write `….html` or `….png` (extra `plots`) and return the path. The file is written completely or not at all.

        Example:
            ```python
            visualize.attention(classifier, "What a lovely film!").save("attention.html")
            ```
        """
        path = Path(path)
        if path.suffix.lower() in (".html", ".htm"):
            return write_whole(path, self.html())
        if path.suffix.lower() == ".png":
            return write_whole(path, self._png())
        raise ValueError(f"{path.name!r} ends in {path.suffix or 'nothing'!r}; expected .html or .png.")

    def _png(self) -> bytes:
        buffer = io.BytesIO()
        with warnings.catch_warnings():
            # Characters that no installed font has are drawn as boxes; the HTML has them all.
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
            self._draw().savefig(buffer, format="png", dpi=160, facecolor="white", bbox_inches="tight", pad_inches=0.15)
        return buffer.getvalue()


def escape(text: str) -> str:
    """Escape a text for HTML, also for attribute values.

    Example:
        >>> escape('<b> & "c"')
        '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return html.escape(text, quote=True)


def new_figure(width: float, height: float, title: str) -> Any:
    """Make an empty Matplotlib figure with a title; sizes are in inches. It uses no window and no global state."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('Pictures need matplotlib: pip install "keras-bert-edge[plots]"; HTML does not.') from error
    figure = Figure(figsize=(max(width, 4.5), height), layout="constrained")
    set_spacing(figure, w_pad=0.12, h_pad=0.1)
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.02, ha="left", color=INK, fontsize=12, fontweight="bold", fontfamily=font_families())
    return figure


def set_spacing(figure: Any, **spacing: float) -> None:
    """Set the space that Matplotlib leaves between the parts of a picture, in inches."""
    figure.get_layout_engine().set(**spacing)


@functools.cache
def font_families() -> list[str]:
    """Matplotlib's default font, and installed fonts with more characters."""
    from matplotlib import font_manager, rcParams

    installed = set(font_manager.get_font_names())
    return [*rcParams["font.sans-serif"][:1], *(name for name in _FONTS if name in installed)]
