"""Writes the SVG pictures of the guides: boxes, arrows and text on a background of their own, light or dark.

Takes coordinates in pixels, gives text. A picture follows the light or dark mode of the reader's system. Text whose
width matters is monospaced, so that it stands in the same place in every browser.
"""

from html import escape
from pathlib import Path

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1f2430",
    "faint": "#5b6472",
    "line": "#8b94a3",
    "edge": "#d5dae2",
    "panel": "#f5f6f8",
    "blue": "#dbe6ff",
    "green": "#d6f2df",
    "orange": "#ffe6d1",
    "violet": "#ebe0ff",
    "rose": "#ffdde3",
    "strong": "#3b5bdb",
}
DARK = {
    "paper": "#1b1e26",
    "ink": "#e8ebf0",
    "faint": "#a3acba",
    "line": "#7c8696",
    "edge": "#3a4150",
    "panel": "#252a35",
    "blue": "#2b3f73",
    "green": "#235338",
    "orange": "#6b4020",
    "violet": "#4b3a78",
    "rose": "#6e2f3c",
    "strong": "#91a7ff",
}
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


class Picture:
    """A picture that is drawn piece by piece and then saved.

    Args:
        width: In pixels.
        height: In pixels.
        title: What it shows, for readers who do not see it.
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title, self._parts = width, height, title, []

    def box(self, x: float, y: float, width: float, height: float, fill: str = "panel", radius: float = 8) -> None:
        """Draw a rectangle with round corners."""
        shape = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"'
        self._parts.append(f'<rect {shape} class="{fill}" stroke-width="1"/>')

    def bar(self, x: float, y: float, width: float, height: float, fill: str, opacity: float = 1) -> None:
        """Draw a rectangle without an edge."""
        shape = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3"'
        self._parts.append(f'<rect {shape} class="{fill} flat" opacity="{opacity:g}"/>')

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        fill: str = "ink",
        size: float = 15,
        anchor: str = "start",
        bold: bool = False,
        mono: bool = False,
    ) -> None:
        """Write a line."""
        style = f'font-size="{size:g}" text-anchor="{anchor}"' + (' font-weight="600"' if bold else "")
        kind = f"{fill}-text" + (" mono" if mono else "")
        exact = f' textLength="{mono_width(words, size):g}"' if mono and words else ""
        shown = f'<text x="{x:g}" y="{y:g}" class="{kind}" {style}{exact} xml:space="preserve">{escape(words)}</text>'
        self._parts.append(shown)

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> None:
        """Draw a line through points, with a head at its end."""
        (x, y), *rest = points
        path = f"M{x:g} {y:g}" + "".join(f"L{a:g} {b:g}" for a, b in rest)
        dashes = ' stroke-dasharray="4 4"' if dashed else ""
        self._parts.append(f'<path d="{path}" class="arrow" marker-end="url(#head)"{dashes}/>')

    def svg(self) -> str:
        """Return the picture as text."""
        size = f'width="{self.width:g}" height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}"'
        head = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{self.styles()}</style>",
                f'<defs>{head}<path d="M0 0L8 4L0 8z" class="line-fill"/></marker></defs>',
                f'<rect width="{self.width:g}" height="{self.height:g}" rx="10" class="paper flat"/>',
                *self._parts,
                "</svg>\n",
            ]
        )

    def styles(self) -> str:
        """The colours of both modes, as CSS."""
        fixed = f"text{{font-family:{SANS}}}.mono{{font-family:{MONO}}}.flat{{stroke:none}}.arrow{{fill:none}}"
        return fixed + _colours(LIGHT) + f"@media(prefers-color-scheme:dark){{{_colours(DARK)}}}"

    def save(self, path: Path) -> None:
        """Write the picture to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.svg(), encoding="utf-8")


def mono_width(words: str, size: float) -> float:
    """The width of monospaced text."""
    return round(len(words) * size * 0.6, 1)


def _colours(colours: dict[str, str]) -> str:
    rules = [f".{name}{{fill:{value}}}" for name, value in colours.items()]
    rules += [f".{name}-text{{fill:{colours[name]}}}" for name in ("ink", "faint", "strong", "paper")]
    rules.append(f"rect{{stroke:{colours['edge']}}}")
    rules.append(f".arrow{{stroke:{colours['line']};stroke-width:1.6}}.line-fill{{fill:{colours['line']}}}")
    return "".join(rules)
