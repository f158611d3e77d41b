"""Draws the answers of every task, as `docs/drawing/answers.py` has kept them.

python docs/drawing/gallery.py    # a second; writes docs/pictures/gallery/*.svg, which are committed
"""

import json
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from svg import Picture, mono_width

GALLERY = Path(__file__).parents[1] / "pictures" / "gallery"
WIDTH, MARGIN, SIZE, COLUMNS = 380, 18, 13, 43
COLOURS = "blue", "green", "orange", "violet", "rose"
POLARITIES = {"positive": "green", "negative": "rose", "neutral": "panel"}
Span = tuple[int, int, str, str]


# === Parts of a picture ===


class Card(Picture):
    """A picture that grows downwards."""

    def __init__(self, title: str) -> None:
        super().__init__(WIDTH, 0, title)
        self.y: float = MARGIN

    def note(self, words: str) -> None:
        """Write a small line."""
        self.text(MARGIN, self.y + 12, words, fill="faint", size=12)
        self.y += 22

    def marked(self, text: str, spans: list[Span]) -> None:
        """Write a text with some parts in colour and their labels below."""
        for start, end in wrapped(text):
            inside = [span for span in spans if span[0] < end and span[1] > start]
            for first, last, label, colour in inside:
                left, right = max(first, start) - start, min(last, end) - start
                x, width = MARGIN + mono_width("x" * left, SIZE), mono_width("x" * (right - left), SIZE)
                self.box(x - 2, self.y, width + 4, 22, colour, 4)
                if label and first >= start:
                    middle = min(max(x + width / 2, MARGIN + 22), WIDTH - MARGIN - 22)
                    self.text(middle, self.y + 35, label, fill="faint", size=11, anchor="middle")
            self.text(MARGIN, self.y + 16, text[start:end], size=SIZE, mono=True)
            self.y += 44 if any(label for *_, label, _ in inside) else 26
        self.y += 6

    def bars(self, rows: list[tuple[str, float]], width: float = 120) -> None:
        """Draw probabilities as bars behind their names."""
        for number, (name, probability) in enumerate(rows):
            x, room = MARGIN + width, WIDTH - 2 * MARGIN - width - 48
            self.text(MARGIN, self.y + 14, name, size=12, bold=number == 0)
            self.bar(x, self.y + 3, room, 14, "panel")
            self.bar(x, self.y + 3, max(room * probability, 2), 14, "strong", 1 if number == 0 else 0.45)
            self.text(WIDTH - MARGIN, self.y + 14, f"{probability:.0%}", size=12, anchor="end", fill="faint")
            self.y += 24
        self.y += 4

    def done(self) -> Picture:
        """Close the picture below what was drawn last."""
        self.height = self.y + MARGIN - 8
        return self


def wrapped(text: str) -> list[tuple[int, int]]:
    """Where the lines of a text begin and end."""
    lines, start = [], 0
    for line in textwrap.wrap(text, COLUMNS):
        start = text.index(line, start)
        lines.append((start, start + len(line)))
        start += len(line)
    return lines


def coloured(labels: list[str]) -> dict[str, str]:
    """A colour for each label, in the order in which they come."""
    unique = list(dict.fromkeys(labels))
    return {label: COLOURS[number % len(COLOURS)] for number, label in enumerate(unique)}


# === Tasks ===


def classification(found: dict[str, Any]) -> Picture:
    """A text and its likeliest labels."""
    card = Card("A command and its three likeliest intents")
    card.marked(found["text"], [])
    card.bars([(one["name"], one["probability"]) for one in found["answer"]])
    return card.done()


def tagging(found: dict[str, Any]) -> Picture:
    """A sentence with its entities."""
    card = Card("A sentence with its entities")
    colours = coloured([one["label"] for one in found["answer"]])
    card.marked(
        found["text"], [(one["start"], one["end"], one["label"], colours[one["label"]]) for one in found["answer"]]
    )
    return card.done()


def question_answering(found: dict[str, Any]) -> Picture:
    """A text with the answers to questions."""
    card = Card("A text, and the parts that answer two questions")
    spans = [(one["start"], one["end"], "", COLOURS[number]) for number, one in enumerate(found["answer"])]
    card.marked(found["text"], spans)
    for number, (question, one) in enumerate(zip(found["questions"], found["answer"], strict=True)):
        card.text(MARGIN, card.y + 16, question, size=12.5)
        width = mono_width(one["text"], SIZE)
        card.box(WIDTH - MARGIN - width - 6, card.y, width + 6, 22, COLOURS[number], 4)
        card.text(WIDTH - MARGIN - width - 3, card.y + 16, one["text"], size=SIZE, mono=True)
        card.y += 30
    return card.done()


