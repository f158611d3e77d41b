"""Semantic search: find sentences by what they mean, without training anything.

    python examples/semantic_search.py                                           # the sentences below; seconds
    python examples/semantic_search.py --data articles.txt --query "how do I renew my passport?" --top 3
    python examples/semantic_search.py --data articles.txt --train pairs.tsv      # first learn from pairs of texts

Embeds every line of the file once, keeps the vectors beside the model, and answers each query with the nearest lines. A
training file has the columns `text` and `pair` (texts that belong together), perhaps `negative`, or `label` (a score).
It prints

    » The lamp in my kitchen stays dark.
      0.42  If a bulb does not light up, check first that it is screwed in.
"""

import argparse
from pathlib import Path

import keras_bert

keras_bert.quiet_tensorflow()

import numpy as np

from keras_bert import SentenceEmbedder

SENTENCES = (
    "To reset the router, hold the button on its back for ten seconds.",
    "If a bulb does not light up, check first that it is screwed in.",
    "The guarantee covers faults for two years from the day of purchase.",
    "Clean the coffee machine with vinegar once a month.",
    "A parcel can be sent back free of charge within thirty days.",
    "The battery charges fastest when the phone is switched off.",
    "Our shop in Malmö is open from nine to six, on Sundays until four.",
    "Write to the service team if an invoice is wrong.",
)
QUERIES = (
    "The lamp in my kitchen stays dark.",
    "The shoes are too small, can I return them?",
    "When can I come by on the weekend?",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a text file with a sentence a line")
    parser.add_argument("--query", nargs="+", default=QUERIES, help="what to look for")
    parser.add_argument("--top", type=int, default=1, help="hits for each query")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a directory or name with pretrained weights")
    parser.add_argument("--train", help="a file of pairs or triplets to learn from first")
    parser.add_argument("--epochs", type=float, default=1)
    parser.add_argument("--output", type=Path, default=Path("search"), help="where model and vectors go")
    parser.add_argument("--smoke", action="store_true", help="a step of training on a few pairs, to see that it runs")
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    texts = list(SENTENCES)
    if arguments.data is not None:
        texts = [line.strip() for line in arguments.data.read_text(encoding="utf-8").splitlines() if line.strip()]
    embedder = SentenceEmbedder.from_pretrained(arguments.model)
    if arguments.train is not None or arguments.smoke:
        pairs = arguments.train or list(zip(QUERIES, (texts[1], texts[4], texts[6]), strict=True))
        print(embedder.fit(pairs, epochs=arguments.epochs))
    vectors = embedder.predict(texts)
    embedder.save(arguments.output)
    np.save(arguments.output / "vectors.npy", vectors)
    for query, hits in zip(arguments.query, embedder.search(arguments.query, vectors, top=arguments.top), strict=True):
        print(f"» {query}")
        for hit in hits:
            print(f"  {hit.score:.2f}  {texts[hit.index]}")


if __name__ == "__main__":
    main()
