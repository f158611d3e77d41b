"""Sampled softmax beside the full one: time of a training step, and the perplexity of what was learned.

    python benchmarks/sampled_softmax.py speed                                     # about 5 minutes on 2 cores
    python benchmarks/sampled_softmax.py speed --size minilm --batch 16
    python benchmarks/sampled_softmax.py quality --data DIR --vocabulary 30000     # about 10 minutes

`speed` prints the time of an XLA-compiled training step (length 128, 20 masked positions, AdamW with clipping, no
dropout) for each vocabulary and each number of negatives, on random ids, and what the optimizer alone takes for the
token table, which no number of negatives changes. Contenders take turns, round by round, and the minimum counts.

`quality` learns a vocabulary and trains the same small model on the prose in `DIR/enwiki.txt.gz` with each loss: same
first weights, same batches, same steps. It prints perplexity and accuracy of the full softmax on held-out text
(`DIR/enwiki_heldout.txt.gz`). Learned vocabularies and examples stay in `--work` for the next run.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from record import add_output, write_run

from keras_bert.model.config import BertConfig
from keras_bert.pretraining.corpus.writing import read_examples, write_examples
from keras_bert.pretraining.masking import Masking, mask_batches
from keras_bert.pretraining.model import features_and_labels, losses_and_metrics, pretraining_model
from keras_bert.pretraining.sampled_softmax import count_tokens
from keras_bert.system.allocator import keep_freed_memory
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import learn_vocabulary, read_vocabulary, write_vocabulary
from keras_bert.training.optimizers import bert_optimizer
from keras_bert.training.training_model import TrainingModel

# === Speed ===

LENGTH, MASKED = 128, 20


def config_for(size, vocabulary_size):
    if size == "minilm":
        config = BertConfig(num_layers=6, num_heads=12, hidden_dim=384, intermediate_dim=1536)
    else:
        config = BertConfig.preset(size)
    return config.replace(vocabulary_size=vocabulary_size, dropout=0.0, attention_dropout=0.0)


def random_batch(vocabulary_size, rows):
    rng = np.random.default_rng(0)
    batch = {
        "token_ids": rng.integers(0, vocabulary_size, (rows, LENGTH)),
        "segment_ids": np.zeros((rows, LENGTH)),
        "padding_mask": np.ones((rows, LENGTH)),
        "masked_positions": rng.integers(0, LENGTH, (rows, MASKED)),
        "masked_ids": rng.integers(0, vocabulary_size, (rows, MASKED)),
        "next_sentence_label": rng.integers(0, 2, rows),
    }
    batch = {name: tf.constant(value, tf.int32) for name, value in batch.items()}
    return {**batch, "masked_weights": tf.ones((rows, MASKED))}


def training_step(size, vocabulary_size, rows, negatives):
    """One step of `fit`, as a function to time."""
    config = config_for(size, vocabulary_size)
    model = pretraining_model(
        config, max_predictions=MASKED, negatives=negatives, seed=0, model_class=TrainingModel
    )  # the class that `keras_bert.pretraining.run` trains
    model.compile(bert_optimizer(1e-4, 1000), **losses_and_metrics(model), jit_compile=True)
    x, y, weights = features_and_labels(random_batch(vocabulary_size, rows), sampled=negatives is not None)
    return lambda: model.train_on_batch(x, y, sample_weight=weights)


def table_update(size, vocabulary_size):
    """The optimizer's pass over the token table alone."""
    config = config_for(size, vocabulary_size)
    table = keras.Variable(np.zeros((vocabulary_size, config.table_dim), "float32"))
    optimizer = bert_optimizer(1e-4, 1000)
    optimizer.build([table])
    gradient = tf.ones(table.shape)

    @tf.function(jit_compile=True)
    def update(gradient):
        optimizer.apply([gradient], [table])
        return optimizer.iterations.value

    return lambda: update(gradient).numpy()


def all_seconds(contenders, rounds):
    """Seconds of each callable; they take turns so that a slow moment of the machine hits all of them."""
    found = {name: [] for name in contenders}
    for index in range(rounds + 1):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            if index:  # the first round compiles
                found[name].append(time.perf_counter() - start)
    return found


