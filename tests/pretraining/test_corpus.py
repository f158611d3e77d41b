"""Text files → shards → examples: the same bytes however it is done, nothing lost, and words that help."""

import bz2
import gzip
import importlib.util
import json
import random
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from keras_bert.pretraining.corpus import documents
from keras_bert.pretraining.corpus.writing import CorpusError, load_manifest, read_examples, write_examples
from keras_bert.text.tokenizer import BertTokenizer

WORDS = [f"w{chr(97 + first)}{chr(97 + second)}" for first in range(20) for second in range(20)]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "."]


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(VOCABULARY)


def make_text(count, seed=0, sentences=12):
    rng = random.Random(seed)
    sentence = lambda: " ".join(rng.choices(WORDS, k=rng.randint(3, 15))).capitalize() + "."  # noqa: E731
    return "\n\n".join(" ".join(sentence() for _ in range(rng.randint(1, sentences))) for _ in range(count)) + "\n"


def read_bytes(directory):
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def read_rows(directory, **options):
    return [
        (tuple(row["token_ids"].numpy()), int(row["next_sentence_label"]))
        for row in read_examples(directory, **options)
    ]


QUIET = {"workers": 1, "progress": False, "sequence_length": 32}

# === What comes out ===


def test_examples_are_pairs_of_the_corpus(tmp_path, tokenizer):
    (tmp_path / "a.txt").write_text(make_text(300))
    manifest = write_examples(tmp_path / "a.txt", tmp_path / "out", tokenizer, **QUIET)
    rows = list(read_examples(tmp_path / "out", tokenizer=tokenizer, sequence_length=32))
    assert len(rows) == manifest.examples > 900
    assert sum(len(row["token_ids"]) for row in rows) == manifest.tokens
    assert manifest.counts["documents"] == 300
    assert 0 < manifest.counts["unused_tokens"] < 0.2 * manifest.counts["text_tokens"]  # trimmed, as in the original
    labels = [int(row["next_sentence_label"]) for row in rows]
    assert sum(labels) == manifest.counts["random_or_swapped"]
    for row in rows:
        ids, segments = row["token_ids"].numpy().tolist(), row["segment_ids"].numpy().tolist()
        assert len(ids) <= 32 and ids[0] == 2 and ids[-1] == 3 and ids.count(3) == 2
        assert segments == [0] * (ids.index(3) + 1) + [1] * (len(ids) - ids.index(3) - 1)
        assert 1 not in ids  # every word is known, so an unknown token would be a wrong cut


def test_a_next_sentence_follows_and_a_random_one_is_of_another_document(tmp_path, tokenizer):
    texts = make_text(200).split("\n\n")
    (tmp_path / "a.txt").write_text("\n\n".join(texts))
    write_examples(tmp_path / "a.txt", tmp_path / "out", tokenizer, **QUIET)
    known = [" " + " ".join(map(str, tokenizer(text).numpy())) + " " for text in texts]
    found = {0: 0, 1: 0}
    for ids, label in read_rows(tmp_path / "out"):
        end = ids.index(3)
        first, second = (" " + " ".join(map(str, part)) + " " for part in (ids[1:end], ids[end + 1 : -1]))
        homes = {number for number, text in enumerate(known) if first in text}
        second_homes = {number for number, text in enumerate(known) if second in text}
        assert homes and second_homes
        if len(homes) == len(second_homes) == 1:
            assert (homes == second_homes) == (label == 0)
            found[label] += 1
    assert min(found.values()) > 100


