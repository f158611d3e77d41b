"""Vocabularies: read and written without a byte changed, learned the same every time and in bounded memory."""

import gzip
import random
import subprocess
import sys

import pytest
from places import ROOT

from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.unigram import UnigramTokenizer
from keras_bert.text.vocabulary import SPECIAL_TOKENS, learn_vocabulary, read_vocabulary, write_vocabulary

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]


def write_corpus(path, size, seed=0):
    """Write `size` bytes of made-up words, frequent ones and rare ones, a paragraph a line."""
    chooser = random.Random(seed)
    words = ["".join(chooser.choices(SYLLABLES, k=chooser.randint(1, 4))) for _ in range(20_000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    with open(path, "w", encoding="utf-8") as file:
        while file.tell() < size:
            line = " ".join(chooser.choices(words, weights, k=500)).capitalize()
            file.write(f"{line}, é 中文.\n")
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus") / "a.txt", 300_000)


def learn_elsewhere(files, size, **options):
    """Learn in a process of its own; return the tokens and the peak memory in megabytes."""
    script = (
        "import pathlib, re, sys\n"
        "from keras_bert.text.vocabulary import learn_vocabulary\n"
        f"tokens = learn_vocabulary({[str(file) for file in files]!r}, {size}, progress=False, **{options!r})\n"
        "sys.stdout.reconfigure(encoding='utf-8')\n"
        "print('\\n'.join(tokens))\n"
        # Not ru_maxrss, which a child takes over from the process that started it.
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "print(int(re.search(r'VmHWM:\\s*(\\d+) kB', status)[1]) // 1000)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    *tokens, peak = done.stdout.splitlines()
    return tokens, int(peak)


# === Files ===


def test_write_and_read(tmp_path):
    tokens = ["[UNK]", "a", "\u2028", "\x85", " ", "", "##é", "\u3000"]
    write_vocabulary(tokens, tmp_path / "vocab.txt")
    assert (tmp_path / "vocab.txt").read_bytes() == "".join(f"{token}\n" for token in tokens).encode()
    assert read_vocabulary(tmp_path / "vocab.txt") == tokens
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.txt"]


def test_read_windows_line_ends(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\r\na\r\n##b")
    assert read_vocabulary(tmp_path / "vocab.txt") == ["[UNK]", "a", "##b"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "vocab.txt"
    write_vocabulary(["[UNK]"], path)
    with pytest.raises(ValueError, match=r"Token 1 is 'a\\nb'"):
        write_vocabulary(["[UNK]", "a\nb"], path)
    with pytest.raises(UnicodeEncodeError):
        write_vocabulary(["[UNK]", "\ud800"], path)
    assert read_vocabulary(path) == ["[UNK]"]
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.txt"]
    with pytest.raises(IsADirectoryError, match="is a directory"):
        write_vocabulary(["[UNK]"], tmp_path)


def test_a_file_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not UTF-8 text"):
        read_vocabulary(tmp_path / "vocab.txt")


# === Learning ===


def test_learns_tokens_that_spell_the_corpus(corpus):
    tokens = learn_vocabulary(corpus, 600, progress=False)
    assert len(tokens) == len(set(tokens)) == 600
    assert tuple(tokens[:5]) == SPECIAL_TOKENS
    assert "##中" not in tokens  # a word of its own, never within one
    assert "##," not in tokens
    text = corpus.read_text(encoding="utf-8")
    tokenizer = BertTokenizer(tokens)
    ids = tokenizer(text).numpy().tolist()
    assert tokenizer.unk_id not in ids
    assert len(ids) < len(text) / 2


def test_learning_twice_gives_the_same_list(corpus):
    here = learn_vocabulary([corpus], 600, progress=False)
    assert learn_elsewhere([corpus], 600)[0] == learn_elsewhere([corpus], 600)[0] == here


def test_compressed_files_patterns_and_options(corpus, tmp_path):
    text = corpus.read_text(encoding="utf-8")
    middle = text.index("\n", len(text) // 2) + 1
    (tmp_path / "1.txt").write_text(text[:middle], encoding="utf-8")
    with gzip.open(tmp_path / "2.txt.gz", "wt", encoding="utf-8") as file:
        file.write(text[middle:])
    expected = learn_vocabulary(corpus, 600, progress=False)
    assert learn_vocabulary(str(tmp_path / "*.txt*"), 600, progress=False) == expected
    cased = learn_vocabulary(corpus, 600, lowercase=False, special_tokens=["[UNK]"], progress=False)
    assert cased[0] == "[UNK]"
    assert {"é", "B"} <= set(cased)
    assert not {"é", "B"} & set(expected)


def test_progress_is_shown_where_somebody_looks_on(corpus, capsys, monkeypatch):
    learn_vocabulary(corpus, 600)
    assert not capsys.readouterr().err  # a log file
    monkeypatch.setattr("keras_bert.system.progress.is_watched", lambda stream: True)
    learn_vocabulary(corpus, 600)
    shown = capsys.readouterr().err
    assert "counting characters: 100%" in shown
    assert "counting words: 100%" in shown
    assert "B/s" in shown


def test_a_text_without_line_ends_is_no_problem(tmp_path):
    (tmp_path / "one.txt").write_text("word " * 50_000 + "x" * 70_000)
    assert "word" in learn_vocabulary(tmp_path / "one.txt", 50, progress=False)


def test_a_sample_is_drawn_evenly_and_by_seed(tmp_path):
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(f"{'abcd'[number] * 4} " * 400_000)
    files = sorted(tmp_path.glob("*.txt"))
    tokens = learn_vocabulary(files, 40, limit_bytes=4_000_000, progress=False)
    assert {"aaaa", "bbbb", "cccc", "dddd"} <= set(tokens)

    corpora = [write_corpus(tmp_path / f"corpus{seed}.txt", 1_000_000, seed) for seed in (1, 2)]
    first, second, again = (
        learn_vocabulary(corpora, 2000, limit_bytes=300_000, seed=seed, progress=False) for seed in (1, 2, 1)
    )
    assert first == again
    assert first != second


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path):
    chooser = random.Random(0)
    paths = [tmp_path / f"{number}.txt" for number in range(10)]
    for path in paths:  # hardly a word twice: the worst there is for a trainer that counts words
        path.write_text(" ".join(f"{chooser.getrandbits(40):x}" for _ in range(50_000)))
    once = learn_elsewhere(paths[:1], 300, limit_bytes=500_000)[1]
    tenfold = learn_elsewhere(paths, 300, limit_bytes=500_000)[1]
    unbounded = learn_elsewhere(paths, 300)[1]
    assert tenfold < once * 1.5
    assert unbounded > tenfold * 2  # the bound is what did it


# === Bad input ===


def test_bad_corpora_are_refused(corpus, tmp_path):
    with pytest.raises(FileNotFoundError, match="No file matches .*none"):
        learn_vocabulary(tmp_path / "none*.txt", 600)
    with pytest.raises(ValueError, match="Got no files"):
        learn_vocabulary([], 600)
    (tmp_path / "empty.txt").write_text(" \n\t")
    with pytest.raises(ValueError, match=r"no text in 1 file\(s\)"):
        learn_vocabulary(tmp_path / "empty.txt", 600, progress=False)
    (tmp_path / "latin.txt").write_bytes("café ".encode("latin-1") * 10)
    with pytest.raises(ValueError, match=r"latin\.txt is not complete UTF-8 text"):
        learn_vocabulary(tmp_path / "latin.txt", 600, progress=False)
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(corpus.read_bytes())[:1000])
    with pytest.raises(ValueError, match=r"cut\.txt\.gz is not complete"):
        learn_vocabulary(tmp_path / "cut.txt.gz", 600, progress=False)


def test_bad_sizes_and_special_tokens_are_refused(corpus):
    with pytest.raises(ValueError, match=r"size=20 is too small: 5 special tokens and \d+ characters.*need \d+"):
        learn_vocabulary(corpus, 20, progress=False)
    assert len(learn_vocabulary(corpus, 20, limit_alphabet=7, progress=False)) == 20
    with pytest.raises(ValueError, match=r"'\[UNK\]' among them"):
        learn_vocabulary(corpus, 600, special_tokens=["[PAD]"])
    with pytest.raises(ValueError, match="expected different tokens"):
        learn_vocabulary(corpus, 600, special_tokens=["[UNK]", "[UNK]"])


# === Unigram ===


def test_a_unigram_vocabulary_is_learned(tmp_path):
    pytest.importorskip("sentencepiece")
    path = tmp_path / "corpus.txt"
    path.write_text("the film was good\nthe plot was bad\n" * 60 + "a " * 3000, encoding="utf-8")
    model = learn_vocabulary(path, 60, kind="unigram", progress=False)
    assert model.tokens[:4] == ("<s>", "<pad>", "</s>", "<unk>") and model.tokens[-1] == "<mask>"
    assert 20 < len(model.tokens) <= 60
    assert learn_vocabulary(path, 60, kind="unigram", progress=False).to_bytes() == model.to_bytes()
    tokenizer = UnigramTokenizer(model)
    assert tokenizer.detokenize(tokenizer(["the plot was good"])).numpy()[0] == b"the plot was good"
    spelled = learn_vocabulary(path, 320, kind="unigram", byte_fallback=True, progress=False)
    assert tokenizer.unk_id not in UnigramTokenizer(spelled)("\u4e2d").numpy()
    with pytest.raises(ValueError, match="No vocabulary of 8 pieces can be learned"):
        learn_vocabulary(path, 8, kind="unigram", progress=False)
    with pytest.raises(ValueError, match="kind='bpe'; choose 'wordpiece' or 'unigram'"):
        learn_vocabulary(path, 60, kind="bpe")
