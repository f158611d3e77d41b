"""The tokenizer equals the reference, the Rust `tokenizers`, in ids and offsets, and runs wherever TensorFlow does."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import keras
import make_unicode_tables as script
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text
import tokenizers
from unicode_fuzz import random_texts

from keras_bert.text.character_trie import CharacterTable
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.unicode_tables import TextRules, spell

MODES = {  # the options of ours; the reference calls split_cjk handle_chinese_chars
    "uncased": {"lowercase": True},
    "cased": {"lowercase": False},
    "uncased, accents kept": {"lowercase": True, "strip_accents": False},
    "cased, accents stripped, CJK together": {"lowercase": False, "strip_accents": True, "split_cjk": False},
}


def make_reference(vocabulary, lowercase=True, strip_accents=None, split_cjk=True):
    ids = {token: index for index, token in enumerate(vocabulary)}
    model = tokenizers.models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=split_cjk, strip_accents=strip_accents, lowercase=lowercase
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return tokenizer


def find_difference(tokenizer, reference, texts, batch=5000):
    """The first text with other ids or other offsets than the reference's, or None."""
    for start in range(0, len(texts), batch):
        some = texts[start : start + batch]
        results = [tokenizer(some), *tokenizer.tokenize_with_offsets(some)]
        expected = reference.encode_batch(some, add_special_tokens=False)
        for text, wanted, ids, *triple in zip(some, expected, *(r.to_list() for r in results), strict=True):
            found = (ids, triple[0], list(zip(*triple[1:], strict=True)))
            if found != (wanted.ids, wanted.ids, wanted.offsets):
                return {"text": text, "found": found, "expected": (wanted.ids, wanted.offsets)}
    return None


@pytest.fixture(scope="session")
def vocabulary(minilm_dir):
    return (minilm_dir / "vocab.txt").read_bytes().decode().removesuffix("\n").split("\n")


@pytest.fixture(scope="session")
def tokenizer(vocabulary):
    return BertTokenizer(vocabulary)


@pytest.fixture(scope="session")
def reference(vocabulary):
    return make_reference(vocabulary)


# === Exactness ===


@pytest.mark.parametrize("mode", MODES)
def test_equals_the_reference_on_random_unicode(vocabulary, mode):
    texts = random_texts(5000, vocabulary, seed=len(mode))
    ours, theirs = BertTokenizer(vocabulary, **MODES[mode]), make_reference(vocabulary, **MODES[mode])
    assert find_difference(ours, theirs, texts) is None


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_equals_the_reference_on_many_random_texts(vocabulary, mode):
    """`FUZZ_TEXTS=200000 pytest tests/text/test_tokenizer.py` is the long run, for changes of the tokenizer."""
    texts = random_texts(int(os.environ.get("FUZZ_TEXTS", "20000")), vocabulary, seed=2)
    ours, theirs = BertTokenizer(vocabulary, **MODES[mode]), make_reference(vocabulary, **MODES[mode])
    assert find_difference(ours, theirs, texts) is None


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["uncased", "cased"])
def test_equals_the_reference_on_every_character(vocabulary, mode):
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    # A vocabulary that knows a tenth of all characters, so that known ones are tried as well.
    known = [token for char in characters[::10] for token in (char, f"##{char}")]
    vocabulary = list(dict.fromkeys([*vocabulary, *known]))
    texts = [f"a{char}b {char} b{char}\u0301a" for char in characters]
    ours, theirs = BertTokenizer(vocabulary, **MODES[mode]), make_reference(vocabulary, **MODES[mode])
    assert find_difference(ours, theirs, texts, batch=20_000) is None


@pytest.mark.slow
def test_equals_the_reference_on_prose(tokenizer, reference):
    files = sorted(Path(os.__file__).parent.glob("*.py"))[:40]  # Python's own sources: English docs, and code
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(lines) > 10_000
    assert find_difference(tokenizer, reference, lines) is None


