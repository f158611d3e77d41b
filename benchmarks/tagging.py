"""Entities beside transformers: entity F1 and sentences per second, same weights, data, batch size and epochs.

    python benchmarks/tagging.py wnut17 --data DIR --seeds 0 1                   # English, noisy; MiniLM
    python benchmarks/tagging.py ner_zh_resume --data DIR --model a-chinese-bert/ --seeds 0 1
    python benchmarks/tagging.py wnut17 --data DIR --contenders ours crf         # without PyTorch

DIR holds `wnut17/` and `ner_zh_resume/`. The contenders: `ours` (softmax, packed rows), `crf` (a CRF on buckets of
similar length), both as `EntityTagger.fit` trains them, and `torch` (transformers' BertForTokenClassification on the
same buckets and labels, with the same schedule). Each runs in a process of its own, one after the other. F1 is that of
the test split after the last step, once for the best tags (`free`) and once for the best legal sequence of tags
(`legal`); nothing is chosen by it. The speed is that of the last pass over the data, in which nothing is compiled any
more.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

FILES = {
    "wnut17": ("wnut17/wnut17train.conll", "wnut17/emerging.test.annotated"),
    "ner_zh_resume": ("ner_zh_resume/train.char.bmes", "ner_zh_resume/test.char.bmes"),
}


def prepare(arguments, head="softmax"):
    """The tagger, its training data, and the test rows."""
    import keras_bert
    from keras_bert.tasks.tagged_rows import read_tagged
    from keras_bert.tasks.tagging import EntityTagger

    keras_bert.keep_freed_memory()
    train, test = (read_tagged(arguments.data / name) for name in FILES[arguments.set])
    kinds = sorted({*train.entity_kinds, *test.entity_kinds})
    options = {"head": head, "sequence_length": arguments.length, "seed": arguments.seed}
    tagger = EntityTagger.from_pretrained(arguments.model, labels=kinds, **options)
    return tagger, tagger._prepare(train[: arguments.examples], None), test


def scores(tagger, test):
    """Entity F1 of the best tags and of the best legal sequence."""
    found = {}
    for name, tagger.constrained in (("free", False), ("legal", True)):
        found[name] = tagger.evaluate(test).f1
    return found


# === Contenders: each gives the seconds of its passes and the F1 after the last ===


def ours(arguments, head="softmax"):
    import keras

    from keras_bert.training.layerwise import finetuning_optimizer
    from keras_bert.training.recipes import Recipe
    from keras_bert.training.training_model import TrainingModel
    from keras_bert.weight_copying import copy_weights

    tagger, data, test = prepare(arguments, head)
    times = []

    class Clock(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.start = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            times.append(time.perf_counter() - self.start)

    # What `fit` trains with, without its measurements on the way.
    recipe = Recipe(learning_rate=arguments.rate, batch_size=arguments.batch, epochs=arguments.epochs)
    table = data.tokenized.used_ids()
    batches, steps = tagger._training_batches(data, arguments.batch, packed=tagger.trains_packed, table=table)
    model = TrainingModel.from_model(tagger._fresh_model(recipe, arguments.seed, table))
    optimizer = finetuning_optimizer(arguments.rate, steps * arguments.epochs)
    model.compile(optimizer, loss=tagger._loss(), jit_compile=True)
    model.fit(
        batches(arguments.seed, 0, arguments.epochs),
        steps_per_epoch=steps,
        epochs=arguments.epochs,
        shuffle=False,
        verbose=0,
        callbacks=[Clock()],
    )
    copy_weights(model, tagger.model, table_rows=table)
    tagger._keep_beside(tagger._learned_beside(model))
    return data.num_examples, times, scores(tagger, test)


def crf(arguments):
    return ours(arguments, "crf")


def torch(arguments):
    import torch
    from transformers import BertForTokenClassification, get_linear_schedule_with_warmup

    from keras_bert.checkpoint.hub import find_directory

    torch.manual_seed(arguments.seed)
    tagger, data, test = prepare(arguments)
    batches, steps = tagger._training_batches(data, arguments.batch)
    model = BertForTokenClassification.from_pretrained(find_directory(arguments.model), num_labels=len(tagger.labels))
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.rate, weight_decay=0.01)
    total = steps * arguments.epochs
    schedule = get_linear_schedule_with_warmup(optimizer, int(0.1 * total), total)
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}

    def tensors(inputs):
        return {theirs: torch.from_numpy(inputs[ours].numpy()).long() for ours, theirs in names.items()}

    seconds = []
    for epoch in range(arguments.epochs):
        model.train()
        start = time.perf_counter()
        for inputs, labels, weights in batches(arguments.seed, epoch, 1):
            # −100 is what transformers ignores.
            target = np.where(weights["token_logits"] > 0, labels["token_logits"], -100)
            loss = model(**tensors(inputs), labels=torch.from_numpy(target).long()).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        seconds.append(time.perf_counter() - start)
    model.eval()

    def forward(inputs):
        with torch.no_grad():
            logits = model(**tensors(inputs)).logits.numpy()
        return {"token_logits": _Array(logits)}

    tagger._forward = lambda _: forward  # decoded and measured by the same code
    return data.num_examples, seconds, scores(tagger, test)


class _Array:
    """An array that answers `numpy()`, as a tensor does."""

    def __init__(self, values):
        self._values = values

    def numpy(self):
        return self._values


CONTENDERS = {"ours": ours, "crf": crf, "torch": torch}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=FILES)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--examples", type=int, help="train on the first so many sentences")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)  # of one process
    arguments = parser.parse_args()
    if arguments.seed is not None:
        print(json.dumps(CONTENDERS[arguments.contenders[0]](arguments)))
        return
    print(
        "| contender | seed | F1 free | F1 legal | sentences/s, last pass | first pass, s |\n|---|---|---|---|---|---|"
    )
    for seed in arguments.seeds:
        for name in arguments.contenders:
            command = [sys.executable, __file__, *sys.argv[1:], "--contenders", name, "--seed", str(seed)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            count, seconds, found = json.loads(done.stdout.splitlines()[-1])
            free, legal = (100 * found[key] for key in ("free", "legal"))
            speed = count / seconds[-1]
            print(f"| {name} | {seed} | {free:.2f} | {legal:.2f} | {speed:.1f} | {seconds[0]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
