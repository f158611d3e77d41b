"""One fine-tuned classifier in every runtime: latency by length and threads, agreement with float32, accuracy, bars.

    python benchmarks/glue_results.py full --data DIR --tasks SST-2 --learning-rate 1e-4 --pooling cls --save trained/
    python benchmarks/inference.py --data DIR --model trained/SST-2 --files built/   # about 25 minutes on 2 quiet cores
    python benchmarks/inference.py --data DIR --model trained/SST-2 --files built/ --threads 1 --rounds 1 --texts 100

DIR holds `glue/SST-2/`. Contenders (`inference_contenders.py`): our recipes by name; `hub` (keras-hub's
BertTextClassifier by `model.export(format="litert")` at a fixed 128, float32) and `hub_int8` (the same with the
converter's dynamic range quantization); `ort` and `ort_int8` (ONNX Runtime; dynamic int8 with right products,
`session.x64quantprecision=1`), `ort_int8_plain` (the same as it comes: right and faster where the processor has VNNI,
wrong where it has not), `ort_int8_fused` (the latter after ONNX Runtime's optimizer of transformers), `openvino` and
`torch` (float32), `openvino_int8` (NNCF's post-training quantization) and `ctranslate2_int8`; `llama_q8_0` and
`llama_q4_0` (llama.cpp's BERT by `xllamacpp`). Files are built once, into `--files`, and found there again; each
measurement is a process of its own that loads what an app would load. Rounds go around all contenders, so that a busy
minute hits all alike; the best round counts. What is not installed is left out with a word. Peers: pip install onnx
onnxruntime openvino nncf ctranslate2 xllamacpp gguf torch transformers; `--peer-python` is the Python that has them, if
it is not this one.

Columns: milliseconds for one row (the least of many) at 16 to 256 tokens; the mean over the dev set's own texts, each
at its own length where the runtime can; accuracy; the share of texts with the answer of Keras in float32; the cosine of
the logits with Keras's; megabytes; XNNPACK partitions.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from inference_contenders import CONTENDERS, HUB_LENGTH, RECIPES
from record import provenance

# A script beside this one may be called like a module that a library looks for (JAX: `compression`).
sys.path = [place for place in sys.path if Path(place or ".").resolve() != Path(__file__).resolve().parent]

LENGTHS = (16, 32, 64, 128, 256)
BAR_LENGTH = 128
POINT = 0.01  # of accuracy: what a recipe may lose


# === In processes of their own ===


def build(arguments):
    """One contender's file, and what is to be said of it."""
    place = arguments.files / arguments.build
    place.mkdir(parents=True, exist_ok=True)
    facts = CONTENDERS[arguments.build].build(arguments.model, arguments.data, place)
    (place / "facts.json").write_text(json.dumps(facts), encoding="utf-8")


def measure(arguments):
    """One contender by its file; the dev set's ids and Keras's logits come from another."""
    stored = np.load(arguments.rows, allow_pickle=False)
    splits, labels, reference = stored["splits"], stored["labels"], stored["logits"]
    rows = [stored["ids"][None, splits[i] : splits[i + 1]].astype(np.int32) for i in range(len(labels))]
    run = CONTENDERS[arguments.measure].open(arguments.files / arguments.measure, *arguments.threads)
    clock = time.process_time if arguments.processor_time else time.perf_counter
    longest = HUB_LENGTH if arguments.measure.startswith("hub") else max(LENGTHS)
    times = [
        _fastest(run, np.full((1, length), 1012, np.int32), arguments.repeats, clock) if length <= longest else None
        for length in LENGTHS
    ]
    run(rows[0])
    start = clock()
    logits = np.stack([run(row) for row in rows])
    dev_ms = (clock() - start) / len(rows) * 1e3
    centered, expected = (values - values.mean(-1, keepdims=True) for values in (logits, reference))
    cosine = np.sum(centered * expected) / np.linalg.norm(centered) / np.linalg.norm(expected)
    found = {
        "ms": times,
        "dev_ms": dev_ms,
        "accuracy": float(np.mean(logits.argmax(-1) == labels)),
        "agreement": float(np.mean(logits.argmax(-1) == reference.argmax(-1))),
        "cosine": float(cosine),
    }
    print(json.dumps(found))


