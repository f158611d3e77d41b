"""Pretraining steps on real text: ours (packed and padded rows), keras-hub's BERT, transformers' `BertForPreTraining`.

    python benchmarks/pretraining.py --data DIR           # tokens per second; about 6 minutes on 2 cores
    python benchmarks/pretraining.py --data DIR --idle    # does the input keep up with the step? about 3 minutes
    python benchmarks/pretraining.py --data DIR --input   # rows of the input alone, by processor time; about 1 minute

DIR holds `enwiki.txt.gz`, prose with a blank line between documents. From it come two sets of next-sentence examples of
at most 128 tokens: *full* (articles as documents; the examples that have all 128 tokens) and *short* (each paragraph a
document of its own). MiniLM's sizes (6 layers, width 384) and vocabulary, 16 × 128 tokens a step, at most 20 masked
positions a row, MLM and NSP, AdamW, dropout 0.1. Everything on Keras is compiled by XLA, its fastest setting here. Only
real tokens count: padding is no work done.

Contenders take turns, step by step, on some batches in memory; the minimum for each batch counts. PyTorch has a thread
pool of its own, so it waits for its turn in a process of its own; its batches are padded to their longest example, as
transformers' collators do. All of them have `keep_freed_memory()`. `BertForPreTraining` scores every token over the
vocabulary; the row "masked positions alone" is transformers with that waste taken out by hand.

`--input` counts the rows that leave the input for each second of processor time, in all threads together, for examples
that are parsed, packed and masked here and for rows that were packed when they were written and are masked by the step.
It writes pretraining_input.json.
"""

import argparse
import contextlib
import gzip
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import keras_hub
import numpy as np
import tensorflow as tf
from encoder import CONFIG, LENGTH, MASKED, TRAIN_BATCH, theirs
from record import add_output, write_run

from keras_bert.checkpoint.loading import load_tokenizer
from keras_bert.model.encoder import bert_encoder
from keras_bert.pretraining.batches import training_batches
from keras_bert.pretraining.corpus.writing import read_examples, write_examples
from keras_bert.pretraining.masking import Masking, mask_batches
from keras_bert.pretraining.model import features_and_labels, pretraining_model
from keras_bert.pretraining.run import PretrainingPlan
from keras_bert.pretraining.shared_rows import pack_rows
from keras_bert.system.allocator import keep_freed_memory

BATCHES, COUNTED = 4, 200
TORCH = {"transformers": "whole", "transformers, masked positions alone": "masked"}

# === The text ===


def make_examples(data, folder, tokenizer, megabytes):
    """Directories of examples by name: articles as documents, and paragraphs as documents."""
    with gzip.open(data / "enwiki.txt.gz", "rt", encoding="utf-8") as file:
        text = file.read(int(megabytes * 1e6))
    (folder / "full.txt").write_text(text, encoding="utf-8")
    (folder / "short.txt").write_text(text.replace("\n", "\n\n"), encoding="utf-8")
    for name in ("full", "short"):
        source, target = folder / f"{name}.txt", folder / name
        write_examples(source, target, tokenizer, sequence_length=LENGTH, workers=1, progress=False)
    return {name: folder / name for name in ("full", "short")}


def masked_batches(directory, tokenizer, *, packed, full):
    """Masked batches of 16 rows, from the same examples in the same order whether packed or padded."""
    data = read_examples(directory, seed=1)
    if full:
        data = data.filter(lambda example: tf.size(example["token_ids"]) == LENGTH)
    if packed:
        windows = data.ragged_batch(512)
        rows = pack_rows(windows, sequence_length=LENGTH, batch_size=TRAIN_BATCH, seed=1, drop_remainder=True)
    else:
        data = data.map(lambda example: {**example, "padding_mask": tf.ones_like(example["token_ids"])})
        widths = {name: [LENGTH] for name in ("token_ids", "segment_ids", "padding_mask")}
        rows = data.padded_batch(TRAIN_BATCH, {**widths, "next_sentence_label": []}, drop_remainder=True)
    return mask_batches(rows, Masking.for_tokenizer(tokenizer, max_predictions=MASKED), seed=1)


