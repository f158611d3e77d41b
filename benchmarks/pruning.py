"""What zeros buy: file size, compressed size, latency in LiteRT, and with --data accuracy, by sparsity and by recipe.

    python benchmarks/pruning.py                                            # MiniLM, cut at once: size and time
    python benchmarks/pruning.py --model TASK --data DIR --examples 3200    # trained by export.prune: accuracy too

Without `--data` the smallest weights of each matrix in the blocks are cut at once: zeros take the same room and time
however they came about. With it (DIR holds `glue/SST-2/`, TASK a classifier for it) `export.prune` trains.

`sparse float32` goes through TensorFlow's own converter with `Optimize.EXPERIMENTAL_SPARSITY`, which stores matrices
without their zeros; in blocks of 1 × 4, the shape that TFLite has a kernel for, and single ones. Latency is the
smallest of many runs, batch 1, one thread, 128 tokens. `zip` is what an APK or a download makes of the file.
"""

import argparse
import os
import tempfile
import time
import zlib
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from record import add_output, write_run

import export
import keras_bert
from export.file.ops import audit_ops
from keras_bert.data.glue import read_glue
from keras_bert.model.encoder import INPUT_NAMES
from keras_bert.model.weights import copy_weights, to_numpy

LENGTH = 128


# === Zeros ===


def cut(task, sparsity, block=1):
    """A copy of the task without the smallest weights of its blocks: `block` neighbours of an output go together."""
    smaller = task.on_encoder(task.config)
    copy_weights(task.model, smaller.model)
    smaller.fresh_heads = False
    for weight in smaller.model.weights:
        if weight.path.startswith("block") and weight.path.endswith("kernel"):
            kernel = to_numpy(weight)  # [in, out]
            groups = np.abs(kernel).reshape(-1, block, kernel.shape[1]).mean(axis=1)
            keep = groups > np.quantile(groups, sparsity)
            weight.assign(kernel * np.repeat(keep, block, axis=0))
    return smaller


# === Files ===


def sparse_file(task, path):
    """The float file of TensorFlow's converter, with matrices stored without their zeros."""
    archive = keras.export.ExportArchive()
    archive.track(task.model)
    spec = {name: tf.TensorSpec((1, LENGTH), tf.int32, name=name) for name in INPUT_NAMES}
    key = f"length_{LENGTH}"
    archive.add_endpoint(key, lambda inputs: task.model(inputs, training=False), input_signature=[spec])
    with tempfile.TemporaryDirectory() as directory:
        archive.write_out(directory, verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(directory, signature_keys=[key])
        converter.optimizations = [tf.lite.Optimize.EXPERIMENTAL_SPARSITY]
        path.write_bytes(converter.convert())


def milliseconds(path, seconds):
    runner = Interpreter(str(path), num_threads=1).get_signature_runner(f"length_{LENGTH}")
    row = {name: np.ones((1, LENGTH), np.int32) for name in ("token_ids", "segment_ids", "padding_mask")}
    runner(**row)
    times = []
    while len(times) < 5 or (len(times) < 100 and sum(times) < seconds):
        start = time.perf_counter()
        runner(**row)
        times.append(time.perf_counter() - start)
    return [1e3 * one for one in times]


def print_file(name, sparsity, path, seconds, accuracy=""):
    """Print a row, and give it."""
    content, times = path.read_bytes(), None
    try:
        (partitions,) = audit_ops(path, count_partitions=True).partitions.values()
        times = milliseconds(path, seconds)
        spent = f"{min(times):.1f}"
    except (RuntimeError, ValueError) as error:  # a file that this runtime does not take
        partitions, spent = "–", f"refused: {str(error).splitlines()[0][:60]}"
    size, packed = len(content) / 1e6, len(zlib.compress(content, 6)) / 1e6
    print(f"| {name} | {sparsity:.0%} | {size:.1f} | {packed:.1f} | {spent} | {partitions} | {accuracy} |", flush=True)
    row = {
        "file": name,
        "zeros, %": 100 * sparsity,
        "MB": size,
        "zip, MB": packed,
        "ms": spent if times is None else times,
    }
    return {**row, "partitions": partitions, "accuracy, %": float(accuracy) if accuracy else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a pretrained model, or a saved task's directory")
    parser.add_argument("--data", type=Path, help="holds glue/SST-2/: prune by training, and measure")
    parser.add_argument("--sparsity", type=float, nargs="+", default=[0.0, 0.5, 0.75, 0.9])
    parser.add_argument("--recipes", nargs="+", default=["float32", "dynamic_int8"])
    parser.add_argument("--examples", type=int, default=3200)
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--seconds", type=float, default=4, help="of timing each file, at most")
    add_output(parser, "pruning")
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    if Path(arguments.model, "keras_bert_task.json").is_file():
        task = keras_bert.load_task(arguments.model)
    else:
        task = keras_bert.TextClassifier.from_pretrained(arguments.model, labels=["0", "1"])
    print("| file | zeros | MB | zip MB | ms | partitions | accuracy |\n|---|---|---|---|---|---|---|")
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        for sparsity in arguments.sparsity:
            pruned, accuracy = prune_one(task, sparsity, arguments)
            for recipe in arguments.recipes:
                path = Path(directory) / f"{recipe}.tflite"
                export.convert(pruned, path, recipe=recipe, lengths=LENGTH)
                rows.append(print_file(recipe, sparsity, path, arguments.seconds, accuracy))
            for block in (1, 4) if sparsity else ():
                path = Path(directory) / "sparse.tflite"
                sparse_file(pruned if block == 1 else cut(task, sparsity, block), path)
                rows.append(print_file(f"sparse float32, 1 × {block}", sparsity, path, arguments.seconds))
    packages = ("tensorflow", "ai-edge-litert", "tensorflow-model-optimization")
    settings = {"examples": arguments.examples, "epochs": arguments.epochs} if arguments.data else {}
    part = None if arguments.data else "cut at once"
    write_run(arguments.output, rows, packages=packages, part=part, settings={**settings, "tokens": LENGTH})


def prune_one(task, sparsity, arguments):
    """The task with that share of zeros, and its accuracy where there is data."""
    if arguments.data is None:
        return (cut(task, sparsity) if sparsity else task), ""
    train, dev = (read_glue("SST-2", arguments.data / "glue", split) for split in ("train", "dev"))
    chosen = np.random.default_rng(0).permutation(len(train))[: arguments.examples]
    rows = [train[int(index)] for index in chosen]
    if sparsity:
        changes = {"epochs": arguments.epochs, "learning_rate": arguments.learning_rate, "verbose": 0}
        task, _ = export.prune(task, rows, sparsity=sparsity, teacher=task, validation_data=dev, **changes)
    return task, f"{100 * task.evaluate(dev).accuracy:.2f}"


if __name__ == "__main__":
    main()
