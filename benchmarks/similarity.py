"""Sentence encoders on STS-B without tuning, and how many sentences a second they embed, beside PyTorch.

    python benchmarks/similarity.py --data DIR                       # DIR holds STS-B/; 2 cores: a minute
    python benchmarks/similarity.py --data DIR --train --epochs 4    # after training on STS-B's scores: some minutes
    python benchmarks/similarity.py --data DIR --rounds 0            # the correlations alone
    python benchmarks/similarity.py --data DIR --rounds 0 --model tiny-en

Prints Spearman and Pearson (times 100) of the cosines with the scores of the dev set, and sentences a second: the best
of several rounds over all sentences of the dev set, tokenized before, in batches of 64 of similar length. PyTorch runs
transformers' BertModel with mean pooling on the very same arrays; it is left out where it is not installed. Writes
benchmarks/results/similarity.json.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from record import add_output, write_run

import keras_bert
from keras_bert.batching.length_buckets import length_sorted_batches
from keras_bert.batching.widths import bucket_boundaries
from keras_bert.checkpoint.hub import find_directory
from keras_bert.data.glue import read_glue
from keras_bert.tasks.similarity.task import SentenceEmbedder

BATCH = 64


def batches_of(embedder, texts):
    """The texts as arrays, in the batches that `predict` makes."""
    tokenized, _, _ = embedder.tokenize(texts)
    widths = bucket_boundaries(tokenized.lengths, sequence_length=embedder.sequence_length)
    batches, _ = length_sorted_batches(tokenized, batch_size=BATCH, boundaries=widths)
    return [{name: value.numpy() for name, value in inputs.items()} for inputs in batches]


def ours(embedder):
    """Our forward pass over a batch of arrays."""
    import tensorflow as tf

    forward = embedder.forward(embedder.model)
    return lambda batch: forward({k: tf.constant(v) for k, v in batch.items()})["sentence_embedding"].numpy()


def pytorch(model):
    """PyTorch's, with mean pooling and vectors of length 1."""
    import torch
    import transformers

    reference = transformers.BertModel.from_pretrained(find_directory(model)).eval()

    def embed(batch):
        with torch.inference_mode():
            ids, segments, mask = (
                torch.from_numpy(batch[key]).long() for key in ("token_ids", "segment_ids", "padding_mask")
            )
            states = reference(input_ids=ids, token_type_ids=segments, attention_mask=mask).last_hidden_state
            share = mask[..., None].float()
            return torch.nn.functional.normalize((states * share).sum(1) / share.sum(1), dim=1).numpy()

    return embed


def rate(embed, batches, rounds):
    """Sentences a second in the best of several rounds, after one that warms up."""
    vectors, seconds = np.concatenate([embed(batch) for batch in batches]), []
    for _ in range(rounds):
        start = time.perf_counter()
        for batch in batches:
            embed(batch)
        seconds.append(time.perf_counter() - start)
    return vectors, len(vectors) / min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the directory of the GLUE files")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--rounds", type=int, default=5, help="of timing; 0 leaves it out")
    parser.add_argument("--train", action="store_true", help="train on STS-B's scores first")
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--seed", type=int, default=0)
    add_output(parser, "similarity")
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    dev = read_glue("STS-B", arguments.data, "dev")
    embedder = SentenceEmbedder.from_pretrained(arguments.model, score_range=(0, 5))
    name = Path(arguments.model).name
    line = {"weights": name, "training": f"{arguments.epochs:g} epochs" if arguments.train else ""}
    if arguments.train:
        changes = {"epochs": arguments.epochs, "learning_rate": arguments.learning_rate, "seeds": (arguments.seed,)}
        embedder.fit(read_glue("STS-B", arguments.data, "train"), verbose=0, **changes)
    scores = embedder.evaluate(dev)
    line |= {"Spearman": 100 * scores.spearman, "Pearson": 100 * scores.pearson}
    if arguments.rounds:
        batches = batches_of(embedder, [*dev.texts, *dev.pairs])
        vectors, line["sentences/s"] = rate(ours(embedder), batches, arguments.rounds)
        try:
            theirs, line["PyTorch, sentences/s"] = rate(pytorch(arguments.model), batches, arguments.rounds)
            if not arguments.train:
                line["largest difference"] = float(np.abs(vectors - theirs).max())
        except ImportError as error:
            print(f"PyTorch is left out: {error}")
    part = name + (", trained" if arguments.train else "")
    about = {"seeds": [arguments.seed]} if arguments.train else {}
    write_run(arguments.output, [line], packages=("tensorflow", "keras"), part=part, **about)
    print(line)


if __name__ == "__main__":
    main()