def count_tokens(batches):
    """Real tokens of a step, on average."""
    return float(np.mean([np.count_nonzero(batch["padding_mask"]) for batch in batches.take(COUNTED)]))


# === The contenders on Keras ===


def keras_models():
    encoder = bert_encoder(CONFIG, seed=0)
    backbone = theirs(encoder)
    head = keras_hub.layers.MaskedLMHead(
        vocabulary_size=CONFIG.vocabulary_size,
        token_embedding=backbone.token_embedding,
        intermediate_activation=lambda x: keras.activations.gelu(x, approximate=True),
        name="mlm_head",
    )
    positions = keras.Input((MASKED,), dtype="int32", name="masked_positions")
    outputs = {
        "mlm_logits": head(backbone.output["sequence_output"], positions),
        "nsp_logits": keras.layers.Dense(2, name="nsp")(backbone.output["pooled_output"]),
    }
    return {
        "ours, packed": pretraining_model(CONFIG, max_predictions=MASKED, packed=True, seed=0),
        "ours, padded": pretraining_model(CONFIG, max_predictions=MASKED, encoder=encoder, seed=0),
        "keras-hub": keras.Model({**backbone.input, "masked_positions": positions}, outputs),
    }


def keras_step(model):
    """One step as a function of a batch; the same for all models."""
    optimizer = keras.optimizers.AdamW(1e-4)
    optimizer.build(model.trainable_variables)
    values = [variable.value for variable in model.trainable_variables]

    def step(inputs, labels, weights):
        with tf.GradientTape() as tape:
            logits = model(inputs, training=True)
            loss = 0.0
            for head, scores in logits.items():
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels[head], scores)
                loss += tf.reduce_sum(losses * weights[head]) / tf.reduce_sum(weights[head])
        optimizer.apply(tape.gradient(loss, values), model.trainable_variables)
        return loss

    compiled = tf.function(step, jit_compile=True)
    return lambda batch: float(compiled(*batch))


# === The contender on PyTorch ===