def test_equals_the_reference_on_corners(tokenizer, reference):
    texts = [
        *["", " ", "\x00", "a\x00b", "½ ﬁ ß İ", "ΟΔΟΣ ΣΑΣ Σ", "한국어", "caf\u0065\u0301", "👩\u200d👩\u200d👧"],
        *["[CLS] [MASK] ##ing", "x\u302e\u1b44y", "x\u302e\u0e31\u1b44y", "\u1b44", "\U0001d15e\u1b44"],
        *["a" * 100, "a" * 101, "é" * 100, "é" * 101, "ก" * 100, "ก" * 101, "中" * 101, "\u0301" * 200],
        *["a" * 101 + ".", "a" * 50 + "." + "a" * 60, "a" * 100 + "\u0301", "한" * 33 + "a", "한" * 34],
    ]
    assert find_difference(tokenizer, reference, texts) is None


@pytest.mark.parametrize("mode", MODES)
def test_equals_the_reference_with_any_vocabulary(mode):
    chooser = random.Random(mode)

    def scribble(characters, longest):
        return "".join(chooser.choices(characters, k=chooser.randint(0, longest)))

    for _ in range(6):
        words = [scribble("abAB#.é中\u302e한ก", 4) for _ in range(12)]
        suffixes = ["##" + scribble("abAB#.é中\u302e한ก", 4) for _ in range(12)]
        never = ["a b", "\x11", "\ue000", "x" * 300]
        vocabulary = list(dict.fromkeys(["[UNK]", "a", *words, *suffixes, *never]))
        texts = [scribble("abAB#.é中\u302e한กc \u0301", 12) for _ in range(500)]
        ours, theirs = BertTokenizer(vocabulary, **MODES[mode]), make_reference(vocabulary, **MODES[mode])
        assert find_difference(ours, theirs, texts) is None


@pytest.mark.slow
def test_the_tables_are_what_the_reference_says():
    assert script.collect() == json.loads(script.TABLES.read_text("ascii"))


def test_spell_follows_the_rules():
    spelled = {char: spell(char, TextRules()) for char in "Éß½\u0301\x07\u3000。中"}
    assert list(spelled.values()) == ["e", "ß", "½", "", "", " ", " 。 ", " 中 "]
    assert spell("É", TextRules(strip_accents=False)) == "é"
    assert spell("É", TextRules(lowercase=False)) == "E"
    assert spell("中", TextRules(split_cjk=False)) == "中"


def test_character_table_replaces_what_it_is_told():
    table = CharacterTable(malformed="?")
    table.replace(range(ord("a"), ord("d")), "")
    table.replace(range(0x1F600, 0x1F601), "smile")
    table.replace(range(0x0, 0x1), "nul")
    normalizer = tf_text.FastBertNormalizer(model_buffer=tf.constant(table.build()))
    texts = ["abcd é", "x😀😁", "\x00", b"\xc3", b"d\xe2\x82d", b"\xed\xa0\x80", b"\xf0\x9f\x98"]
    expected = ["d é", "xsmile😁", "nul", "?", "d?d", "???", "?"]
    assert [text.decode() for text in normalizer.normalize(texts).numpy()] == expected
    with pytest.raises(ValueError, match="more than 63 bytes"):
        table.replace(range(1), "x" * 64)


# === Offsets ===


def test_offsets_point_at_the_text_of_the_token(tokenizer, vocabulary):
    text = "  The CAFÉ\u0301s' naïve façade — 東京, 1.5!"
    ids, starts, ends = (part.numpy().tolist() for part in tokenizer.tokenize_with_offsets(text))
    for index, start, end in zip(ids, starts, ends, strict=True):
        spelled = "".join(spell(char, TextRules()) for char in text[start:end]).strip()
        assert vocabulary[index].removeprefix("##") == spelled
    covered = "".join(text[start:end] for start, end in zip(starts, ends, strict=True))
    assert covered == "".join(text.split())


