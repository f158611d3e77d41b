"""Ask the reference tokenizer about every code point and write down what it says.

    python tests/helpers/make_unicode_tables.py    # 15 seconds; prints keras_bert/text/unicode_tables.json: 45 kB

The reference (the Rust `tokenizers`) mixes Unicode versions: categories of 8.0, normalization of 9.0,
lowercase of the compiler that built it. No Python, ICU or RE2 has that mixture, so the package ships the
answers as data. `text/test_tokenizer.py` runs this again and compares: other answers will be noticed.
"""

import json
from pathlib import Path

from places import ROOT
from tokenizers import normalizers, pre_tokenizers

TABLES = ROOT / "keras_bert" / "text" / "unicode_tables.json"
SURROGATES = range(0xD800, 0xE000)
HANGUL = range(0xAC00, 0xD7A4)
# One mark of each canonical combining class, in order: how many of them a mark goes behind tells its class.
LADDER = (
    "\u0334\u093c\u3099\u094d\u05b0\u05b1\u05b2\u05b3\u05b4\u05b5\u05b6\u05b7\u05b8\u05b9\u05bb\u05bc\u05bd\u05bf"
    "\u05c1\u05c2\ufb1e\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u0670\u0711\u0c55\u0c56\u0e38\u0e48\u0eb8"
    "\u0ec8\u0f71\u0f72\u0f74\u0321\u1dce\u031b\u302a\u0316\u059a\u302e\U0001d16d\u05ae\u0301\u0315\u035c\u035d"
    "\u0345"
)


def bert_normalizer(**on):
    """The reference's normalizer with nothing switched on but the steps that are asked for."""
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**off, **on}).normalize_str


def collect():
    """Return the tables as one JSON-ready dictionary of strings."""
    clean, space_cjk = bert_normalizer(clean_text=True), bert_normalizer(handle_chinese_chars=True)
    strip, lower = bert_normalizer(strip_accents=True), bert_normalizer(lowercase=True)
    decompose, split = normalizers.NFD().normalize_str, pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    members = {name: [] for name in ("drop", "space", "cjk", "punctuation", "mark")}
    lowered, decomposed, moving = {}, {}, []
    for code in range(0x110000):
        if code in SURROGATES:
            continue
        char = chr(code)
        cleaned = clean(f"a{char}b")
        if cleaned in ("ab", "a b"):  # dropped or turned into a space first: no later step sees it
            members["drop" if cleaned == "ab" else "space"].append(code)
            continue
        if space_cjk(char) != char:
            members["cjk"].append(code)
        if len(split(f"a{char}b")) > 1:
            members["punctuation"].append(code)
        if decompose(char) != char and code not in HANGUL:
            decomposed[code] = decompose(char)
        elif strip(char) == "":
            members["mark"].append(code)
        if lower(char) != char:
            lowered[code] = lower(char)
        if decompose(f"\u0345{char}") == f"{char}\u0345" or char == "\u0345":
            moving.append(code)
    return {
        **{name: ranges(codes) for name, codes in members.items()},
        "combining_class": combining_classes(moving, decompose),
        "lower": mapping(lowered),
        "decomposition": mapping(decomposed),
    }


def combining_classes(moving, decompose):
    """Group marks by canonical combining class, in ascending order; only the order of the groups matters."""
    groups = {}
    for char in map(chr, moving):
        rank = sum(char != step and decompose(char + step) == step + char for step in LADDER)
        groups.setdefault(rank, []).append(ord(char))
    return [ranges(groups[rank]) for rank in sorted(groups)]


def ranges(codes):
    """Write sorted code points as `41-5a 61`, hexadecimal."""
    runs = []
    for code in codes:
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return " ".join(f"{first:x}" if first == last else f"{first:x}-{last:x}" for first, last in runs)


def mapping(pairs):
    """Write a mapping as `c0:41+300`, hexadecimal."""
    return " ".join(f"{code:x}:{'+'.join(f'{ord(char):x}' for char in text)}" for code, text in pairs.items())


if __name__ == "__main__":
    TABLES.parent.mkdir(exist_ok=True)
    TABLES.write_text(json.dumps(collect(), indent=1) + "\n", encoding="ascii")
    print(f"{TABLES.relative_to(Path.cwd())}: {TABLES.stat().st_size // 1000} kB")
