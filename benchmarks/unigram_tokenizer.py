"""Compares `UnigramTokenizer` with SentencePiece, the Rust `tokenizers` and the device's: ids, offsets, speed.

    pip install sentencepiece
    python benchmarks/unigram_tokenizer.py --data DIR [--models a.model b.model]     # 5 minutes a model on two cores

`DIR` has `enwiki.txt.gz`, `enwiki_heldout.txt.gz`, `zhwiki.txt.gz` and `langid/language_detection.csv`. Without
`--models`, two models of 8,000 pieces are learned first, with and without bytes for unknown characters. Writes
`results/unigram_tokenizer.json`, and prints for each model how many texts differ and the megabytes per second.

Offsets are compared where the ids are the same, in bytes; SentencePiece's begin at the spaces before a piece, which
ours leave out. A text that differs from SentencePiece's has several segmentations whose scores are equal but for
rounding: tensorflow-text has SentencePiece as it was up to 0.2.1, which compares a sum in float64 with one that is
stored in float32; from 0.2.2 on, sums are rounded before they are compared. `score` is the largest difference between
the scores of two such segmentations. `--measure ids` compares ids alone, with the SentencePiece that is found first:

    pip install --no-deps --target older sentencepiece==0.2.1
    PYTHONPATH=older python benchmarks/unigram_tokenizer.py --data DIR --measure ids          # a minute a model
"""

import argparse
import csv
import gzip
import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import sentencepiece
import tensorflow as tf
import tokenizers
from record import add_output, write_run

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from unicode_fuzz import random_texts  # noqa: E402

from export.runtime.unigram_tokenizer import DeviceUnigramTokenizer  # noqa: E402
from keras_bert.text.character_map import CharacterMap  # noqa: E402
from keras_bert.text.unigram import UnigramTokenizer  # noqa: E402
from keras_bert.text.unigram_model import UnigramModel, to_tokenizer_json  # noqa: E402
from keras_bert.text.vocabulary import learn_vocabulary  # noqa: E402


def read_texts(data: Path, count: int, fuzz: int, tokens: tuple[str, ...]) -> dict[str, list[str]]:
    def lines(name: str) -> list[str]:
        with gzip.open(data / name, "rt", encoding="utf-8") as file:
            return [line for line in file.read(6_000_000).split("\n") if line][:count]

    with open(data / "langid" / "language_detection.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    languages = sorted({row["Language"] for row in rows} - {""})
    return {
        "random Unicode": random_texts(fuzz, [token.replace("▁", " ") for token in tokens[4:2000]], seed=17),
        "English": lines("enwiki_heldout.txt.gz"),
        "Chinese": lines("zhwiki.txt.gz"),
        **{f"{name} (langid)": [row["Text"] for row in rows if row["Language"] == name] for name in languages},
    }


def compare(tokenizer: UnigramTokenizer, texts: list[str]) -> dict[str, int | float]:
    """Count the texts that differ, and how far the scores of their segmentations are apart."""
    model = tokenizer.model
    peer = sentencepiece.SentencePieceProcessor(model_proto=model.to_bytes())
    rust = tokenizers.Tokenizer.from_str(json.dumps(to_tokenizer_json(model)))
    device = DeviceUnigramTokenizer(model)
    ids, splits = tokenizer.tokenize_flat(texts)
    few = texts[:20_000]  # Python is slow
    other = device.tokenize_flat_with_offsets(few)
    mine = [ids[a:b].tolist() for a, b in itertools.pairwise(splits)]
    theirs, rusts = peer.encode(texts), [row.ids for row in rust.encode_batch(texts, add_special_tokens=False)]
    same_on_device = all(
        np.array_equal(*pair) for pair in zip(tokenizer.tokenize_flat_with_offsets(few), other, strict=True)
    )
    spaces = CharacterMap(model).spaces
    offsets = sum(count_offsets(tokenizer, peer, texts[at : at + 5000], spaces) for at in range(0, len(texts), 5000))
    scores = model.scores.astype(np.float64)
    gaps = [abs(scores[a].sum() - scores[b].sum()) for a, b in zip(mine, theirs, strict=True) if a != b]
    return {
        "texts": len(texts),
        "the device is the same": same_on_device,
        "differ from sentencepiece": len(gaps),
        "score": max(gaps, default=0.0),
        "same ids, other offsets": offsets,
        "differ from tokenizers": sum(a != b for a, b in zip(mine, rusts, strict=True)),
        "sentencepiece differs from tokenizers": sum(a != b for a, b in zip(theirs, rusts, strict=True)),
    }


def compare_ids(tokenizer: UnigramTokenizer, texts: list[str]) -> dict[str, int]:
    """Count the texts whose ids differ from SentencePiece's."""
    peer = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model.to_bytes())
    ids, splits = tokenizer.tokenize_flat(texts)
    pairs = zip(itertools.pairwise(splits), peer.encode(texts), strict=True)
    differ = sum(ids[begin:end].tolist() != theirs for (begin, end), theirs in pairs)
    return {"texts": len(texts), "differ from sentencepiece": differ}