def test_byte_offsets_are_the_same_places(tokenizer, vocabulary):
    texts = random_texts(2000, vocabulary, seed=5)
    _, starts, ends = tokenizer.tokenize_with_offsets(texts)
    ids, byte_starts, byte_ends = tokenizer.tokenize_with_offsets(texts, unit="byte")
    assert ids.to_list() == tokenizer(texts).to_list()
    for row in zip(texts, *(part.to_list() for part in (starts, ends, byte_starts, byte_ends)), strict=True):
        text, data = row[0], row[0].encode()
        assert [text[:start].encode() for start in row[1]] == [data[:start] for start in row[3]]
        assert [text[:end].encode() for end in row[2]] == [data[:end] for end in row[4]]


# === Shapes ===


def test_every_shape_of_input(tokenizer):
    one, two, three = (tokenizer(text).numpy().tolist() for text in ("hello", "big world", "x" * 101))
    assert one == [7592]
    assert three == [tokenizer.unk_id]
    texts = ["hello", "big world", "x" * 101]
    for given in (texts, tuple(texts), np.array(texts), np.array(texts, object), tf.constant(texts)):
        assert tokenizer(given).to_list() == [one, two, three]
        assert tokenizer(given).dtype == tf.int32
    nested = [["hello", "big world"], ["x" * 101]]
    for given in (nested, tf.ragged.constant(nested), tf.ragged.constant(nested, row_splits_dtype=tf.int32)):
        assert tokenizer(given).to_list() == [[one, two], [three]]
    assert tokenizer(tf.constant([[["hello", "big world"]]])).to_list() == [[[one, two]]]
    pairs = tf.RaggedTensor.from_row_splits(tf.constant([["hello", "big world"]]), [0, 1])
    assert tokenizer(pairs).to_list() == [[[one, two]]]
    assert tokenizer([]).to_list() == []
    assert tokenizer(tf.constant("hello")).shape == [1]
    assert [part.numpy().tolist() for part in tokenizer.tokenize_with_offsets("")] == [[], [], []]
    assert tokenizer.tokenize_with_offsets(nested)[2].to_list() == [[[5], [3, 9]], [[101]]]


def test_tokens_are_the_strings_of_the_ids(tokenizer):
    assert tokenizer.tokens("unaffable!").numpy().tolist() == [b"una", b"##ffa", b"##ble", b"!"]
    assert tokenizer.tokens([["Hi"]]).to_list() == [[[b"hi"]]]


# === In the graph ===

HARD = ["Hello, world!", "x\u302e\u1b44y é", "", "a" * 101, "中文 [CLS]"]


def test_tf_function_and_tf_data(tokenizer):
    expected = tokenizer(HARD).to_list()
    texts = tf.constant(HARD)
    assert tf.function(tokenizer)(texts).to_list() == expected
    dataset = tf.data.Dataset.from_tensor_slices(texts)
    assert [ids.numpy().tolist() for ids in dataset.map(tokenizer)] == expected
    batched = dataset.batch(2).map(tokenizer.tokenize_with_offsets, num_parallel_calls=2)
    assert [row for ids, _, _ in batched for row in ids.to_list()] == expected
    eager = tokenizer.tokenize_with_offsets(HARD)
    traced = tf.function(tokenizer.tokenize_with_offsets)(texts)
    assert [part.to_list() for part in traced] == [part.to_list() for part in eager]


def test_needs_no_op_that_stock_tf_serving_lacks(tokenizer):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def everything(texts):
        ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
        return tokenizer(texts), starts, ends, tokenizer.detokenize(ids, skip_special_tokens=True)

    graph = everything.get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    extra = {node.op for node in nodes if not hasattr(tf.raw_ops, node.op)}
    functions = {function.signature.name for function in graph.library.function}
    assert extra - functions == {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}
    assert not {node.op for node in nodes if re.search("HashTable|PyFunc|Variable|VarHandle", node.op)}


