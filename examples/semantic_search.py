"""Semantic search: find sentences by what they mean, without training anything.

    python examples/semantic_search.py                                           # the sentences below; seconds
    python examples/semantic_search.py --data articles.txt --query "how do I renew my passport?" --top 3
    python examples/semantic_search.py --data articles.txt --train pairs.tsv      # first learn from pairs of texts
    python examples/semantic_search.py --data 200000_lines.txt --model tiny-en    # minutes, then milliseconds a query

Embeds every line of the file once, and keeps the vectors in bytes and bits beside the model: 86 MB for 200,000 lines of
384 numbers. When it is started again, it embeds the queries only. A search compares the bits of all vectors,
then the bytes of the nearest. A training file has the columns `text` and `pair` (texts that belong together), perhaps
`negative`, or `label` (a score). It prints

    » The lamp in my kitchen stays dark.
      0.42  If a bulb does not light up, check first that it is screwed in.
"""

import argparse
import time
import zlib
from pathlib import Path

import keras_bert

keras_bert.quiet_tensorflow()

from keras_bert import SentenceEmbedder, SmallVectors, quantize_vectors

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
    parser.add_argument("--dimensions", type=int, help="how many of the first numbers of a vector to keep")
    parser.add_argument("--train", help="a file of pairs or triplets to learn from first")
    parser.add_argument("--epochs", type=float, default=1)
    parser.add_argument("--output", type=Path, default=Path("search"), help="where model and vectors go, or are")
    parser.add_argument("--smoke", action="store_true", help="a step of training on a few pairs, to see that it runs")
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    texts = list(SENTENCES)
    if arguments.data is not None:
        texts = [line.strip() for line in arguments.data.read_text(encoding="utf-8").splitlines() if line.strip()]
    embedder, vectors = open_index(arguments, texts)
    queries = embedder.predict(list(arguments.query), prompt_name=embedder.prompts.query)
    begin = time.perf_counter()
    answers = vectors.search(queries, top=arguments.top, texts=texts)
    milliseconds = 1000 * (time.perf_counter() - begin) / len(queries)
    for query, hits in zip(arguments.query, answers, strict=True):
        print(f"» {query}")
        for hit in hits:
            print(f"  {hit.score:.2f}  {hit.text}")
    print(f"{len(texts):,} sentences, {milliseconds:.1f} ms a query")


def open_index(arguments, texts):
    """The embedder and the vectors of the texts, from the directory of an earlier run if it has them."""
    place = arguments.output / f"vectors-{zlib.crc32(chr(10).join(texts).encode()):08x}.npz"
    if place.exists() and arguments.train is None and not arguments.smoke:
        return keras_bert.load_task(arguments.output), SmallVectors.load(place)
    embedder = SentenceEmbedder.from_pretrained(arguments.model, dimensions=arguments.dimensions)
    if arguments.train is not None or arguments.smoke:
        pairs = arguments.train or list(zip(QUERIES, (texts[1], texts[4], texts[6]), strict=True))
        print(embedder.fit(pairs, epochs=arguments.epochs))
    vectors = quantize_vectors(embedder.predict(texts, prompt_name=embedder.prompts.document), "binary")
    embedder.save(arguments.output)
    vectors.save(place)
    return embedder, vectors


if __name__ == "__main__":
    main()