@contextlib.contextmanager
def torch_worker(path):
    """A function that asks the other process for one step, and gives its seconds; `None` where torch is missing."""
    command = [sys.executable, __file__, "--torch-worker", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:

        def run(kind, number):
            worker.stdin.write(f"{kind} {number}\n")
            worker.stdin.flush()
            return float(worker.stdout.readline())

        yield run if worker.stdout.readline() == "ready\n" else None
        worker.stdin.close()


def work_for_torch(path):
    """Reads `kind number` from the input, takes a step with that batch, writes its seconds."""
    try:
        import torch
        from transformers import BertConfig, BertForPreTraining
    except ImportError:
        return
    torch.set_num_threads(os.cpu_count())
    config = BertConfig(
        num_hidden_layers=CONFIG.num_layers,
        num_attention_heads=CONFIG.num_heads,
        hidden_size=CONFIG.hidden_dim,
        intermediate_size=CONFIG.intermediate_dim,
        hidden_act="gelu_new",
    )
    model = BertForPreTraining(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    arrays = {name: torch.from_numpy(value).long() for name, value in np.load(path).items()}
    print("ready", flush=True)
    for line in sys.stdin:
        kind, number = line.split()
        batch = {name: value[int(number)] for name, value in arrays.items()}
        start = time.perf_counter()
        torch_loss(model, batch, kind).backward()
        optimizer.step()
        optimizer.zero_grad()
        print(time.perf_counter() - start, flush=True)


def torch_loss(model, batch, kind):
    from torch.nn.functional import cross_entropy

    longest = int(batch["padding_mask"].sum(1).max())
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    inputs = {theirs: batch[ours][:, :longest] for ours, theirs in names.items()}
    rows, columns = batch["masked_weights"].nonzero(as_tuple=True)
    positions = batch["masked_positions"][rows, columns]
    ids = batch["masked_ids"][rows, columns]
    if kind == "whole":
        labels = inputs["input_ids"].new_full(inputs["input_ids"].shape, -100)
        labels[rows, positions] = ids
        return model(**inputs, labels=labels, next_sentence_label=batch["next_sentence_label"]).loss
    output = model.bert(**inputs)
    scores, relation = model.cls(output.last_hidden_state[rows, positions], output.pooler_output)
    return cross_entropy(scores, ids) + cross_entropy(relation, batch["next_sentence_label"])


# === Measuring ===


def seconds_by_turns(contenders, rounds):
    """Seconds of a step: for each batch the minimum, then the mean over the batches."""
    taken = {name: [[] for _ in range(BATCHES)] for name in contenders}
    for turn in range(rounds * BATCHES + 1):  # the first is to warm up
        for name, run in contenders.items():
            seconds = run(turn % BATCHES)
            if turn:
                taken[name][turn % BATCHES].append(seconds)
    return {name: float(np.mean([min(batch) for batch in batches])) for name, batches in taken.items()}


def timed(step, batches):
    def run(number):
        start = time.perf_counter()
        step(batches[number])
        return time.perf_counter() - start

    return run


def speed_table(title, directory, tokenizer, steps, folder, rounds):
    full = title == "full"
    data = {packed: masked_batches(directory, tokenizer, packed=packed, full=full) for packed in (True, False)}
    tokens = {packed: count_tokens(batches) for packed, batches in data.items()}
    shown = {packed: list(batches.take(BATCHES)) for packed, batches in data.items()}
    arrays = {name: np.stack([batch[name] for batch in shown[False]]) for name in shown[False][0]}
    np.savez(folder / "batches.npz", **arrays)
    ready = {packed: [features_and_labels(batch) for batch in batches] for packed, batches in shown.items()}
    contenders = {name: timed(step, ready[name == "ours, packed"]) for name, step in steps.items()}
    with torch_worker(folder / "batches.npz") as run_torch:
        for name, kind in TORCH.items() if run_torch else ():
            contenders[name] = lambda number, kind=kind: run_torch(kind, number)
        seconds = seconds_by_turns(contenders, rounds)
    places = TRAIN_BATCH * LENGTH
    filled = {packed: count / places for packed, count in tokens.items()}
    print(f"\n{title}: padded rows are filled to {filled[False]:.1%}, packed rows to {filled[True]:.1%}\n")
    print("| | s a step | tokens/s | ours packed / this | ours padded / this |\n|---|---|---|---|---|")
    rates = {name: tokens[name == "ours, packed"] / taken for name, taken in seconds.items()}
    for name, rate in rates.items():
        ratios = " | ".join(f"{rates[ours] / rate:.2f}" for ours in ("ours, packed", "ours, padded"))
        print(f"| {name} | {seconds[name]:.3f} | {rate:,.0f} | {ratios} |", flush=True)
    return {"rows": title, **rates}, filled


def idle_table(directories, tokenizer, model, rounds):
    """The real input (read, shuffle, pack, mask) beside the same batches from memory, in turns of one step each."""
    step, rows = keras_step(model), []
    print("\n| examples | s a step | of it waiting for input | slower than from memory | input alone, batches/s |")
    print("|---|---|---|---|---|")
    for name, directory in directories.items():
        plan = PretrainingPlan(steps=500, batch_size=TRAIN_BATCH, packed=True, max_predictions=MASKED)
        data = training_batches(directory, CONFIG, tokenizer, plan)
        memory = itertools.cycle(list(data.take(BATCHES)))
        step(next(memory))
        start = time.perf_counter()
        alone = sum(1 for _ in data.take(COUNTED)) / (time.perf_counter() - start)
        waits, real, cached = [], [], []
        for _ in range(rounds):
            stream = iter(data)
            next(stream)  # opening files and filling the buffers is no part of a step
            for _ in range(8):
                start = time.perf_counter()
                batch = next(stream)
                waits.append(time.perf_counter() - start)
                step(batch)
                real.append(time.perf_counter() - start)
            del stream  # ends its threads
            for _ in range(8):
                start = time.perf_counter()
                step(next(memory))
                cached.append(time.perf_counter() - start)
        idle, slower = sum(waits) / sum(real), np.median(real) / np.median(cached) - 1
        print(f"| {name} | {np.median(real):.3f} | {idle:.2%} | {slower:+.1%} | {alone:.0f} |", flush=True)
        row = {"rows": name, "waiting for input, %": 100 * idle, "slower than from memory, %": 100 * slower}
        rows.append({**row, "input alone, batches/s": alone, "s a step": np.median(real)})
    return rows


def input_table(text, folder, tokenizer, rounds):
    """Rows a second of processor time, for each layout and size of a batch."""
    found = []
    print("\n| written as | plan | rows of a batch | rows for a second of one core | of two |\n|---|---|---|---|---|")
    for layout in ("examples", "padded", "packed"):
        directory = folder / layout
        options = {"sequence_length": LENGTH, "workers": 1, "progress": False, "layout": layout}
        start = time.process_time()
        write_examples(text, directory, tokenizer, **options)
        written = time.process_time() - start
        for packed in (False, True) if layout == "examples" else (layout == "packed",):
            for size in (TRAIN_BATCH, 256):
                plan = PretrainingPlan(steps=500, batch_size=size, packed=packed, max_predictions=MASKED)
                data = training_batches(directory, CONFIG, tokenizer, plan, masked=layout == "examples")
                rates = [input_rate(data, size) for _ in range(rounds)]
                row = {"written as": layout, "packed": packed, "rows of a batch": size, "s to write": written}
                found.append({**row, "rows for a second of one core": rates})
                rate = float(np.median(rates))
                print(f"| {layout} | packed={packed} | {size} | {rate:,.0f} | {2 * rate:,.0f} |", flush=True)
    return found


def input_rate(data, size):
    """Rows for a second of processor time of this process, with all of its threads."""
    stream = iter(data)
    for _ in range(8):  # opens files and fills the buffers
        next(stream)
    count = max(20, 20_000 // size)
    start = time.process_time()
    for _ in range(count):
        next(stream)
    return round(count * size / (time.process_time() - start), 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=".", help="the directory of enwiki.txt.gz")
    parser.add_argument("--megabytes", type=float, default=8, help="how much of the text to take")
    parser.add_argument("--rounds", type=int, default=3, help="turns with each batch")
    parser.add_argument("--examples", choices=("full", "short"), help="only these, in half the time")
    parser.add_argument("--idle", action="store_true", help="measure the input instead")
    parser.add_argument("--input", action="store_true", help="measure the input alone, by processor time")
    parser.add_argument("--torch-worker", help=argparse.SUPPRESS)
    add_output(parser, "pretraining")
    arguments = parser.parse_args()
    keep_freed_memory()
    if arguments.torch_worker:
        work_for_torch(arguments.torch_worker)
        return
    tokenizer = load_tokenizer("all-MiniLM-L6-v2")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.input:
            with gzip.open(arguments.data / "enwiki.txt.gz", "rt", encoding="utf-8") as file:
                (folder / "text.txt").write_text(file.read(int(arguments.megabytes * 1e6)), encoding="utf-8")
            rows = input_table(folder / "text.txt", folder, tokenizer, arguments.rounds)
            write_run(arguments.output.with_name("pretraining_input.json"), rows, packages=("tensorflow", "numpy"))
            return
        made = make_examples(arguments.data, folder, tokenizer, arguments.megabytes)
        directories = {name: path for name, path in made.items() if arguments.examples in (None, name)}
        if arguments.idle:
            model = pretraining_model(CONFIG, max_predictions=MASKED, packed=True, seed=0)
            rows = idle_table(directories, tokenizer, model, arguments.rounds)
            write_run(arguments.output, rows, packages=("tensorflow", "keras"), part="idle")
            return
        steps = {name: keras_step(model) for name, model in keras_models().items()}
        rows, settings = [], {"batch": TRAIN_BATCH, "length": LENGTH, "masked positions": MASKED}
        for title, directory in directories.items():
            row, filled = speed_table(title, directory, tokenizer, steps, folder, arguments.rounds)
            rows.append(row)
            for packed, share in filled.items():
                settings[f"{title}, {'packed' if packed else 'padded'} rows are full to"] = share
    packages = ("tensorflow", "keras", "keras-hub", "torch", "transformers")
    contenders = [name for name in rows[0] if name != "rows"]
    write_run(arguments.output, rows, packages=packages, part="speed", settings=settings, contenders=contenders)


if __name__ == "__main__":
    main()
