"""Draws the diagrams of the guides: the way from text to a phone, and which recipe to take.

python docs/drawing/diagrams.py    # a second; writes docs/pictures/drawn/*.svg, which are committed
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from svg import Picture

DRAWN = Path(__file__).parents[1] / "pictures" / "drawn"


def pipeline() -> Picture:
    """Text → a trained task → a small file → answers."""
    picture = Picture(720, 372, "From raw text to a phone: train, shrink, ship")
    rows = (
        (
            "Train",
            "keras_bert",
            "blue",
            (
                ("raw text", ""),
                ("tokenizer", "original BERT's"),
                ("encoder", "BERT and kin"),
                ("task", "fit · predict"),
            ),
        ),
        (
            "Shrink",
            "export",
            "green",
            (
                ("distill", "a student"),
                ("trim", "the vocabulary"),
                ("prune", "layers, heads"),
                ("quantize", "8 or 4 bits"),
            ),
        ),
        (
            "Ship",
            "export",
            "orange",
            (("model.tflite", "one file"), ("verify", "same answers?"), ("run", "phone · web · server")),
        ),
    )
    for number, (name, package, colour, steps) in enumerate(rows):
        y = 24 + 116 * number
        picture.box(16, y, 688, 92, "panel", 10)
        picture.text(34, y + 44, name, size=19, bold=True)
        picture.text(34, y + 66, package, size=12, fill="faint", mono=True)
        width = 118 if len(steps) == 4 else 165
        step = width + 20
        for place, (label, note) in enumerate(steps):
            x = 146 + step * place
            picture.box(x, y + 16, width, 60, colour)
            middle = x + width / 2
            picture.text(middle, y + (42 if note else 52), label, anchor="middle", bold=True)
            picture.text(middle, y + 62, note, anchor="middle", size=12, fill="faint")
            if place:
                picture.arrow((x - 18, y + 46), (x - 3, y + 46))
        if number:
            picture.arrow((90, y - 24), (90, y - 3))
    return picture


def checkpoints() -> Picture:
    """Where weights come from and go to."""
    picture = Picture(560, 150, "Weights in and out")
    for number, name in enumerate(("Hugging Face", "Google TF1", "keras-hub")):
        picture.box(16, 18 + 40 * number, 150, 32, "violet")
        picture.text(91, 39 + 40 * number, name, anchor="middle", size=14)
        picture.arrow((168, 34 + 40 * number), (222, 60 + 15 * number))
    picture.box(226, 44, 108, 62, "blue")
    picture.text(280, 72, "encoder", anchor="middle", bold=True)
    picture.text(280, 92, "and tokenizer", anchor="middle", size=12, fill="faint")
    picture.arrow((336, 75), (386, 75))
    picture.box(390, 44, 154, 62, "panel")
    picture.text(467, 72, "save_pretrained", anchor="middle", size=13, mono=True)
    picture.text(467, 92, "any of the three", anchor="middle", size=12, fill="faint")
    return picture


def recipes() -> Picture:
    """Where a file runs → which recipe to take."""
    picture = Picture(640, 544, "Which recipe?")
    picture.box(150, 16, 340, 44, "strong", 22)
    picture.text(320, 44, "Where will the file run?", anchor="middle", bold=True, fill="paper")
    places = (
        ("CPU", "phone, laptop, server", "dynamic_int8", "a quarter of the size"),
        ("GPU", "delegate of a phone", "float16", "half the size"),
        ("NPU", "delegate of a phone", "static_int8", "needs calibration texts"),
        ("TF Serving", "a server", "SavedModel", "save_serving"),
    )
    for number, (where, note, recipe, why) in enumerate(places):
        x = 16 + 154 * number
        picture.arrow((320, 60), (x + 73, 92))
        picture.box(x, 96, 146, 56, "blue")
        picture.text(x + 73, 121, where, anchor="middle", bold=True)
        picture.text(x + 73, 140, note, anchor="middle", size=11.5, fill="faint")
        picture.arrow((x + 73, 152), (x + 73, 176))
        picture.box(x, 180, 146, 56, "green")
        picture.text(x + 73, 205, recipe, anchor="middle", size=14, bold=True, mono=True)
        picture.text(x + 73, 224, why, anchor="middle", size=11.5, fill="faint")
    steps = (
        ("Does it keep your accuracy?", "no", "choose_precision, or train_quantized", "yes"),
        ("Is it small enough?", "yes", "ship it", "no"),
        ("Do 4 bits keep it?", "yes", "weight_int4; with the token table, all_int4", "no"),
    )
    picture.arrow((89, 236), (89, 268))
    picture.arrow((397, 236), (397, 252), (150, 252), (150, 268))
    for number, (question, aside, then, below) in enumerate(steps):
        y = 272 + 70 * number
        picture.box(16, y, 240, 44, "orange")
        picture.text(136, y + 27, question, anchor="middle", size=14, bold=True)
        picture.arrow((256, y + 22), (302, y + 22))
        picture.text(279, y + 15, aside, anchor="middle", size=12, fill="faint")
        picture.box(306, y, 318, 44, "panel")
        picture.text(320, y + 27, then, size=14)
        picture.arrow((136, y + 44), (136, y + 67))
        picture.text(146, y + 61, below, size=12, fill="faint")
    picture.box(16, 482, 608, 46, "violet")
    picture.text(34, 510, "Make the model smaller first: distill, trim, prune. Or let deploy search.", size=14)
    return picture


PICTURES = {"pipeline": pipeline, "checkpoints": checkpoints, "recipes": recipes}


def main() -> None:
    """Write every diagram."""
    for name, draw in PICTURES.items():
        draw().save(DRAWN / f"{name}.svg")


if __name__ == "__main__":
    main()