def measure_speed(arguments):
    columns, rows = ["full", *arguments.negatives, "table"], []
    names = {"full": "full, ms", **{count: f"{count:,} negatives, ms" for count in arguments.negatives}}
    names["table"] = "AdamW on the token table, ms"
    print(f"{arguments.size}, {arguments.batch} × {LENGTH} tokens, {MASKED} masked; ms a step (full / sampled)\n")
    print(
        "| vocabulary | full softmax |",
        *(f"{k} negatives |" for k in arguments.negatives),
        "of it AdamW on the table |",
    )
    print("|" + "---|" * (len(columns) + 1))
    for vocabulary_size in arguments.vocabularies:
        contenders = {"full": training_step(arguments.size, vocabulary_size, arguments.batch, None)}
        for negatives in arguments.negatives:
            contenders[negatives] = training_step(arguments.size, vocabulary_size, arguments.batch, negatives)
        contenders["table"] = table_update(arguments.size, vocabulary_size)
        found = all_seconds(contenders, arguments.rounds)
        best = {name: min(seconds) for name, seconds in found.items()}
        times = {names[name]: [1e3 * one for one in found[name]] for name in columns}
        rows.append({"vocabulary": vocabulary_size, **times})
        cells = [f"{best[name] * 1e3:.0f}" for name in columns]
        for index, negatives in enumerate(arguments.negatives, 1):
            cells[index] += f" ({best['full'] / best[negatives]:.2f}×)"
        print(f"| {vocabulary_size:,} |", " | ".join(cells), "|", flush=True)
        del contenders
        keras.backend.clear_session()
    settings = {"size": arguments.size, "batch": arguments.batch, "length": LENGTH, "masked positions": MASKED}
    write_run(arguments.output, rows, packages=("tensorflow", "keras"), part="speed", settings=settings)


# === Quality ===


def prepare(arguments):
    """A learned vocabulary, and examples of both texts by it."""
    work = Path(arguments.work) / f"{arguments.vocabulary}"
    train, heldout = (Path(arguments.data) / f"{name}.txt.gz" for name in ("enwiki", "enwiki_heldout"))
    if not (work / "vocab.txt").exists():
        write_vocabulary(learn_vocabulary(train, arguments.vocabulary, progress=False), work / "vocab.txt")
    tokenizer = BertTokenizer(read_vocabulary(work / "vocab.txt"))
    for text, name in ((train, "train"), (heldout, "heldout")):
        write_examples([text], work / name, tokenizer, sequence_length=arguments.length, pairs="single", progress=False)
    return tokenizer, work


def batches(directory, tokenizer, arguments, *, sampled, shuffle):
    data = read_examples(
        directory, batch_size=arguments.batch, tokenizer=tokenizer, seed=1, shuffle=shuffle, drop_remainder=True
    )
    shape = [None, arguments.length]

    def pad(batch):
        tokens = batch["token_ids"]
        return {
            "token_ids": tokens.to_tensor(tokenizer.pad_id, shape=shape),
            "segment_ids": batch["segment_ids"].to_tensor(0, shape=shape),
            "padding_mask": tf.ones_like(tokens).to_tensor(0, shape=shape),
        }

    masking = Masking.for_tokenizer(tokenizer, max_predictions=arguments.masked)
    masked = mask_batches((data.repeat() if shuffle else data).map(pad), masking, seed=2)
    return masked.map(lambda batch: features_and_labels(batch, next_sentence=False, sampled=sampled)).prefetch(4)


