"""Random texts over all of Unicode: every plane and category, and the corners where tokenizers differ."""

import random
import sys
import unicodedata

# Ligatures, fractions, case traps, decompositions, sequences, control tokens, and marks that change places.
CORNERS = [
    *"½ﬁßİıΣςſKÅΩﬀŐẞǅ",
    *"\x00\t\n\x0b\r\x1c\x7f\x85\xa0\xad\u0600\u061c\u180e\u200b\u200d\u2028\u2029\u2060\u3000\ufeff",
    *"한국가각힣中国語豈\u4dbf\u4dc0\u9fff\U00020000\U0002a6df\U0002b820\U0002b920\U0002ceb0\U0002f800\U00030000",
    *"\u0300\u0301\u0327\u0345\u0344\u0f73\u0e31\u0e38\u093c\u094d\u05b0\u3099\u20d0\ufe0f\U000e0100",
    *"\u302e\u302f\u1b44\u1baa\u1bf2\ua953\ua9c0\u08d4\u1dfb\U0001d15e\U0001d165\U0001d16d\U0001d1bb\U0001e000",
    *"\ue000\uf8ff\ufffc\ufffd\ufffe\U000f0000\U0010fffd\u0378\u2e5d\U0001e900\U0001f9ff\U00011938",
    *"\u1c90\u10a0\u13a0\uab70\ua7cb\u1c89",
    *["👩\u200d👩\u200d👧\u200d👦", "👍🏽", "🇩🇪", "1️⃣", "e\u0301", "é", "\u1100\u1161", "ΟΔΟΣ", "ΌΣΟΣ Σ"],
    *[
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "[UNK]",
        "[PAD]",
        "##ing",
        "##",
        "#",
        "...",
        "don't",
        "a.b",
        "$5",
        "^",
        "`",
    ],
]


def random_texts(count, vocabulary, seed):
    """Return `count` texts of up to 24 random parts, the same for the same seed."""
    chooser = random.Random(seed)
    categories = {}
    for code in range(sys.maxunicode + 1):
        categories.setdefault(unicodedata.category(chr(code)), []).append(code)
    del categories["Cs"]  # lone surrogates cannot be encoded
    characters = sorted({char for token in vocabulary for char in token})
    names = sorted(categories)

    def character():
        return chr(chooser.choice(categories[chooser.choice(names)]))

    parts = [
        (4, lambda: chooser.choice(vocabulary).removeprefix("##")),
        (2, lambda: chooser.choice(vocabulary).removeprefix("##").upper()),
        (4, character),
        (2, lambda: chooser.choice(characters)),
        (4, lambda: chooser.choice(CORNERS)),
        (2, lambda: chr(chooser.choice(categories["Mn"]))),
        (1, lambda: chr(chooser.choice(categories["Mc"]))),
        (1, lambda: chr(chooser.randrange(0x250))),
        (5, lambda: " "),
        (0.1, lambda: chooser.choice(["a", "é", "ｱ", "ก", "中", character()]) * chooser.randint(95, 105)),
        (0.1, lambda: "".join(chooser.choice(characters) for _ in range(chooser.randint(90, 110)))),
    ]
    weights, makers = zip(*parts, strict=True)

    def text():
        return "".join(make() for make in chooser.choices(makers, weights, k=chooser.randint(0, 24)))

    return [text() for _ in range(count)]