def _fastest(run, ids, repeats, clock):
    for _ in range(3):
        run(ids)
    times = []
    for _ in range(repeats):
        start = clock()
        run(ids)
        times.append(clock() - start)
    return min(times) * 1e3


def write_rows(arguments, path):
    """The dev set as ids, with the labels and the Keras model's logits; gives its accuracy."""
    import keras_bert
    from keras_bert.data.glue import read_glue

    task, dev = keras_bert.load_task(arguments.model), read_glue("SST-2", arguments.data / "glue", "dev")
    texts, labels = dev.texts[: arguments.texts], [task.labels.index(label) for label in dev.labels[: arguments.texts]]
    tokenized, _, _ = task.tokenize(texts)
    ids, splits, _ = tokenized.trimmed(128)[0].packed()
    logits = task.logits(texts)
    np.savez(path, ids=ids, splits=splits, labels=labels, logits=logits)
    return float(np.mean(logits.argmax(-1) == labels)), float(np.mean(np.diff(splits)))


# === All of them ===


def run_apart(arguments, *words):
    """This script in a process of its own; its last line, or `None` with what went wrong printed."""
    is_ours = words[1] in RECIPES or words[1].startswith("hub")
    command = [sys.executable if is_ours else arguments.peer_python, __file__]
    command += ["--data", arguments.data, "--model", arguments.model]
    command += ["--files", arguments.files, *words]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        print(f"{words[1]}: left out: {lines[-1][:160]}", flush=True)
        return None
    return (done.stdout.splitlines() or [""])[-1]


def measure_all(arguments, names, rows):
    """Numbers by threads and contender, the best of all rounds."""
    found = {}
    options = ["--rows", rows, "--repeats", arguments.repeats]
    options += ["--processor-time"] if arguments.processor_time else []
    for _ in range(arguments.rounds):
        for threads in arguments.threads:
            for name in list(names):
                line = run_apart(arguments, "--measure", name, "--threads", threads, *options)
                if line is None:
                    names.remove(name)
                    continue
                new, old = json.loads(line), found.get((threads, name))
                if old is not None:
                    pairs = zip(new["ms"], old["ms"], strict=True)
                    new["ms"] = [None if None in pair else min(pair) for pair in pairs]
                    new["dev_ms"] = min(new["dev_ms"], old["dev_ms"])
                found[threads, name] = new
    for (_, name), numbers in found.items():
        numbers |= json.loads((arguments.files / name / "facts.json").read_text(encoding="utf-8"))
    return found


def print_table(found):
    header = "".join(f"{f'{length} tokens':>12}" for length in LENGTHS)
    quality = f"{'accuracy':>10}{'same':>8}{'cosine':>9}"
    print(f"{'':<14}{'threads':>8}{header}{'own length':>12}{quality}{'MB':>7}{'parts':>7}")
    for (threads, name), row in found.items():
        times = "".join(f"{'–' if ms is None else f'{ms:.2f}':>12}" for ms in [*row["ms"], row["dev_ms"]])
        quality = f"{row['accuracy']:>10.4f}{row['agreement']:>8.3f}{row['cosine']:>9.4f}"
        print(f"{name:<14}{threads:>8}{times}{quality}{row['bytes'] / 1e6:>7.1f}{row.get('partitions', '–'):>7}")


