"""Compares `UnigramTokenizer` with SentencePiece, the Rust `tokenizers` and the device's: ids, offsets, speed.

    pip install sentencepiece
    python benchmarks/unigram_tokenizer.py --data DIR [--models a.model b.model]     # 5 minutes on two cores

`DIR` has `enwiki.txt.gz`, `enwiki_heldout.txt.gz`, `zhwiki.txt.gz` and `langid/language_detection.csv`. Without
`--models`, two models of 8,000 pieces are learned first, with and without bytes for unknown characters. Writes
`results/unigram_tokenizer.json`, and prints for each model how many texts differ and the megabytes per second.

A text that differs from SentencePiece's has several segmentations whose scores are equal but for rounding:
tensorflow-text has an older SentencePiece, which compares sums of scores in float64. `score` is the largest difference
between the scores of two such segmentations.
"""

import argparse
import csv
import gzip
import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np
import sentencepiece
import tensorflow as tf
import tokenizers
from record import provenance

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from unicode_fuzz import random_texts  # noqa: E402

from export.runtime.unigram_tokenizer import DeviceUnigramTokenizer  # noqa: E402
from keras_bert.text.unigram import UnigramTokenizer  # noqa: E402
from keras_bert.text.unigram_model import UnigramModel, to_tokenizer_json  # noqa: E402
from keras_bert.text.vocabulary import learn_vocabulary  # noqa: E402


def read_texts(data: Path, count: int, seed: int, tokens: tuple[str, ...]) -> dict[str, list[str]]:
    def lines(name: str) -> list[str]:
        with gzip.open(data / name, "rt", encoding="utf-8") as file:
            return [line for line in file.read(6_000_000).split("\n") if line][:count]

    with open(data / "langid" / "language_detection.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        "random Unicode": random_texts(4 * count, [token.replace("▁", " ") for token in tokens[4:2000]], seed=seed),
        "English": lines("enwiki_heldout.txt.gz"),
        "Chinese": lines("zhwiki.txt.gz"),
        "17 languages": [row["Text"] for row in rows][: 2 * count],
    }


def compare(tokenizer: UnigramTokenizer, texts: list[str]) -> dict[str, int | float]:
    """Count the texts that differ, and how far the scores of their segmentations are apart."""
    model = tokenizer.model
    peer = sentencepiece.SentencePieceProcessor(model_proto=model.to_bytes())
    rust = tokenizers.Tokenizer.from_str(json.dumps(to_tokenizer_json(model)))
    device = DeviceUnigramTokenizer(model)
    ids, splits, starts, ends = tokenizer.tokenize_flat_with_offsets(texts)
    other = device.tokenize_flat_with_offsets(texts)
    mine = [ids[a:b].tolist() for a, b in itertools.pairwise(splits)]
    theirs, rusts = peer.encode(texts), [row.ids for row in rust.encode_batch(texts, add_special_tokens=False)]
    same_on_device = all(np.array_equal(*pair) for pair in zip((ids, splits, starts, ends), other, strict=True))
    scores = model.scores.astype(np.float64)
    gaps = [abs(scores[a].sum() - scores[b].sum()) for a, b in zip(mine, theirs, strict=True) if a != b]
    return {
        "texts": len(texts),
        "the device is the same": same_on_device,
        "differ from sentencepiece": len(gaps),
        "score": max(gaps, default=0.0),
        "differ from tokenizers": sum(a != b for a, b in zip(mine, rusts, strict=True)),
        "sentencepiece differs from tokenizers": sum(a != b for a, b in zip(theirs, rusts, strict=True)),
    }


def measure(tokenizer: UnigramTokenizer, texts: list[str]) -> dict[str, float]:
    """Megabytes per second of two threads and of processor time, the best of three."""
    rust = tokenizers.Tokenizer.from_str(json.dumps(to_tokenizer_json(tokenizer.model)))
    batches = tf.data.Dataset.from_tensor_slices(texts).batch(256)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 2

    def through_data() -> None:
        for _ in batches.map(tokenizer, num_parallel_calls=2).with_options(options):
            pass

    megabytes, found = sum(len(text.encode()) for text in texts) / 1e6, {}
    runs = {"tf.data": through_data, "tokenizers": lambda: rust.encode_batch_fast(texts, add_special_tokens=False)}
    for name, run in runs.items():
        run()
        walls, processors = [], []
        for _ in range(3):
            wall, processor = time.perf_counter(), time.process_time()
            run()
            walls.append(time.perf_counter() - wall)
            processors.append(time.process_time() - processor)
        found[name] = megabytes / min(walls)
        found[f"{name}, processor time"] = megabytes / min(processors)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", type=Path, nargs="*", default=[])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / "unigram_tokenizer.json")
    arguments = parser.parse_args()
    models = {path.stem: path for path in arguments.models}
    if not models:
        files = [arguments.data / name for name in ("enwiki_heldout.txt.gz", "zhwiki.txt.gz")]
        options = {"kind": "unigram", "limit_bytes": 3_000_000, "progress": False}
        for spelled, name in ((False, "8,000 pieces"), (True, "8,000 pieces with bytes")):
            models[name] = learn_vocabulary(files, 8000, byte_fallback=spelled, **options)
    results = {}
    for name, model in models.items():
        tokenizer = UnigramTokenizer(model if isinstance(model, UnigramModel) else Path(model))
        texts = read_texts(arguments.data, arguments.count, 17, tokenizer.model.tokens)
        results[name] = {
            "pieces": tokenizer.vocabulary_size,
            "bytes": tokenizer.model.has_bytes,
            "differences": {kind: compare(tokenizer, rows) for kind, rows in texts.items()},
            "megabytes per second, English": measure(tokenizer, texts["English"]),
        }
        print(name, json.dumps(results[name], indent=1))
    about = provenance("tensorflow", "tensorflow-text", "sentencepiece", "tokenizers")
    arguments.output.write_text(json.dumps({**about, "results": results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
