"""What quantization costs a fine-tuned model, after training and with training for it: metric, size, time.

    python benchmarks/quantization.py sst2 --data DIR --model TASK                       # a saved TextClassifier
    python benchmarks/quantization.py wnut17 --data DIR --model TASK                     # a saved EntityTagger
    python benchmarks/quantization.py wnut17 --data DIR --model all-MiniLM-L6-v2 --epochs 5   # fine-tunes it first
    python benchmarks/quantization.py sst2 --data DIR --model TASK --examples 2000 --dev 400  # a quick look

DIR holds `glue/SST-2/` or `wnut17/`. Every file is for any length and is scored through the device's runtime on the dev
split (of wnut17 the test split), which nothing is chosen by: calibration, the choice of matrices and training see
training examples alone, and the weights after the last step count. Training for quantization (QAT) has the float model
for a teacher. Milliseconds: mean over the dev split's own lengths, batch 1, 1 thread, files in turn, the fastest of
three rounds. The bars: `static_int8` within 1.0 point of float after training, within 0.5 trained for.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from record import add_output, write_run

import export
import keras_bert
from export.file.ops import audit_ops
from export.verification.stream_latency import time_stream
from keras_bert.data.glue import read_glue
from keras_bert.tasks.base.saved_tasks import SETTINGS
from keras_bert.tasks.tagging.files import read_tagged

CALIBRATION, TIMED = 256, 128
BARS = {"static_int8": 1.0, "static_int8, QAT": 0.5}
QAT = ("static_int8", "weight_int4")


# === Data and model ===


def read(arguments):
    """Training and dev examples, each as the task takes them."""
    if arguments.set == "sst2":
        train, dev = (read_glue("SST-2", arguments.data / "glue", split) for split in ("train", "dev"))
    else:
        names = ("wnut17train.conll", "emerging.test.annotated")
        train, dev = (read_tagged(arguments.data / "wnut17" / name) for name in names)
    order = np.random.default_rng(arguments.seed).permutation(len(train))[: arguments.examples]
    return pick(train, order), pick(dev, range(min(len(dev), arguments.dev or len(dev))))


def pick(rows, places):
    """Inputs and labels of some rows."""
    chosen = [rows[int(place)] for place in places]
    if hasattr(chosen[0], "words"):
        return [list(row.words) for row in chosen], [list(row.tags) for row in chosen]
    return [row.text for row in chosen], [row.label for row in chosen]


def open_task(arguments, train, dev):
    """A saved task, or a pretrained model fine-tuned here."""
    if (Path(arguments.model) / SETTINGS).is_file():
        return keras_bert.load_task(arguments.model)
    labels = sorted({label for _, y in (train, dev) for label in kinds(y)})
    cls = keras_bert.TextClassifier if arguments.set == "sst2" else keras_bert.EntityTagger
    task = cls.from_pretrained(arguments.model, labels=labels, sequence_length=128)
    print(task.fit(*train, epochs=arguments.epochs, verbose=2), flush=True)
    return task


def kinds(labels):
    """The names that labels or tags tell apart."""
    if isinstance(labels[0], str):
        return set(labels)
    return {tag.partition("-")[2] for tags in labels for tag in tags if tag != "O"}


# === Files ===


def make_files(arguments, directory, task, train):
    """A name, a file and the recipe of each contender."""
    calibration = train[0][:CALIBRATION]

    def write(name, task, recipe):
        data = None if name.endswith("QAT") or name == "float32" else calibration
        path = directory / f"{len(found)}.tflite"
        found.append(
            (name, export.convert(task, path, recipe=recipe, lengths="dynamic", calibration=data, check=False))
        )

    found: list = []
    for recipe in ("float32", "dynamic_int8", "static_int8", "weight_int4"):
        write(recipe, task, recipe)
    mixed = export.choose_precision(
        task,
        *(part[:CALIBRATION] for part in train),
        recipe="weight_int4",
        metric="agreement",
        budget=arguments.budget,
        verbose=0,
    )
    print(f"{mixed}\n", flush=True)
    write("weight_int4, mixed", task, mixed)
    task.save(directory / "float")
    for recipe in QAT:
        write(f"{recipe}, QAT", train_for(recipe, arguments, directory, task, train), recipe)
    return found


def train_for(recipe, arguments, directory, teacher, train):
    """A copy of the float task, trained for a recipe."""
    copy, start = keras_bert.load_task(directory / "float"), time.perf_counter()
    changes = {"epochs": arguments.qat_epochs, "evaluations": 1, "patience": None}
    if arguments.learning_rate is not None:
        changes["learning_rate"] = arguments.learning_rate
    export.train_quantized(copy, *train, quantization=recipe, teacher=teacher, verbose=0, **changes)
    print(f"trained for {recipe} in {time.perf_counter() - start:.0f} s", flush=True)
    return copy


# === Table ===


def report(arguments, task, files, dev):
    """Print a row for each file, and whether the bars are met."""
    scores = {name: export.verify(task, file.path, *dev, recipe="weight_int4") for name, file in files}
    metric = scores["float32"].metric
    rows = task.tokenize(dev[0] if isinstance(dev[0][0], str) else [" ".join(words) for words in dev[0]])[0]
    lengths = [rows.lengths[:TIMED].tolist()] * len(files)
    times = time_stream([file for _, file in files], lengths)
    print(f"{arguments.set}: {len(dev[0]):,} examples, {len(lengths[0])} rows timed\n")
    print(f"| recipe | {metric} | points to float | MB | ms | partitions |\n|---|---|---|---|---|---|")
    base, lost, found = scores["float32"].file_score, {}, []
    for (name, file), latency in zip(files, times, strict=True):
        lost[name] = 100 * (scores[name].file_score - base)
        (partitions,) = audit_ops(file.path, count_partitions=True).partitions.values()
        print(
            f"| {name} | {100 * scores[name].file_score:.1f} | {lost[name]:+.1f} | {file.num_bytes / 1e6:.1f} "
            f"| {latency.mean:.2f} | {partitions} |"
        )
        row = {"recipe": name, "score, %": 100 * scores[name].file_score, "MB": file.num_bytes / 1e6}
        found.append({**row, "ms": latency.mean, "partitions": partitions})
    settings = {"metric": metric, "dev examples": len(dev[0]), "rows timed": len(lengths[0])}
    packages = ("tensorflow", "keras", "ai-edge-litert")
    facts = {"seeds": [arguments.seed], "settings": settings}
    write_run(arguments.output, found, packages=packages, part=arguments.set, **facts)
    for name, bar in BARS.items():
        print(f"{name}: {lost[name]:+.2f} points, bar −{bar}: {'met' if lost[name] >= -bar else 'MISSED'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=["sst2", "wnut17"], nargs="?", default="sst2")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", required=True, help="a saved task, or a pretrained model to fine-tune first")
    parser.add_argument("--examples", type=int, help="training examples; all unless given")
    parser.add_argument("--dev", type=int, help="dev examples; all unless given")
    parser.add_argument("--epochs", type=float, default=3, help="of fine-tuning a pretrained model")
    parser.add_argument("--qat-epochs", type=float, default=1)
    parser.add_argument("--learning-rate", type=float, help="of training for quantization; the recipe's unless given")
    parser.add_argument("--budget", type=float, default=0.01, help="share of answers that mixed precision may change")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of training examples")
    add_output(parser, "quantization")
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    train, dev = read(arguments)
    task = open_task(arguments, train, dev)
    with tempfile.TemporaryDirectory() as directory:
        report(arguments, task, make_files(arguments, Path(directory), task, train), dev)


if __name__ == "__main__":
    main()