def test_reading_gives_ragged_batches_in_an_order_of_the_seed(tmp_path, tokenizer):
    (tmp_path / "a.txt").write_text(make_text(200))
    write_examples(tmp_path / "a.txt", tmp_path / "out", tokenizer, shard_bytes=1 << 14, **QUIET)
    rows, again, other = (read_rows(tmp_path / "out", seed=seed) for seed in (1, 1, 2))
    assert rows == again and rows != other and sorted(rows) == sorted(other)
    batches = list(read_examples(tmp_path / "out", seed=1, batch_size=7))
    flat = [tuple(row) for batch in batches for row in batch["token_ids"].to_list()]
    assert flat == [ids for ids, _ in rows]
    assert batches[0]["token_ids"].dtype == batches[0]["segment_ids"].dtype == tf.int32
    dataset = read_examples(tmp_path / "out")
    first, second = ([row["token_ids"].numpy().tolist() for row in dataset] for _ in range(2))
    assert first != second and sorted(first) == sorted(second)  # another order in the next epoch


@pytest.mark.parametrize("count", [2, 500])
def test_several_readers_share_the_examples(tmp_path, tokenizer, count):
    (tmp_path / "a.txt").write_text(make_text(200))
    manifest = write_examples(tmp_path / "a.txt", tmp_path / "out", tokenizer, shard_bytes=1 << 14, **QUIET)
    assert 2 < len(manifest.shards) < 500
    parts = [read_rows(tmp_path / "out", shard_index=index, shard_count=count) for index in range(0, count, count // 2)]
    if count == 2:
        assert sorted(parts[0] + parts[1]) == sorted(read_rows(tmp_path / "out"))
    assert not set(parts[0]) & set(parts[1])


# === The same bytes, whatever happens ===


def test_packed_files_and_jsonl_give_the_same_examples(tmp_path, tokenizer):
    text = make_text(100)
    lines = [json.dumps({"body": document}) for document in text.split("\n\n")]
    sources = {
        "a.txt": text.encode(),
        "a.txt.gz": gzip.compress(text.encode()),
        "a.txt.bz2": bz2.compress(text.encode()),
    }
    sources |= {"a.jsonl": "\n".join(lines).encode(), "crlf.txt": text.replace("\n", "\r\n").encode()}
    if importlib.util.find_spec("zstandard"):
        import zstandard

        sources["a.txt.zst"] = zstandard.compress(text.encode())
    shards = set()
    for name, data in sources.items():
        (tmp_path / name).write_bytes(data)
        write_examples(tmp_path / name, tmp_path / f"out-{name}", tokenizer, text_field="body", **QUIET)
        shards.add((tmp_path / f"out-{name}" / "shard-00000-00000.tfrecord").read_bytes())
    assert len(shards) == 1


SCRIPT = """
import sys
from keras_bert.pretraining.corpus.writing import write_examples
if __name__ == "__main__":
    files, out, vocabulary, workers = sys.argv[1:]
    write_examples(files, out, vocabulary, sequence_length=32, shard_bytes=1 << 14, workers=int(workers))
"""


@pytest.mark.slow
def test_killed_and_started_again_gives_the_same_bytes_with_any_number_of_workers(tmp_path, tokenizer):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(make_text(300, seed=ord(name)))
    tokenizer.save_vocabulary(tmp_path / "vocab.txt")
    (tmp_path / "run.py").write_text(SCRIPT)
    out, files = tmp_path / "out", str(tmp_path / "[abc].txt")
    command = [sys.executable, tmp_path / "run.py", files, out, tmp_path / "vocab.txt"]
    process = subprocess.Popen([*map(str, command), "2"], stderr=subprocess.DEVNULL)
    while process.poll() is None and len(list(out.glob("*.tfrecord"))) < 3:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL and not (out / "manifest.json").exists()
    (out / "shard-00000-00001.tfrecord.123.partial").write_bytes(b"half")
    manifest = write_examples(files, out, tokenizer, shard_bytes=1 << 14, **QUIET)
    write_examples(files, tmp_path / "whole", tokenizer, shard_bytes=1 << 14, **QUIET)
    assert len(manifest.shards) > 10
    assert read_bytes(out) == read_bytes(tmp_path / "whole")


class Killed(BaseException):
    """Like SIGKILL, it runs no handler that would tidy up."""


def test_stopped_before_any_step_on_disk_and_started_again_gives_the_same_bytes(tmp_path, tokenizer, monkeypatch):
    (tmp_path / "a.txt").write_text(make_text(60))
    settings = {"shard_bytes": 1 << 13, **QUIET}
    write_examples(tmp_path / "a.txt", tmp_path / "whole", tokenizer, **settings)
    rename, stops = tf.io.gfile.rename, 0
    for last in range(100):
        renamed = []

        def rename_a_few(*arguments, renamed=renamed, last=last, **options):
            if len(renamed) == last:
                raise Killed
            renamed.append(rename(*arguments, **options))

        out = tmp_path / f"out{last}"
        monkeypatch.setattr(tf.io.gfile, "rename", rename_a_few)
        try:
            write_examples(tmp_path / "a.txt", out, tokenizer, **settings)
            break
        except Killed:
            stops += 1
        monkeypatch.setattr(tf.io.gfile, "rename", rename)
        write_examples(tmp_path / "a.txt", out, tokenizer, **settings)
        assert read_bytes(out) == read_bytes(tmp_path / "whole")
    assert stops == 2 + 2 * (
        len(read_bytes(tmp_path / "whole")) - 1
    )  # the description, two for each shard, the manifest


def test_a_finished_directory_is_left_alone_and_a_lost_shard_made_again(tmp_path, tokenizer):
    (tmp_path / "a.txt").write_text(make_text(200))
    arguments = (tmp_path / "a.txt", tmp_path / "out", tokenizer)
    write_examples(*arguments, shard_bytes=1 << 14, **QUIET)
    before = read_bytes(tmp_path / "out")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    write_examples(*arguments, shard_bytes=1 << 14, **QUIET)
    assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    (tmp_path / "out" / "shard-00000-00001.tfrecord").write_bytes(b"cut off")
    write_examples(*arguments, shard_bytes=1 << 14, **QUIET)
    assert read_bytes(tmp_path / "out") == before


# === Memory ===


def test_a_document_larger_than_a_unit_is_cut_and_nothing_of_it_lost(tmp_path, tokenizer):
    rng = random.Random(0)
    huge = " ".join(" ".join(rng.choices(WORDS, k=9)).capitalize() + "." for _ in range(5000))
    (tmp_path / "a.txt").write_text(huge + "\n\nWaa wab. Wac wad.\n")
    manifest = write_examples(
        tmp_path / "a.txt", tmp_path / "out", tokenizer, shard_bytes=1 << 15, pairs="single", **QUIET
    )
    assert manifest.counts["documents"] == 2 and manifest.counts["split_documents"] >= 4
    assert manifest.counts["text_tokens"] == len(tokenizer(huge)) + 6 and manifest.counts["unused_tokens"] == 0
    rows = read_rows(tmp_path / "out")
    assert sum(len(ids) - 2 for ids, _ in rows) == manifest.counts["text_tokens"]
    # Every unit but the last has one document: random segments come from the other, which is elsewhere.
    write_examples(tmp_path / "a.txt", tmp_path / "pairs", tokenizer, shard_bytes=1 << 15, **QUIET)
    borrowed = set(tokenizer("waa wab. wac wad.").numpy().tolist())
    rows = read_rows(tmp_path / "pairs")
    random_rows = [ids[ids.index(3) + 1 : -1] for ids, label in rows if label]
    assert sum(borrowed >= set(ids) for ids in random_rows) > 0.9 * len(random_rows) > 100


# VmHWM and not ru_maxrss, which a process inherits from the one that started it.
MEMORY = """
import re, sys
from keras_bert.pretraining.corpus.writing import write_examples
write_examples(sys.argv[1], sys.argv[2], sys.argv[3], shard_bytes=1 << 20, workers=1, progress=False)
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024)
"""


@pytest.mark.slow
def test_ten_times_the_corpus_takes_the_same_memory(tmp_path, tokenizer):
    tokenizer.save_vocabulary(tmp_path / "vocab.txt")
    text = make_text(8000, sentences=8)
    peaks = []
    for times in (1, 10):
        with open(tmp_path / f"{times}.txt", "w") as file:
            for _ in range(times):
                file.write(text + "\n")
        command = [
            sys.executable,
            "-c",
            MEMORY,
            tmp_path / f"{times}.txt",
            tmp_path / f"out{times}",
            tmp_path / "vocab.txt",
        ]
        peaks.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    assert (
        load_manifest(tmp_path / "out10").counts["text_bytes"]
        > 9 * load_manifest(tmp_path / "out1").counts["text_bytes"]
    )
    assert peaks[1] < peaks[0] + 40, f"peak RSS in MB: {peaks}; the larger text has {len(text) * 10 / 1e6:.0f} MB"


# === Bad input ===


def test_bad_lines_are_named_and_the_rest_is_kept(tmp_path, tokenizer):
    (tmp_path / "a.txt").write_bytes(b"Waa wab.\nWaa \xff wab.\nWac.\n\nWad wae.\n")
    with pytest.warns(UserWarning, match="1 bad lines"):
        manifest = write_examples(tmp_path / "a.txt", tmp_path / "out", tokenizer, **QUIET)
    assert manifest.counts["bad_lines"] == 1 and manifest.counts["documents"] == 2
    assert manifest.bad_lines == (f"{tmp_path / 'a.txt'}:2: not UTF-8 (invalid start byte)",)
    lines = [b'{"text": "Waa."}', b"{oops", b'{"other": 1}', b'"\xff"', b'{"text": "\\ud800"}', b'{"text": "Wab."}']
    (tmp_path / "b.jsonl").write_bytes(b"\n".join(lines))
    with pytest.warns(UserWarning, match="4 bad lines"):
        manifest = write_examples(tmp_path / "b.jsonl", tmp_path / "json", tokenizer, **QUIET)
    assert [line.split(":")[1] for line in manifest.bad_lines] == ["2", "3", "4", "5"]
    assert manifest.counts["documents"] == 2


def test_a_json_line_too_long_to_hold_is_named(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(documents, "LONGEST_JSON_LINE", 10_000)
    lines = [json.dumps({"text": text}) for text in ("Waa.", "wab " * 9_000, "Wac.")]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.warns(UserWarning, match=r"a\.jsonl:2: too long"):
        manifest = write_examples(tmp_path / "a.jsonl", tmp_path / "out", tokenizer, shard_bytes=1, **QUIET)
    assert manifest.counts["documents"] == 2 and manifest.counts["text_bytes"] == (tmp_path / "a.jsonl").stat().st_size


def test_text_without_sentence_boundaries_is_cut_with_a_warning(tmp_path, tokenizer):
    rng = random.Random(0)
    (tmp_path / "a.txt").write_text("\n\n".join(" ".join(rng.choices(WORDS, k=500)) for _ in range(9)))
    with pytest.warns(UserWarning, match="9 of 9 sentences"):
        manifest = write_examples(tmp_path / "a.txt", tmp_path / "out", tokenizer, short_sequence_rate=0.0, **QUIET)
    assert manifest.counts["text_tokens"] == 9 * 500
    assert 0.2 < manifest.counts["random_or_swapped"] / manifest.examples < 0.8


BAD_CORPORA = {
    "no file": ("no*.txt", "matches no file"),
    "a directory": (".", "is a directory"),
    "empty": ("empty.txt", "No example could be made"),
    "one document": ("one.txt", "one document"),
    "cut off": ("cut.txt.gz", "cannot be read to its end"),
    "utf-16": ("utf16.txt", "expected UTF-8"),
}


@pytest.mark.parametrize(("name", "message"), BAD_CORPORA.values(), ids=BAD_CORPORA)
def test_a_bad_corpus_is_an_error_that_says_what_to_do(tmp_path, tokenizer, name, message):
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "one.txt").write_text("Waa wab. Wac. Wad.")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(make_text(500).encode())[:-100])
    (tmp_path / "utf16.txt").write_text("Waa.", encoding="utf-16")
    with pytest.raises(CorpusError, match=message):
        write_examples(tmp_path / name, tmp_path / "out", tokenizer, **QUIET)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_bad_directory_or_vocabulary_is_an_error_that_says_what_to_do(tmp_path, tokenizer):
    (tmp_path / "a.txt").write_text(make_text(20))
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "x.tfrecord").write_bytes(b"")
    with pytest.raises(CorpusError, match=r"unknown origin, such as x\.tfrecord"):
        write_examples(tmp_path / "a.txt", tmp_path / "strange", tokenizer, **QUIET)
    with pytest.raises(CorpusError, match="Cannot write"):
        write_examples(tmp_path / "a.txt", tmp_path / "a.txt" / "out", tokenizer, **QUIET)
    with pytest.raises(CorpusError, match=r"no \[CLS\] and no \[SEP\]"):
        write_examples(tmp_path / "a.txt", tmp_path / "out", ["[UNK]", "a"], **QUIET)


