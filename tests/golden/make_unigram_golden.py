"""Writes what SentencePiece makes of texts that tokenizers trip over: the oracle of all our Unigram tokenizers.

    pip install sentencepiece
    python -m tests.golden.make_unigram_golden        # 10 seconds; writes tests/golden/unigram.json

Two small models, with and without bytes for unknown characters, are trained on a few words and kept in the file. Their
character map is a part of NFKC, so that it is small, with strings of several characters as keys.

The SentencePiece in tensorflow-text compares sums of scores with more bits than newer ones, so of two paths with the
same pieces in another order it may take the other. Texts on which the two differ are left out, and counted.
"""

import base64
import io
import itertools
import json
import tempfile
import unicodedata
from pathlib import Path

import sentencepiece
import tensorflow_text as tf_text
from unicode_fuzz import random_texts

from tests.golden.make_wordpiece_golden import TEXTS as OTHERS
from tests.golden.make_wordpiece_golden import VOCABULARY as WORDS

GOLDEN = Path(__file__).with_name("unigram.json")
TEXTS = [
    *OTHERS,
    *["<s> </s> <pad> <mask> <unk> <0x41>", "\u2581a \u2581", "  two  spaces ", "\ta\nb\r\n", "a\u3000b", "\u00ad"],
    *["——————————————", "aaaaaaaaaaaaa", "ababababab", "½⅓ ﬁﬂ ㍻㎏", "e\u0301e\u0301\u0327 A\u030a", "😀😀 👍🏽"],
]
SPACES = [0x09, 0x0A, 0x0D, 0xA0, 0x2009, 0x200B, 0x2028, 0x202F, 0x205F, 0x3000]
DROPPED = [*range(1, 9), 0xAD, 0xFEFF]


def rules() -> str:
    """Lines of `code points<tab>code points`."""
    found = {(code,): [0x20] for code in SPACES} | {(code,): [] for code in DROPPED}
    for code in {*range(0x80, 0x250), *range(0x3300, 0x33FF), *(ord(char) for text in TEXTS for char in text)}:
        composed = unicodedata.normalize("NFKC", chr(code))
        parts = unicodedata.normalize("NFD", chr(code))
        if composed != chr(code) and "\x00" not in composed:
            found.setdefault((code,), [ord(char) for char in composed])
        if len(parts) > 1 and unicodedata.normalize("NFC", parts) == chr(code) and code < 0x250:
            found[tuple(map(ord, parts))] = [code]
    return "".join(
        " ".join(f"{code:X}" for code in source) + "\t" + " ".join(f"{code:X}" for code in target) + "\n"
        for source, target in sorted(found.items())
    )


def train(**options) -> bytes:
    texts = [text.replace("\x00", "") for text in TEXTS] + [" ".join(WORDS[i:] + WORDS[:i]) for i in range(40)]
    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rules.tsv"
        path.write_text(rules(), encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type="unigram",
            normalization_rule_tsv=str(path),
            character_coverage=0.98,
            hard_vocab_limit=False,
            num_threads=1,
            minloglevel=2,
            **options,
        )
    return model.getvalue()


def main() -> None:
    texts = TEXTS + random_texts(120, WORDS, seed=5)
    models = [train(vocab_size=300), train(vocab_size=560, byte_fallback=True)]
    ids, agree = [], [True] * len(texts)
    for model in models:
        ids.append(sentencepiece.SentencePieceProcessor(model_proto=model).encode(texts))
        others = tf_text.SentencepieceTokenizer(model=model).tokenize(texts).to_list()
        agree = [same and one == other for same, one, other in zip(agree, ids[-1], others, strict=True)]
    rows = [{"model": base64.b64encode(model).decode(), "ids": list(itertools.compress(found, agree))}
            for model, found in zip(models, ids, strict=True)]  # fmt: skip
    kept = list(itertools.compress(texts, agree))
    GOLDEN.write_text(json.dumps({"texts": kept, "models": rows}) + "\n", "ascii")
    print(f"{GOLDEN.name}: {len(kept)} of {len(texts)} texts, {GOLDEN.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