@pytest.mark.slow
def test_saved_model_runs_without_this_package(tokenizer, tmp_path):
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(texts):
        ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
        dense = {"ids": ids, "starts": starts, "ends": ends}
        dense = {name: part.to_tensor(default_value=-1) for name, part in dense.items()}
        return {**dense, "text": tokenizer.detokenize(ids)}

    module.serve = serve
    tf.saved_model.save(module, str(tmp_path / "model"), signatures={"serving_default": serve})
    script = (
        "import json, sys, tensorflow as tf, tensorflow_text\n"
        "serve = tf.saved_model.load('model').signatures['serving_default']\n"
        "assert not any(name.startswith('keras_bert') for name in sys.modules)\n"
        "result = serve(texts=tf.constant(json.load(open('texts.json'))))\n"
        "result['text'] = tf.strings.unicode_decode(result['text'], 'UTF-8').to_tensor()\n"
        "print(json.dumps({name: part.numpy().tolist() for name, part in result.items()}))\n"
    )
    (tmp_path / "texts.json").write_text(json.dumps(HARD))
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[-1])
    here = serve(tf.constant(HARD))
    assert loaded["ids"] == here["ids"].numpy().tolist()
    assert loaded["starts"] == here["starts"].numpy().tolist()
    assert loaded["ends"] == here["ends"].numpy().tolist()
    assert "".join(map(chr, loaded["text"][0])).rstrip("\x00") == "hello , world !"


# === Ids to text ===


def test_detokenize_equals_the_reference(tokenizer, reference, vocabulary):
    decoder = tokenizers.decoders.WordPiece(prefix="##", cleanup=False)
    rows = [[], [1], *(e.ids for e in reference.encode_batch(random_texts(500, vocabulary, seed=9)))]
    texts = [text.decode() for text in tokenizer.detokenize(tf.ragged.constant(rows)).numpy()]
    assert texts == [decoder.decode([vocabulary[index] for index in row]) for row in rows]


def test_detokenize_and_back(tokenizer):
    ids = tokenizer("Unaffable friends, re-tokenizing!")
    text = tokenizer.detokenize(ids)
    assert text.shape == []
    assert text.numpy() == b"unaffable friends , re - token ##izing !".replace(b" ##", b"")
    assert tokenizer(text).numpy().tolist() == ids.numpy().tolist()


def test_detokenize_shapes_and_special_tokens(tokenizer):
    cls, sep, pad, hello = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, tokenizer.token_to_id("hello")
    rows = [[cls, hello, sep, pad], [pad, pad, pad, pad]]
    assert tokenizer.detokenize(rows).numpy()[0] == b"[CLS] hello [SEP] [PAD]"
    for given in (rows, tf.constant(rows), tf.constant(rows, tf.int64), np.array(rows)):
        assert tokenizer.detokenize(given, skip_special_tokens=True).numpy().tolist() == [b"hello", b""]
    assert tokenizer.detokenize([rows], skip_special_tokens=True).to_list() == [[b"hello", b""]]
    assert tokenizer.detokenize([]).numpy() == b""


# === Vocabulary and config ===


def test_vocabulary_and_special_ids(tokenizer, vocabulary):
    assert tokenizer.vocabulary == vocabulary
    assert tokenizer.vocabulary_size == 30522
    special = (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
    assert special == (0, 100, 101, 102, 103)
    assert tokenizer.id_to_token(tokenizer.token_to_id("hello")) == "hello"
    assert BertTokenizer(["<unk>", "a"], unknown_token="<unk>")("b a").numpy().tolist() == [0, 1]


def test_a_vocabulary_without_words_knows_no_word():
    assert BertTokenizer(["[PAD]", "[UNK]"])("what? [PAD]").numpy().tolist() == [1] * 5


def test_special_tokens_in_a_text_are_plain_text(tokenizer):
    special = {tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id, tokenizer.pad_id}
    assert special.isdisjoint(tokenizer("[CLS] [SEP] [MASK] [PAD] [CLS][SEP]").numpy().tolist())


def test_from_a_file_and_back(tokenizer, minilm_dir, tmp_path):
    path = tmp_path / "new" / "vocab.txt"
    BertTokenizer(minilm_dir / "vocab.txt").save_vocabulary(path)
    assert path.read_bytes() == (minilm_dir / "vocab.txt").read_bytes()
    assert BertTokenizer(str(path)).vocabulary == tokenizer.vocabulary


def test_config_makes_the_same_tokenizer():
    made = BertTokenizer(["?", "É", "e"], lowercase=False, strip_accents=True, split_cjk=False, unknown_token="?")
    config = json.loads(json.dumps(made.get_config()))
    again = BertTokenizer.from_config(config)
    assert again.get_config() == made.get_config()
    assert again(["é 中", "É"]).to_list() == made(["é 中", "É"]).to_list() == [[2, 0], [0]]
    through_keras = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(made))
    assert through_keras.get_config() == made.get_config()