def train_and_evaluate(arguments, tokenizer, work, negatives, counts):
    config = config_for(arguments.size, tokenizer.vocabulary_size)
    model = pretraining_model(
        config,
        max_predictions=arguments.masked,
        next_sentence=False,
        negatives=negatives,
        token_counts=counts,
        seed=arguments.seed,
        model_class=TrainingModel,
    )
    optimizer = bert_optimizer(arguments.rate, arguments.steps)
    model.compile(optimizer, **losses_and_metrics(model), jit_compile=True, steps_per_execution=10)
    data = batches(work / "train", tokenizer, arguments, sampled=negatives is not None, shuffle=True)
    start = time.perf_counter()
    model.fit(data, steps_per_epoch=arguments.steps, verbose=0, shuffle=False)
    seconds = time.perf_counter() - start
    checks = batches(work / "heldout", tokenizer, arguments, sampled=negatives is not None, shuffle=False)
    measured = model.evaluate(checks.take(100), verbose=0, return_dict=True)
    # A model with one output has metrics without its name.
    return measured["perplexity"], measured["accuracy"], seconds


def measure_quality(arguments):
    tokenizer, work = prepare(arguments)
    size = tokenizer.vocabulary_size
    special = Masking.for_tokenizer(tokenizer).special_ids
    examples = read_examples(work / "train", batch_size=1024, tokenizer=tokenizer)
    counts = count_tokens(examples, size, leave_out=special)
    settings = f"{arguments.batch} × {arguments.length} tokens, {arguments.steps} steps, rate {arguments.rate}"
    print(f"{arguments.size}, vocabulary {size:,}, {settings}, seed {arguments.seed}\n")
    print(
        "| softmax in training | held-out perplexity | to full | held-out accuracy | seconds |\n|---|---|---|---|---|"
    )
    contenders = [("full", None, counts)] if arguments.full is None else []
    contenders += [(f"{negatives} negatives", negatives, counts) for negatives in arguments.negatives]
    full, rows = arguments.full, []
    for name, negatives, token_counts in contenders:
        if arguments.only and arguments.only not in name:
            continue
        perplexity, accuracy, seconds = train_and_evaluate(arguments, tokenizer, work, negatives, token_counts)
        full = perplexity if full is None else full
        change = f"{perplexity / full - 1:+.1%}"
        print(f"| {name} | {perplexity:.2f} | {change} | {accuracy:.4f} | {seconds:.0f} |", flush=True)
        shown = name if negatives is None else f"{negatives:,} negatives"
        row = {"softmax in training": shown, "perplexity": perplexity, "accuracy": accuracy, "seconds": seconds}
        rows.append(row)
        keras.backend.clear_session()
    about = {"size": arguments.size, "vocabulary": size, "batch": arguments.batch, "length": arguments.length}
    facts = {"seeds": [arguments.seed], "settings": {**about, "steps": arguments.steps, "rate": arguments.rate}}
    write_run(arguments.output, rows, packages=("tensorflow", "keras"), part="quality", **facts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    modes = parser.add_subparsers(required=True)
    speed = modes.add_parser("speed")
    speed.set_defaults(run=measure_speed, batch=32, size="mini", negatives=[1024, 4096])
    speed.add_argument("--vocabularies", type=int, nargs="+", default=[30_000, 120_000])
    speed.add_argument("--rounds", type=int, default=8)
    quality = modes.add_parser("quality")
    quality.set_defaults(run=measure_quality, batch=64, size="tiny", negatives=[1024])
    quality.add_argument("--data", required=True, help="where enwiki.txt.gz and enwiki_heldout.txt.gz are")
    quality.add_argument("--work", default="/tmp/sampled_softmax", help="keeps vocabularies and examples")
    quality.add_argument("--vocabulary", type=int, default=30_000)
    quality.add_argument("--steps", type=int, default=1000)
    quality.add_argument("--rate", type=float, default=1e-3)
    quality.add_argument("--length", type=int, default=64)
    quality.add_argument("--masked", type=int, default=10)
    quality.add_argument("--seed", type=int, default=0)
    quality.add_argument("--full", type=float, help="perplexity of the full softmax, where it is known already")
    quality.add_argument("--only", help="run the contenders with this in their name alone")
    for mode in (speed, quality):
        mode.add_argument("--size", help="a preset, or minilm")
        mode.add_argument("--batch", type=int)
        mode.add_argument("--negatives", type=int, nargs="+")
        add_output(mode, "sampled_softmax")
    arguments = parser.parse_args()
    keep_freed_memory()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