def intent_slots(found: dict[str, Any]) -> Picture:
    """A command with its intent and slots."""
    card = Card("A command, its intent and its slots")
    card.bars([(found["intent"], found["probability"])])
    colours = coloured([one["label"] for one in found["answer"]])
    card.marked(
        found["text"], [(one["start"], one["end"], one["label"], colours[one["label"]]) for one in found["answer"]]
    )
    return card.done()


def relation(found: dict[str, Any]) -> Picture:
    """A sentence with two marked entities."""
    card = Card("Two marked entities and how they are related")
    text, places = re.sub(r"</?e[12]>", "", found["text"]), []
    for number in (1, 2):
        word = re.search(rf"<e{number}>(.*?)</e{number}>", found["text"])[1]
        start = text.index(word)
        places.append((start, start + len(word), f"e{number}", COLOURS[number - 1]))
    card.marked(text, places)
    card.bars([(found["answer"]["name"], found["answer"]["probability"])], width=150)
    return card.done()


def aspect(found: dict[str, Any]) -> Picture:
    """A sentence with its aspects."""
    card = Card("A sentence and what it says about two things")
    spans = []
    for one in found["answer"]:
        start = found["text"].index(one["aspect"])
        spans.append((start, start + len(one["aspect"]), one["label"], POLARITIES[one["label"]]))
    card.marked(found["text"], sorted(spans))
    for one in found["answer"]:
        card.bars([(f"{one['aspect']}: {one['label']}", one["probability"])], width=140)
        card.y -= 4
    return card.done()


def similarity(found: dict[str, Any]) -> Picture:
    """Cosines between sentences."""
    card = Card("Four sentences and the cosines between them")
    cell, left = 44, WIDTH - MARGIN - 4 * 44
    for text, cosines in zip(found["texts"], found["answer"], strict=True):
        card.text(MARGIN, card.y + 27, text, size=12.5)
        for column, cosine in enumerate(cosines):
            x = left + cell * column
            card.bar(x + 1, card.y + 1, cell - 2, cell - 2, "panel")
            card.bar(x + 1, card.y + 1, cell - 2, cell - 2, "strong", max(round(cosine, 2), 0) * 0.8)
            colour = "paper" if cosine > 0.6 else "ink"
            card.text(x + cell / 2, card.y + 26, f"{cosine:.2f}", size=12, anchor="middle", fill=colour)
        card.y += cell
    return card.done()


def multiple_choice(found: dict[str, Any]) -> Picture:
    """A context and its choices."""
    card = Card("A beginning, and how likely each ending is")
    card.marked(found["text"], [])
    card.bars([(one["text"], one["probability"]) for one in found["answer"]], width=200)
    return card.done()


def zero_shot(found: dict[str, Any]) -> Picture:
    """A text and labels that no model was trained on."""
    card = Card("A text and three labels that the model was never trained on")
    card.marked(found["text"], [])
    card.bars([(one["name"], one["probability"]) for one in found["answer"]], width=80)
    return card.done()


def seq2seq(found: dict[str, Any]) -> Picture:
    """Commands and written replies."""
    card = Card("Commands, and the replies that were written to them")
    for text, reply in zip(found["texts"], found["answer"], strict=True):
        for words, colour, is_reply in ((text, "panel", False), (reply, "blue", True)):
            width = mono_width(words, SIZE) + 20
            x = WIDTH - MARGIN - width if is_reply else MARGIN
            card.box(x, card.y, width, 26, colour, 12)
            card.text(x + 10, card.y + 17.5, words, size=SIZE, mono=True)
            card.y += 31
        card.y += 5
    return card.done()


PICTURES: dict[str, Callable[[dict[str, Any]], Picture]] = {
    "classification": classification,
    "tagging": tagging,
    "question_answering": question_answering,
    "intent_slots": intent_slots,
    "relation": relation,
    "aspect": aspect,
    "similarity": similarity,
    "multiple_choice": multiple_choice,
    "zero_shot": zero_shot,
    "seq2seq": seq2seq,
}


def drawn() -> dict[str, str]:
    """Every picture as SVG, by task."""
    answers = json.loads((GALLERY / "answers.json").read_text(encoding="utf-8"))
    return {name: PICTURES[name](found).svg() for name, found in answers.items()}


def main() -> None:
    """Write every picture."""
    for name, svg in drawn().items():
        (GALLERY / f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