# === Bad input ===


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("a\ud800b", r"lone surrogate, '\\ud800', at character 1"),
        (["fine", ["nested", "\udfff"]], "lone surrogate"),
        (np.array(["\ud800"]), "lone surrogate"),
        (5, "'5', of type int.*pass a string"),
        (None, "of type NoneType"),
        (["a", None], "of type NoneType"),
        (tf.constant([1]), "tensor of int32; pass a tensor of strings"),
    ],
)
def test_what_is_not_text_is_refused(tokenizer, texts, message):
    with pytest.raises(ValueError, match=message):
        tokenizer(texts)
    with pytest.raises(ValueError, match=message):
        tokenizer.tokenize_with_offsets(texts)


@pytest.mark.parametrize("broken", [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xc3\xe2\x80\x8d\xa9"])
def test_bytes_that_are_not_utf8_are_refused(tokenizer, broken):
    for run in (tokenizer, tf.function(tokenizer), tokenizer.tokenize_with_offsets):
        with pytest.raises(tf.errors.InvalidArgumentError, match="not valid UTF-8.*unicode_transcode"):
            run(tf.constant([b"fine", broken]))


def test_unknown_rank_is_refused(tokenizer):
    traced = tf.function(tokenizer, input_signature=[tf.TensorSpec(None, tf.string)])
    with pytest.raises(ValueError, match="unknown rank"):
        traced(tf.constant("a"))


def test_wrong_arguments_are_refused(tokenizer, tmp_path):
    with pytest.raises(ValueError, match="unit='word'; pass 'char'"):
        tokenizer.tokenize_with_offsets("a", unit="word")
    with pytest.raises(ValueError, match="'qqq' is not one of the 30522 tokens"):
        tokenizer.token_to_id("qqq")
    with pytest.raises(ValueError, match="index=30522: expected an id from 0 to 30521"):
        tokenizer.id_to_token(30522)
    with pytest.raises(ValueError, match="index=-1: expected an id"):
        tokenizer.id_to_token(-1)
    with pytest.raises(ValueError, match="ids are float32"):
        tokenizer.detokenize([1.0])
    with pytest.raises(ValueError, match=r"'\[MASK\]' is not one of"):
        _ = BertTokenizer(["[UNK]", "a"]).mask_id
    with pytest.raises(FileNotFoundError, match="No vocabulary file"):
        BertTokenizer(tmp_path / "none.txt")
    with pytest.raises(FileNotFoundError, match=r"pass .*vocab\.txt"):
        BertTokenizer(tmp_path)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["a", "b"], r"unknown_token='\[UNK\]' is not among the 2 tokens"),
        ([], "not among the 0 tokens"),
        (["[UNK]", "a", "a"], "Tokens 1 and 2 of the vocabulary are both 'a'"),
        (["[UNK]", 7], "Token 1 of the vocabulary is '7', of type int"),
        (["[UNK]", b"a"], "Token 1 of the vocabulary is b'a'"),
        (["[UNK]", "\ud800"], "Token 1 of the vocabulary is a lone surrogate"),
        (["[UNK]", "中" * 90], "Token 1.*over 256 bytes"),
    ],
)
def test_wrong_vocabularies_are_refused(tokens, message):
    with pytest.raises(ValueError, match=message):
        BertTokenizer(tokens)
