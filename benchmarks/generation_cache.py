"""How much the key/value cache saves: 64 new tokens with it, and by running the whole prefix again for each of them.

    python benchmarks/generation_cache.py                                  # MiniLM, some 5 minutes on one quiet core
    python benchmarks/generation_cache.py --model simbert/ --batches 1 --sources 32

Both contenders write greedily with the same weights, and must write the same tokens. `recomputed` runs the model over
source and target as far as they go, as one graph for all lengths, and scores the last token alone; `cached` is what
`Seq2Seq.generate` does. The least of several repetitions each, after a first one that compiles.
"""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from record import add_output, write_run

from keras_bert import Seq2Seq
from keras_bert.tasks.generation.cached_decoder import score_tokens
from keras_bert.tasks.generation.sampling import Decoding, TextTokens, restrict
from keras_bert.tasks.generation.token_writer import TokenWriter


def recomputing_writer(task, tokens, decoding):
    """A function from sources to written ids that keeps nothing from token to token."""
    import keras

    states_of = keras.Model(task.model.input, task.model.get_layer("mlm_transform").input)
    spec = [tf.TensorSpec([None, None], tf.int32)] * 3 + [tf.TensorSpec([], tf.int32)]

    @tf.function(input_signature=spec)
    def next_tokens(token_ids, segment_ids, written, index):
        inputs = {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": tf.ones_like(token_ids)}
        scores = score_tokens(task.model, states_of(inputs, training=False)[:, -1])
        return tf.argmax(restrict(scores, written, index, tokens, decoding), axis=-1, output_type=tf.int32)

    def write(sources):
        written = np.full((len(sources), 1 + decoding.max_length), tokens.pad_id, np.int32)
        written[:, 0] = tokens.start_id
        for index in range(1, decoding.max_length + 1):
            token_ids = np.concatenate([sources, written[:, 1:index]], axis=1)
            segment_ids = (np.arange(token_ids.shape[1]) >= sources.shape[1]).astype(np.int32)
            written[:, index] = next_tokens(
                token_ids, np.broadcast_to(segment_ids, token_ids.shape), written, index
            ).numpy()
        return written[:, 1:].tolist()

    return write


def sources_of(task, rows, length, seed=0):
    """Random tokens between `[CLS]` and `[SEP]`."""
    random = np.random.default_rng(seed)
    ids = random.integers(1000, task.tokenizer.vocabulary_size, (rows, length)).astype(np.int32)
    ids[:, 0], ids[:, -1] = task.tokenizer.cls_id, task.tokenizer.sep_id
    return ids


def timed(function, repeats):
    """The result of a function and the seconds that it took each time, compiling left out."""
    result, seconds = function(), []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return result, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a directory or name with pretrained weights")
    parser.add_argument("--batches", type=int, nargs="+", default=(1, 8), help="texts at a time")
    parser.add_argument("--sources", type=int, nargs="+", default=(64, 128, 256), help="tokens of a source")
    parser.add_argument("--tokens", type=int, default=64, help="new tokens")
    parser.add_argument("--repeats", type=int, default=3)
    add_output(parser, "generation_cache")
    arguments = parser.parse_args()
    task = Seq2Seq.from_pretrained(arguments.model)
    tokens = TextTokens.of(task.tokenizer, task.config.vocabulary_size)
    decoding = Decoding(max_length=arguments.tokens, min_length=arguments.tokens)
    writer, recompute = TokenWriter(task.model, tokens, decoding), recomputing_writer(task, tokens, decoding)
    print(f"{arguments.model}, {arguments.tokens} new tokens, greedy, seconds")
    print("| texts | source tokens | recomputed | cached | times faster | same tokens |\n|---|---|---|---|---|---|")
    found = []
    for rows in arguments.batches:
        for length in arguments.sources:
            ids = sources_of(task, rows, length)
            cached, taken = timed(lambda ids=ids: writer.write(ids, np.ones_like(ids)), arguments.repeats)
            plain, spent = timed(lambda ids=ids: recompute(ids), max(1, arguments.repeats - 1))
            slow, fast = min(spent), min(taken)
            found.append({"texts": rows, "source tokens": length, "recomputed, s": spent, "cached, s": taken})
            same = np.mean([one == other for one, other in zip(cached, plain, strict=True)])
            print(f"| {rows} | {length} | {slow:.2f} | {fast:.2f} | {slow / fast:.1f} | {same:.0%} |", flush=True)
            found[-1]["same tokens, %"] = 100 * same
    settings = {"model": os.path.basename(arguments.model.rstrip("/")), "new tokens": arguments.tokens}
    write_run(arguments.output, found, packages=("tensorflow", "keras"), settings=settings)


if __name__ == "__main__":
    main()
