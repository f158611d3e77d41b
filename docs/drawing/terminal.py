"""Draws what a command printed as a picture of a terminal.

    make demo > demo.log && python docs/drawing/terminal.py demo.log    # keeps the lines in demo.txt and draws them
    python docs/drawing/terminal.py                                     # draws demo.txt again

Writes docs/pictures/drawn/demo.txt and demo.svg, which are committed. Progress is left out, long lines are cut.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from svg import MONO, Picture, mono_width

DRAWN = Path(__file__).parents[1] / "pictures" / "drawn"
COMMAND = "make demo"
WIDTH, SIZE, LINE = 84, 13, 19
PROGRESS = re.compile(r"Epoch \d|\d+/\d+ - |INFO: |\S.* any length: ")


def kept_lines(log: str) -> list[str]:
    """The lines of a log from the first step to the last answer, without progress."""
    lines = log.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("1. "))
    end = next((number for number, line in enumerate(lines) if number > start and not line.strip()), len(lines))
    return [line for line in lines[start:end] if not PROGRESS.match(line)]


def terminal(lines: list[str]) -> Picture:
    """A window with a command and what it printed."""
    shown = [f"$ {COMMAND}", *(line if len(line) <= WIDTH else line[: WIDTH - 1] + "…" for line in lines)]
    picture = Terminal(mono_width("x" * WIDTH, SIZE) + 36, 46 + LINE * len(shown) + 10, f"The output of {COMMAND}")
    for number, line in enumerate(shown):
        is_step = re.match(r"\$ |\d\. ", line)
        is_chosen, is_said = line.startswith("   * "), line.strip().startswith("»")
        colour = "step" if is_step else "chosen" if is_chosen else "said" if is_said else "printed"
        for match in re.finditer(r"\S+(?: \S+)*", line):
            x = 18 + mono_width(line[: match.start()], SIZE)
            picture.text(x, 54 + LINE * number, match[0], fill=colour, size=SIZE, mono=True)
    return picture


class Terminal(Picture):
    """A picture that is dark in both modes, with the bar of a window."""

    colours = (
        ("step", "#8ab4ff"),
        ("chosen", "#7ee2a8"),
        ("said", "#ffd08a"),
        ("printed", "#d7dce5"),
    )

    def styles(self) -> str:
        """The colours, as CSS."""
        rules = f".mono{{font-family:{MONO}}}.flat{{stroke:none}}.paper{{fill:#171a21}}"
        return rules + "".join(f".{name}-text{{fill:{colour}}}" for name, colour in self.colours)

    def svg(self) -> str:
        """Return the picture as text."""
        dots = "".join(
            f'<circle cx="{22 + 18 * place}" cy="20" r="5.5" fill="{colour}"/>'
            for place, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        )
        return super().svg().replace("</svg>", f"{dots}\n</svg>")


def main() -> None:
    """Keep the lines of a log, if there is one, and draw them."""
    text = DRAWN / "demo.txt"
    if len(sys.argv) > 1:
        lines = kept_lines(Path(sys.argv[1]).read_text(encoding="utf-8"))
        text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    terminal(text.read_text(encoding="utf-8").splitlines()).save(DRAWN / "demo.svg")


if __name__ == "__main__":
    main()