def test_other_settings_and_changed_files_are_refused(tmp_path, tokenizer):
    (tmp_path / "a.txt").write_text(make_text(50))
    write_examples(tmp_path / "a.txt", tmp_path / "out", tokenizer, **QUIET)
    with pytest.raises(CorpusError, match="sequence_length: 32 there, 64 asked for"):
        write_examples(tmp_path / "a.txt", tmp_path / "out", tokenizer, workers=1, sequence_length=64)
    with pytest.raises(CorpusError, match="vocabulary_sha256"):
        write_examples(tmp_path / "a.txt", tmp_path / "out", [*VOCABULARY, "new"], **QUIET)
    with pytest.raises(CorpusError, match="sequence_length=32, expected 128"):
        read_examples(tmp_path / "out", sequence_length=128)
    with pytest.raises(CorpusError, match="another vocabulary"):
        read_examples(tmp_path / "out", tokenizer=BertTokenizer([*VOCABULARY, "new"]))
    with pytest.raises(CorpusError, match="tokenizer settings"):
        read_examples(tmp_path / "out", tokenizer=BertTokenizer(VOCABULARY, lowercase=False))


def test_broken_shards_are_refused(tmp_path, tokenizer):
    (tmp_path / "a.txt").write_text(make_text(50))
    write_examples(tmp_path / "a.txt", tmp_path / "out", tokenizer, **QUIET)
    shard = tmp_path / "out" / "shard-00000-00000.tfrecord"
    data = shard.read_bytes()
    shard.write_bytes(data[:-1])
    with pytest.raises(CorpusError, match=f"has {len(data) - 1:,} bytes; expected {len(data):,}"):
        read_examples(tmp_path / "out")
    shard.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    read_examples(tmp_path / "out")
    with pytest.raises(CorpusError, match="is damaged"):
        read_examples(tmp_path / "out", verify=True)
    shard.unlink()
    with pytest.raises(CorpusError, match="is missing"):
        read_examples(tmp_path / "out")
    with pytest.raises(CorpusError, match=r"no manifest\.json"):
        read_examples(tmp_path)


def test_a_full_disk_is_an_error_that_leaves_no_half_shard(tmp_path, tokenizer):
    resource = pytest.importorskip("resource", reason="needs a limit on file sizes")
    (tmp_path / "a.txt").write_text(make_text(1000))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))  # as if the disk were full after so many bytes
    try:
        with pytest.raises(CorpusError, match="Cannot write .*shard-00000-00000.*Make room"):
            write_examples(tmp_path / "a.txt", tmp_path / "out", tokenizer, **QUIET)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not [path for path in (tmp_path / "out").rglob("*") if path.name.endswith((".tfrecord", ".partial"))]
    write_examples(tmp_path / "a.txt", tmp_path / "out", tokenizer, **QUIET)