def count_offsets(
    tokenizer: UnigramTokenizer, peer: sentencepiece.SentencePieceProcessor, texts: list[str], spaces: frozenset[str]
) -> int:
    """Count the texts with SentencePiece's ids and other offsets."""
    columns = [part.to_list() for part in tokenizer.tokenize_with_offsets(texts, unit="byte")]
    differ = 0
    for text, ids, starts, ends in zip(texts, *columns, strict=True):
        pieces, content = peer.encode(text, return_type="proto").pieces, text.encode()
        if ids == [piece.id for piece in pieces]:
            begins = [skip_spaces(content, piece.begin, piece.end, spaces) for piece in pieces]
            differ += begins != starts or ends != [piece.end for piece in pieces]
    return differ


def skip_spaces(content: bytes, begin: int, end: int, spaces: frozenset[str]) -> int:
    while begin < end:
        size = 1 + sum(content[begin] >= least for least in (0xC0, 0xE0, 0xF0))
        if content[begin : begin + size].decode() not in spaces:
            break
        begin += size
    return begin


def measure(tokenizer: UnigramTokenizer, texts: list[str]) -> dict[str, list[float]]:
    """Megabytes per second of two threads and of processor time, three times, once the model has been read."""
    rust = tokenizers.Tokenizer.from_str(json.dumps(to_tokenizer_json(tokenizer.model)))
    first, rest = texts[:256], texts[256:]
    options = tf.data.Options()
    options.threading.private_threadpool_size = 2
    batches = tf.data.Dataset.from_tensor_slices(texts).batch(256).map(tokenizer, num_parallel_calls=2)

    def through_data() -> Iterator[None]:
        rows = iter(batches.with_options(options))
        next(rows)  # the graph reads the model
        yield
        for _ in rows:
            pass
        yield

    def through_rust() -> Iterator[None]:
        rust.encode_batch_fast(first, add_special_tokens=False)
        yield
        rust.encode_batch_fast(rest, add_special_tokens=False)
        yield

    megabytes, found = sum(len(text.encode()) for text in rest) / 1e6, {}
    for name, start in (("tf.data", through_data), ("tokenizers", through_rust)):
        walls, processors = [], []
        for _ in range(3):
            steps = start()
            next(steps)
            wall, processor = time.perf_counter(), time.process_time()
            next(steps)
            walls.append(megabytes / (time.perf_counter() - wall))
            processors.append(megabytes / (time.process_time() - processor))
        found[name], found[f"{name}, processor time"] = walls, processors
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", type=Path, nargs="*", default=[])
    parser.add_argument("--count", type=int, default=2000, help="lines of each Wikipedia")
    parser.add_argument(
        "--measure", nargs="+", choices=("differences", "speed", "ids"), default=("differences", "speed")
    )
    parser.add_argument("--random", type=int, default=200_000, help="random strings")
    add_output(parser, "unigram_tokenizer")
    arguments = parser.parse_args()
    models = {path.stem: path for path in arguments.models}
    if not models:
        files = [arguments.data / name for name in ("enwiki_heldout.txt.gz", "zhwiki.txt.gz")]
        options = {"kind": "unigram", "limit_bytes": 3_000_000, "progress": False}
        for spelled, name in ((False, "8,000 pieces"), (True, "8,000 pieces with bytes")):
            models[name] = learn_vocabulary(files, 8000, byte_fallback=spelled, **options)
    for name, model in models.items():
        tokenizer = UnigramTokenizer(model if isinstance(model, UnigramModel) else Path(model))
        packages = ("tensorflow", "tensorflow-text", "sentencepiece", "tokenizers")
        about = {"pieces": tokenizer.vocabulary_size, "bytes": tokenizer.model.has_bytes}
        for what in arguments.measure:
            if what == "speed":
                with gzip.open(arguments.data / "enwiki_heldout.txt.gz", "rt", encoding="utf-8") as file:
                    lines = [line for line in file.read().split("\n") if line]
                found = {**about, "megabytes per second, English": measure(tokenizer, lines)}
            else:
                texts = read_texts(arguments.data, arguments.count, arguments.random, tokenizer.model.tokens)
                look = compare if what == "differences" else compare_ids
                found = {**about, what: {kind: look(tokenizer, rows) for kind, rows in texts.items()}}
            part = f"{name}, {what}" + (f", SentencePiece {sentencepiece.__version__}" if what == "ids" else "")
            run = write_run(arguments.output, found, packages=packages, part=part)
            print(json.dumps(run, indent=1), flush=True)


if __name__ == "__main__":
    main()
