"""Every TFLite recipe on one model: size, time, XNNPACK partitions, and how much of float32 is left.

    python benchmarks/tflite_recipes.py                                        # about 3 minutes on 2 cores
    python benchmarks/tflite_recipes.py --model DIR --data dev.tsv --calibration train.tsv --lengths dynamic

Latency is the smallest of many runs, batch 1, one thread, every position a token (128 of them where the length is
dynamic). The cosine is that of the mean-pooled outputs with those of the first recipe's file, over texts without
padding; `rms` is the difference of the logits over their size. Without `--data`, the texts are the bundled commands to
a phone assistant and the classifier is random; with it (a TSV with a header, text and label in the first two columns),
the accuracy of a trained task is measured too.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from record import add_output, write_run

import export
import keras_bert
from export.file.ops import audit_ops
from export.recipes import RECIPES
from keras_bert.data.assistant import load_assistant

LENGTH = 128
SLOW = {"static_int16x8": 8}  # texts; there are no fast kernels for it


def read_texts(path, count):
    rows = Path(path).read_text(encoding="utf-8").split("\n")[1 : count + 1]
    return [row.split("\t")[:2] for row in rows if "\t" in row]


def with_states(task):
    """The task's model with the states of the tokens beside its logits."""
    (name,) = task.model.output
    read = task.model.get_layer("pooler").input
    states = read[0] if isinstance(read, list) else read  # the mean reads the mask, too
    return keras.Model(task.model.input, {"logits": task.model.output[name], "states": states})


def run(path, rows):
    """Logits and mean-pooled states of each row, and the milliseconds of a full one, each time."""
    interpreter = Interpreter(str(path), num_threads=1)
    (key,) = interpreter.get_signature_list()
    runner = interpreter.get_signature_runner(key)
    length = None if key == "dynamic" else LENGTH
    full = {name: np.ones((1, LENGTH), np.int32) for name in rows[0]}
    runner(**full)
    times = []
    while len(times) < 30 and sum(times) < 4:
        start = time.perf_counter()
        runner(**full)
        times.append(time.perf_counter() - start)
    logits, pooled = [], []
    for row in rows:
        tokens = row["token_ids"].shape[1]
        width = tokens if length is None else length
        outputs = runner(**{name: np.pad(value, [(0, 0), (0, width - tokens)]) for name, value in row.items()})
        logits.append(outputs["logits"][0])
        pooled.append(outputs["states"][0, :tokens].mean(axis=0))
    return np.array(logits), np.array(pooled), [one * 1e3 for one in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a pretrained model, or a saved task's directory")
    parser.add_argument("--data", help="a TSV of texts and labels to measure on")
    parser.add_argument("--calibration", help="a TSV of texts to calibrate with")
    parser.add_argument("--lengths", default=str(LENGTH), choices=[str(LENGTH), "dynamic"])
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--count", type=int, default=32, help="texts to measure on")
    add_output(parser, "tflite_recipes")
    options = parser.parse_args()

    if Path(options.model, "keras_bert_task.json").is_file():
        task = keras_bert.load_task(options.model)
    else:
        task = keras_bert.TextClassifier.from_pretrained(options.model, labels=["0", "1"])
    rows = read_texts(options.data, options.count) if options.data else None
    texts = [text for text, _ in rows] if rows else [one.text for one in load_assistant("test")][: options.count]
    if options.calibration:
        calibration = [text for text, _ in read_texts(options.calibration, 128)]
    else:
        calibration = [one.text for one in load_assistant("train")][:128]
    inputs = [keras_bert.pack(task.tokenizer, [text], sequence_length=None) for text in texts]
    inputs = [{name: value.numpy()[:, :LENGTH] for name, value in row.items()} for row in inputs]
    calibration = keras_bert.pack(task.tokenizer, calibration, sequence_length=LENGTH)
    model = with_states(task)
    lengths = LENGTH if options.lengths == str(LENGTH) else "dynamic"
    reference, found = None, []
    print("| recipe | MB | ms | partitions | cosine | rms | same class | accuracy |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        for recipe in options.recipes.split(","):
            path = Path(directory) / f"{recipe}.tflite"
            data = None if RECIPES[recipe].calibration == "unused" else calibration
            artifact = export.convert(model, path, recipe=recipe, lengths=lengths, calibration=data)
            count = SLOW.get(recipe, len(inputs))
            logits, pooled, milliseconds = run(path, inputs[:count])
            reference = (logits, pooled) if reference is None else reference
            found.append(row_of(recipe, artifact, logits, pooled, milliseconds, reference, rows))
            print(line_of(found[-1]), flush=True)
    settings = {"tokens": LENGTH, "threads": 1, "texts": len(texts)}
    packages = ("tensorflow", "keras", "ai-edge-litert")
    write_run(
        options.output, found, packages=packages, part=None if options.data is None else "trained", settings=settings
    )


def row_of(recipe, artifact, logits, pooled, milliseconds, reference, rows):
    true_logits, true_pooled = (values[: len(logits)] for values in reference)
    norms = np.linalg.norm(pooled, axis=1) * np.linalg.norm(true_pooled, axis=1)
    cosine = ((pooled * true_pooled).sum(axis=1) / norms).mean()
    rms = np.sqrt(np.square(logits - true_logits).mean() / np.square(true_logits).mean())
    same = (logits.argmax(axis=1) == true_logits.argmax(axis=1)).mean()
    (partitions,) = audit_ops(artifact.path, count_partitions=True).partitions.values()
    row = {"recipe": recipe, "MB": artifact.num_bytes / 1e6, "ms": milliseconds, "partitions": partitions}
    row |= {"cosine": float(cosine), "rms": float(rms), "same class, %": 100 * float(same)}
    if rows:
        labels = [int(label) for _, label in rows[: len(logits)]]
        row["accuracy, %"] = 100 * float((logits.argmax(axis=1) == labels).mean())
    return row


def line_of(row):
    accuracy = f"{row['accuracy, %']:.1f}" if "accuracy, %" in row else ""
    return (
        f"| {row['recipe']} | {row['MB']:.1f} | {min(row['ms']):.1f} | {row['partitions']} "
        f"| {row['cosine']:.4f} | {row['rms']:.4f} | {row['same class, %'] / 100:.3f} | {accuracy} |"
    )


if __name__ == "__main__":
    main()
