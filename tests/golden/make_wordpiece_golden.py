"""Writes what our tokenizer makes of texts that tokenizers trip over: the oracle of the JavaScript and Kotlin ones.

    python -m tests.golden.make_wordpiece_golden        # 10 seconds; writes tests/golden/wordpiece.json

The vocabulary is small and in the file. `tests/project/test_web.py` asks our tokenizer and the reference (the Rust
`tokenizers`) again, so that they cannot drift apart.
"""

import json
from pathlib import Path

from unicode_fuzz import random_texts

from keras_bert.text.tokenizer import BertTokenizer

GOLDEN = Path(__file__).with_name("wordpiece.json")
TOKENS = """
    [PAD] [UNK] [CLS] [SEP] [MASK]
    the a film plot was is very good bad dull great not un café Café cafe caf Berlin BERLIN berlin naive
    ##s ##ing ##able ##e ##é ##aff ##a ##b ##x ##σ ##ς ##ß ##1 ##5 ##中 ##국 ##어 ##\u0301 ##\u302e ##\u1b44
    ! " # $ ' ( ) , - . / : ; ? @ [ ] ^ _ ` { | } ~ 。 、 “ ” … — · « § ৲
    b c e E é x X i ı İ ß ẞ ½ ﬁ fi σ ς Σ ο о К к k ω å ä 1 5 中 国 語 豈 更 한 국 \u1112 \u1161 ##\u1161 ##\u11ab ア
    \u302e \u1b44 \u0301 \u0e31 ก ##ก 😀 👍 ##🏽 👩 🇩 ##🇪 \U00020000 \U00030000 \U0001e900 \U0001e922 Ა ა Ꭰ ꭰ \u0600
"""
VOCABULARY = TOKENS.split()
TEXTS = [
    *["", " ", "The film was very good!", "UNAFFABLE films, the plots.", "good-bad (dull)... 'great'?", "$5.15"],
    *["Café CAFÉ cafe\u0301 naïve", "BERLIN Berlin berlin", "½ ﬁ ß ẞ İ ı i\u0307", "ΟΔΟΣ ΣΑΣ Σ ος"],
    *["К k \u212a Ω \u2126", "中国語 a中b 豈更", "한국어 \u1112\u1161\u11ab", "アイ", "\U00020000\U00030000x"],
    *["国。、“good”…—·«§", "😀👍🏽 👩\u200d👩 🇩🇪", "a\x00b\ufffdc\x07", "a\u00a0b\u3000c\u2028e\tx\r\n1"],
    *["a\u200bb\u00adc\ufeffe\u061c x", "\ue000\U000f0000a", "[CLS] [MASK] ##ing [unk]", "## # ###a"],
    *["a" * 100, "a" * 101, "é" * 100, "é" * 101, "ก" * 100, "中" * 101, "a" * 50 + "." + "a" * 60],
    *["a" * 100 + "\u0301", "x\u302e\u1b44x", "x\u302e\u0e31\u1b44x", "x\u1b44\u302ex", "\u0301" * 200],
    *["\U0001d15e\u1b44", "e\u0327\u0301 e\u0301\u0327", "\u0344a \u0f73", "\U0001e900 Ა Ꭰ ა ꭰ", "\u06001 ৲5"],
    *["a^b`c~1|5=+<>", "not un##able", "unable unaffable unaff", "goodness", "the\u2009film\u202fis\u205fgood"],
]
MODES = [
    {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True},
    {"do_lower_case": False, "strip_accents": None, "tokenize_chinese_chars": True},
    {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": True},
    {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
]


def make_tokenizer(vocabulary: list[str], rules: dict) -> BertTokenizer:
    """Our tokenizer, by the names that metadata and Hugging Face use."""
    options = {"lowercase": rules["do_lower_case"], "split_cjk": rules["tokenize_chinese_chars"]}
    return BertTokenizer(vocabulary, strip_accents=rules["strip_accents"], **options)


def main() -> None:
    texts = [*TEXTS, *random_texts(120, VOCABULARY, seed=11)]
    modes = [{"rules": rules, "ids": make_tokenizer(VOCABULARY, rules)(texts).to_list()} for rules in MODES]
    lines = [json.dumps(text) for text in texts]
    content = {"vocabulary": VOCABULARY, "modes": modes}
    golden = json.dumps(content)[:-1] + ', "texts": [\n' + ",\n".join(lines) + "\n]}\n"
    GOLDEN.write_text(golden, encoding="ascii")
    known = sum(index != 1 for mode in modes for row in mode["ids"] for index in row)
    total = sum(len(row) for mode in modes for row in mode["ids"])
    print(f"{GOLDEN.name}: {len(texts)} texts, {len(modes)} modes, {known} of {total} tokens known")


if __name__ == "__main__":
    main()
