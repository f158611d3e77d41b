"""Fine-tuning on SST-2 beside its peers: examples per second and accuracy, same weights, data, batch size and epochs.

    python benchmarks/finetuning.py --data DIR --examples 3200                    # speed: about 8 minutes on 2 cores
    python benchmarks/finetuning.py --data DIR --contenders ours torch --examples 67349      # and accuracy

DIR holds `glue/SST-2/`. The contenders: `ours` (what `TextClassifier.fit` trains: packed rows, the used rows of the
token table, XLA), `torch` (transformers with length buckets, as `batching/length_buckets.py` makes them) and `hub`
(keras-hub's `BertTextClassifier` at a fixed length of 64), all with the same schedule of the rate. Each runs in a
process of its own, one after the other. The speed is that of a second pass over the data, in which nothing is compiled
any more; the time of the first is printed too. All have `keep_freed_memory()`.
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
from peer_training import SHOWN, make_clock
from record import add_output, write_run

MODEL, LENGTH, BATCH, RATE = "all-MiniLM-L6-v2", 128, 32, 5e-5


def read(arguments):
    from keras_bert.data.glue import read_glue

    train, dev = (read_glue("SST-2", arguments.data / "glue", split) for split in ("train", "dev"))
    chosen = np.random.default_rng(arguments.seed).permutation(len(train))[: arguments.examples]
    return [train[int(index)] for index in chosen], dev


def prepare(arguments):
    """The classifier, its training data, and the labelled dev set."""
    import keras_bert

    train, dev = read(arguments)
    options = {"labels": ["0", "1"], "sequence_length": LENGTH, "pooling": "cls"}  # as the peers have it
    classifier = keras_bert.TextClassifier.from_pretrained(MODEL, seed=0, **options)
    return classifier, train, dev


# === Contenders: each gives seconds of the passes, and the accuracy after the last ===


def ours(arguments):
    import keras_bert
    from keras_bert.finetuning.layerwise_adamw import finetuning_optimizer
    from keras_bert.model.weights import copy_weights
    from keras_bert.tasks.base.fitting import fresh_model, task_batches
    from keras_bert.training.training_model import TrainingModel

    keras_bert.keep_freed_memory()
    classifier, train, dev = prepare(arguments)
    epochs, clock = max(2, arguments.epochs), make_clock()

    # What `fit` trains with, without its measurements on the way.
    recipe = keras_bert.Recipe(learning_rate=RATE, batch_size=BATCH, epochs=epochs)
    data = classifier.prepare(train, None)
    table = data.tokenized.used_ids()
    batches, steps = task_batches(classifier, data, BATCH, packed=True, table=table)
    model = TrainingModel.from_model(fresh_model(classifier, recipe, arguments.seed, table))
    model.compile(finetuning_optimizer(RATE, steps * epochs), loss=classifier.losses(), jit_compile=True)
    stream = batches(arguments.seed, 0, epochs)
    model.fit(stream, steps_per_epoch=steps, epochs=epochs, shuffle=False, verbose=0, callbacks=[clock])
    copy_weights(model, classifier.model, table_rows=table)
    return clock.seconds, classifier.evaluate(dev).accuracy


def torch(arguments):
    import torch
    from transformers import BertForSequenceClassification, get_linear_schedule_with_warmup

    import keras_bert
    from keras_bert.checkpoint.hub import find_installed
    from keras_bert.tasks.base.fitting import task_batches

    keras_bert.keep_freed_memory()
    classifier, train, dev = prepare(arguments)
    batches, steps = task_batches(classifier, classifier.prepare(train, None), BATCH)
    passes = max(2, arguments.epochs)
    model = BertForSequenceClassification.from_pretrained(find_installed(MODEL), num_labels=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, int(0.1 * steps * passes), steps * passes)
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}

    def tensors(inputs):
        return {theirs: torch.from_numpy(inputs[ours].numpy()).long() for ours, theirs in names.items()}

    seconds = []
    for epoch in range(passes):
        model.train()
        start = time.perf_counter()
        for inputs, labels, _ in batches(arguments.seed, epoch, 1):
            target = torch.from_numpy(labels["class_logits"].numpy()).long()
            loss = model(**tensors(inputs), labels=target).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        seconds.append(time.perf_counter() - start)
    model.eval()
    checks, _ = task_batches(classifier, classifier.prepare(dev, None), 64)
    right = count = 0
    with torch.no_grad():
        for inputs, labels, weights in checks(None, 0, 1):
            found = model(**tensors(inputs)).logits.argmax(-1).numpy()
            right += int(((found == labels["class_logits"].numpy()) * weights.numpy()).sum())
            count += int(weights.numpy().sum())
    return seconds, right / count


def hub(arguments):
    import tempfile

    import keras
    import keras_hub

    import keras_bert
    from keras_bert.finetuning.layerwise_adamw import finetuning_optimizer

    keras_bert.keep_freed_memory()
    encoder, tokenizer = keras_bert.load_encoder(MODEL)
    train, dev = read(arguments)
    with tempfile.TemporaryDirectory() as directory:
        keras_bert.save_pretrained(encoder, f"{directory}/hub", tokenizer=tokenizer, format="keras_hub")
        backbone = keras_hub.models.BertBackbone.from_preset(f"{directory}/hub")
        words = keras_hub.models.BertTokenizer.from_preset(f"{directory}/hub")
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(words, sequence_length=64)
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=2, preprocessor=preprocessor)
    passes, clock = max(2, arguments.epochs), make_clock()
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=finetuning_optimizer(RATE, -(-len(train) // BATCH) * passes),  # the schedule of the others
        jit_compile=True,
    )
    texts, labels = [row.text for row in train], np.array([int(row.label) for row in train])
    model.fit(np.array(texts), labels, batch_size=BATCH, epochs=passes, verbose=0, callbacks=[clock])
    found = model.predict(np.array([row.text for row in dev]), verbose=0).argmax(-1)
    return clock.seconds, float(np.mean(found == np.array([int(row.label) for row in dev])))


CONTENDERS = {"ours": ours, "torch": torch, "hub": hub}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds glue/SST-2/")
    parser.add_argument("--examples", type=int, default=3200)
    parser.add_argument("--epochs", type=int, default=2, help="passes over the data, at least 2")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", choices=CONTENDERS, help=argparse.SUPPRESS)
    add_output(parser, "finetuning")
    arguments = parser.parse_args()
    if arguments.alone:
        seconds, accuracy = CONTENDERS[arguments.alone](arguments)
        print(json.dumps({"seconds": seconds, "accuracy": accuracy}))
        return
    rows = []
    print(f"{'':<8}{'examples/s':>12}{'first pass':>12}{'accuracy':>10}")
    for name in arguments.contenders:
        command = [sys.executable, __file__, *sys.argv[1:], "--alone", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
        result = json.loads(done.stdout.splitlines()[-1])
        first, *later = result["seconds"]
        speed = arguments.examples / min(later)
        print(f"{name:<8}{speed:>12.1f}{first:>10.1f} s{result['accuracy']:>10.4f}", flush=True)
        called = {**SHOWN, "hub": "keras-hub"}.get(name, name)
        speeds, percent = [arguments.examples / one for one in later], 100 * result["accuracy"]
        rows.append({"contender": called, "examples/s": speeds, "first pass, s": first, "accuracy, %": percent})
    write_run(
        arguments.output,
        rows,
        packages=("tensorflow", "keras", "keras-hub", "torch", "transformers"),
        seeds=[arguments.seed],
        contenders=[row["contender"] for row in rows],
        settings={"examples": arguments.examples, "batch": BATCH, "passes": max(2, arguments.epochs)},
    )


if __name__ == "__main__":
    main()