def print_bars(found, threads, accuracy):
    """What was promised, beside what was found; a bar whose contenders are missing is left out."""
    rows = {name: row for (count, name), row in found.items() if count == threads}
    ours = {name: row for name, row in rows.items() if name in RECIPES and row["accuracy"] >= accuracy - POINT}
    hubs = [rows[name] for name in ("hub", "hub_int8") if name in rows]

    def bar(words, value, limit, *, at_least=False):
        reached = value >= limit if at_least else value <= limit
        print(f"{'yes' if reached else 'NO ':<4}{words}: {value:.2f}, {'at least' if at_least else 'at most'} {limit}")

    print(f"\nBars, {threads} thread{'s' * (threads > 1)} (Keras in float32: accuracy {accuracy:.4f})")
    peers = ("ort_int8", "ort_int8_plain", "ort_int8_fused", "openvino_int8")
    for peer in [name for name in peers if ours and name in rows]:
        best = min(ours, key=lambda name: ours[name]["ms"][LENGTHS.index(BAR_LENGTH)])
        bar(
            f"128 tokens, {best} over {peer}",
            ours[best]["ms"][LENGTHS.index(BAR_LENGTH)] / rows[peer]["ms"][LENGTHS.index(BAR_LENGTH)],
            0.8,
        )
        best = min(ours, key=lambda name: ours[name]["dev_ms"])
        bar(f"own lengths, {best} over {peer}", ours[best]["dev_ms"] / rows[peer]["dev_ms"], 0.8)
    if hubs and "dynamic_int8" in rows:
        best = min(row["ms"][LENGTHS.index(BAR_LENGTH)] for row in hubs)
        bar(
            "128 tokens, dynamic_int8 over keras-hub's best",
            rows["dynamic_int8"]["ms"][LENGTHS.index(BAR_LENGTH)] / best,
            1.0,
        )
    if hubs and ours:
        times = min(row["dev_ms"] for row in hubs) / min(row["dev_ms"] for row in ours.values())
        bar("own lengths, times faster than keras-hub's fixed 128", times, 4.0, at_least=True)
    if "static_int8" in rows:
        bar("static_int8, XNNPACK partitions", rows["static_int8"]["partitions"], 1)
        bar("static_int8, points of accuracy lost", 100 * (accuracy - rows["static_int8"]["accuracy"]), 1.0)


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds glue/SST-2/")
    parser.add_argument("--model", type=Path, required=True, help="a classifier that was fine-tuned on SST-2")
    parser.add_argument("--files", type=Path, required=True, help="where files are built, and found again")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=2, help="how often all contenders are measured")
    parser.add_argument("--repeats", type=int, default=60, help="runs of each length")
    parser.add_argument("--texts", type=int, help="of the dev set; all by default")
    parser.add_argument("--processor-time", action="store_true", help="for a busy machine, and one thread alone")
    parser.add_argument("--peer-python", default=sys.executable, help="the Python that the peers are installed in")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "inference.json")
    parser.add_argument("--build", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--measure", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for name in ("data", "model", "files"):
        setattr(arguments, name, getattr(arguments, name).resolve())
    return arguments


def main():
    arguments = read_arguments()
    if arguments.build:
        return build(arguments)
    if arguments.measure:
        return measure(arguments)
    names = list(arguments.contenders)
    for name in arguments.contenders:
        if not (arguments.files / name / "facts.json").is_file() and run_apart(arguments, "--build", name) is None:
            names.remove(name)
    with tempfile.TemporaryDirectory() as place:
        rows = Path(place) / "rows.npz"
        accuracy, tokens = write_rows(arguments, rows)
        print(f"SST-2 dev, {tokens:.1f} tokens a text", flush=True)
        found = measure_all(arguments, names, rows)
    print_table(found)
    for threads in arguments.threads:
        print_bars(found, threads, accuracy)
    clock = "processor" if arguments.processor_time else "wall"
    rows = [{"name": name, "threads": threads, **row} for (threads, name), row in found.items()]
    facts = {"data": "SST-2 dev", "clock": clock, "lengths": LENGTHS, "accuracy": accuracy, "tokens": tokens}
    record = {**provenance("keras-bert-edge", "ai-edge-litert"), **facts, "results": rows}
    arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
