"""Measures vectors in bytes and bits against floats: Spearman on STS-B, and the recall of a search.

    python benchmarks/small_vectors.py --data DIR        # 5 minutes on two cores

`DIR` has GLUE's `glue/STS-B/dev.tsv` and `train.tsv`. The vectors are all-MiniLM-L6-v2's. Ranges and thresholds are
learned from sentences of the training split; the search looks for sentences of the development split among those of the
training split. Writes `results/small_vectors.json`, and prints Spearman, and recall@10 with its first look at 10 and 20
times as many vectors.
"""

import argparse
import csv
import json
import sys
from pathlib import Path

import numpy as np
from record import provenance
from scipy.stats import spearmanr

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from keras_bert.decoding.similarity import normalize_vectors, search_vectors  # noqa: E402
from keras_bert.decoding.small_vectors import quantize_vectors  # noqa: E402
from keras_bert.tasks.similarity.task import SentenceEmbedder  # noqa: E402


def read_pairs(path: Path) -> tuple[list[str], list[str], np.ndarray]:
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = [row for row in rows if row.get("score")]
    first, second = ([row[name] for row in rows] for name in ("sentence1", "sentence2"))
    return first, second, np.array([float(row["score"]) for row in rows])


def correlate(first: np.ndarray, second: np.ndarray, scores: np.ndarray) -> float:
    cosines = np.sum(normalize_vectors(first) * normalize_vectors(second), axis=-1)
    return 100 * float(spearmanr(cosines, scores).statistic)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=6000, help="of the training split")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / "small_vectors.json")
    arguments = parser.parse_args()
    (folder,) = [path.parent for path in arguments.data.glob("glue/STS*/dev.tsv")]
    embedder = SentenceEmbedder.from_pretrained("all-MiniLM-L6-v2", sequence_length=64)
    first, second, scores = read_pairs(folder / "dev.tsv")
    known = list(dict.fromkeys(read_pairs(folder / "train.tsv")[0]))[: arguments.sentences]
    one, other, collection = (embedder.predict(texts) for texts in (first, second, known))
    small = {kind: quantize_vectors(collection, kind) for kind in ("int8", "binary")}
    pair = [quantize_vectors(vectors, learn_from=collection).to_float() for vectors in (one, other)]
    cut = [vectors[:, :128] for vectors in (one, other)]
    wanted = search_vectors(one, collection, top=10)

    def recall(found: list) -> float:
        rows = zip(found, wanted, strict=True)
        return 100 * float(np.mean([len({h.index for h in a} & {h.index for h in b}) / 10 for a, b in rows]))

    results = {
        "pairs": len(scores),
        "collection": len(collection),
        "spearman": {
            "float32": correlate(one, other, scores),
            "int8": correlate(*pair, scores),
            "the first 128 dimensions, without training for it": correlate(*cut, scores),
        },
        "recall@10": {
            "int8": recall(small["int8"].search(one, top=10)),
            "bits and bytes, 10 candidates": recall(small["binary"].search(one, top=10, candidates=10)),
            "bits and bytes, 20 candidates": recall(small["binary"].search(one, top=10, candidates=20)),
        },
        "bytes": {
            "float32": collection.nbytes,
            "int8": small["int8"].codes.nbytes,
            "bits": small["binary"].bits.nbytes,
        },
    }
    print(json.dumps(results, indent=1))
    arguments.output.write_text(json.dumps({**provenance("keras", "numpy"), **results}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
