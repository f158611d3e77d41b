"""Measures small sentence vectors against whole floats: fewer dimensions, bytes and bits; and a search in 200,000.

    python benchmarks/small_vectors.py --data DIR        # 20 minutes on two cores

`DIR` has GLUE's `glue/STS-B/dev.tsv` and `train.tsv`, and `enwiki.txt.gz`. The vectors are of MiniLM (L6) as it is,
trained for an epoch on STS-B's training pairs, and trained on the same with `matryoshka=`. Ranges and thresholds are
learned from sentences of the training split, and nothing is chosen on the development split: it is measured once. The
search looks for its sentences among those of the training split, and for a thousand lines of Wikipedia among 200,000
others, with tiny-en. Recall@10 is the share of the ten nearest by floats that are found. Writes
`results/small_vectors.json`.
"""

import argparse
import csv
import gzip
import itertools
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from record import add_output, write_run
from scipy.stats import spearmanr

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from keras_bert.decoding.similarity import normalize_vectors, search_vectors, shorten_vectors  # noqa: E402
from keras_bert.decoding.small_vectors import SmallVectors, quantize_vectors  # noqa: E402
from keras_bert.tasks.similarity.task import SentenceEmbedder  # noqa: E402

PARTS = ("as it is", "trained", "matryoshka", "large")
WIDTHS = (256, 128, 64)
CANDIDATES = (10, 20, 40, None)
Pairs = tuple[list[str], list[str], np.ndarray]


def read_pairs(path: Path) -> Pairs:
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = [row for row in rows if row.get("score")]
    first, second = ([row[name] for row in rows] for name in ("sentence1", "sentence2"))
    return first, second, np.array([float(row["score"]) for row in rows])


def read_sentences(path: Path, count: int) -> list[str]:
    """Sentences of 30 to 200 characters, each once."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        parts = (part for line in file for part in re.split(r"(?<=[.!?]) (?=[A-Z])", line.strip()))
        return list(itertools.islice(dict.fromkeys(part for part in parts if 30 <= len(part) <= 200), count))


def correlate(first: np.ndarray, second: np.ndarray, scores: np.ndarray) -> float:
    cosines = np.sum(normalize_vectors(first) * normalize_vectors(second), axis=-1)
    return 100 * float(spearmanr(cosines, scores).statistic)


def by_width(first: np.ndarray, second: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    widths = (first.shape[1], *WIDTHS)
    return {str(width): correlate(first[:, :width], second[:, :width], scores) for width in widths}


def recall(found: list[Any], wanted: list[Any]) -> float:
    rows = zip(found, wanted, strict=True)
    return 100 * float(np.mean([len({h.index for h in a} & {h.index for h in b}) / 10 for a, b in rows]))


def recalls(queries: np.ndarray, collection: np.ndarray) -> dict[str, float]:
    wanted = search_vectors(queries, collection, top=10)
    results = {"int8": recall(quantize_vectors(collection).search(queries, top=10), wanted)}
    bits = quantize_vectors(collection, "binary")
    for count in CANDIDATES:
        name = "bits and bytes, a tenth" if count is None else f"bits and bytes, {count} candidates"
        results[name] = recall(bits.search(queries, top=10, candidates=count), wanted)
    return results


def train(data: Pairs, epochs: float, matryoshka: tuple[int, ...]) -> SentenceEmbedder:
    embedder = SentenceEmbedder.from_pretrained("all-MiniLM-L6-v2", sequence_length=64, score_range=(0, 5))
    first, second, scores = data
    embedder.fit(list(zip(first, second, strict=True)), scores.tolist(), epochs=epochs, matryoshka=matryoshka)
    return embedder


def search_many(path: Path, count: int) -> dict[str, Any]:
    """A search among many sentences: how much is found, the bytes, and processor time for a query."""
    texts = read_sentences(path, count + 1000)
    embedder = SentenceEmbedder.from_pretrained("tiny-en", sequence_length=64)
    begin = time.process_time()
    vectors = embedder.predict(texts, batch_size=256)
    seconds = time.process_time() - begin
    collection, queries = vectors[1000:], vectors[:1000]
    small = quantize_vectors(collection, "binary")
    return {
        "model": "tiny-en",
        "sentences": len(collection),
        "dimensions": collection.shape[1],
        "seconds of processor time to embed": seconds,
        "recall@10": recalls(queries[:200], collection),
        "milliseconds of processor time for a query": {
            "float32": _time(lambda part: search_vectors(part, collection, top=10), queries),
            "bits and bytes, a tenth": _time(lambda part: small.search(part, top=10), queries),
        },
        "bytes": _sizes(collection, small),
    }


def _time(search: Any, queries: np.ndarray) -> list[float]:
    """Each of three runs of 100 queries, one after the other, as an app asks them."""
    found = []
    for part in np.split(queries[:300], 3):
        begin = time.process_time()
        for query in part:
            search(query[None])
        found.append(1000 * (time.process_time() - begin) / len(part))
    return found


def _sizes(vectors: np.ndarray, small: SmallVectors) -> dict[str, int]:
    assert small.bits is not None
    return {"float32": vectors.nbytes, "int8": small.codes.nbytes, "bits": small.bits.nbytes}


def measure_as_it_is(folder: Path) -> dict[str, Any]:
    """The model as it is: fewer dimensions and bytes on pairs, bytes and bits in a search."""
    embedder = SentenceEmbedder.from_pretrained("all-MiniLM-L6-v2", sequence_length=64)
    first, second, scores = read_pairs(folder / "dev.tsv")
    known = list(dict.fromkeys(read_pairs(folder / "train.tsv")[0]))
    one, other, collection = (embedder.predict(texts) for texts in (first, second, known))
    small = [quantize_vectors(vectors, learn_from=collection).to_float() for vectors in (one, other)]
    few = shorten_vectors(collection, 128)
    fewer = [quantize_vectors(shorten_vectors(vectors, 128), learn_from=few).to_float() for vectors in (one, other)]
    return {
        "pairs": len(scores),
        "spearman by dimensions": by_width(one, other, scores),
        "spearman of int8": {"384": correlate(*small, scores), "128": correlate(*fewer, scores)},
        "collection": len(collection),
        "recall@10": recalls(one, collection),
        "bytes": _sizes(collection, quantize_vectors(collection, "binary")),
    }


def measure_trained(folder: Path, epochs: float, matryoshka: tuple[int, ...]) -> dict[str, Any]:
    """The model after training on the scored pairs of the training split."""
    trained = train(read_pairs(folder / "train.tsv"), epochs, matryoshka)
    first, second, scores = read_pairs(folder / "dev.tsv")
    vectors = [trained.predict(texts) for texts in (first, second)]
    return {"epochs": epochs, "matryoshka": matryoshka, "spearman by dimensions": by_width(*vectors, scores)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure; others stay")
    parser.add_argument("--epochs", type=float, default=1, help="of training")
    parser.add_argument("--sentences", type=int, default=200_000, help="of the large search")
    add_output(parser, "small_vectors")
    arguments = parser.parse_args()
    (folder,) = [path.parent for path in arguments.data.glob("glue/STS*/dev.tsv")]
    for part in arguments.parts:
        if part == "as it is":
            found = measure_as_it_is(folder)
        elif part == "large":
            found = search_many(arguments.data / "enwiki.txt.gz", arguments.sentences)
        else:
            found = measure_trained(folder, arguments.epochs, (128, 64) if part == "matryoshka" else ())
        run = write_run(arguments.output, found, packages=("tensorflow", "keras", "numpy"), part=part)
        print(json.dumps(run, indent=1), flush=True)


if __name__ == "__main__":
    main()
