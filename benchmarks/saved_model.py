"""The SavedModel without padding beside the padded one and ONNX Runtime: processor seconds for 1,000 texts.

    python benchmarks/glue_results.py full --data DIR --tasks SST-2 --learning-rate 1e-4 --pooling cls --save trained/
    python benchmarks/saved_model.py --data DIR --model trained/SST-2 --files built/   # about 5 minutes

DIR holds `glue/SST-2/`. Contenders take the dev set's texts as strings, in batches of 32 in the order of the file, on
one thread, and give labels: `padded` (our SavedModel as it was, rows as wide as the longest of the batch), `unpadded`,
`bfloat16`, and `ort` (ONNX Runtime float32 with `tokenizers`, padded to the longest of the batch). `--peer-python` is
the Python with torch, transformers, onnx and onnxruntime, if it is not this one. Each measurement is a process of its
own; rounds go around all contenders and the best counts. Columns: processor seconds for 1,000 texts, accuracy, the
share of texts with the label of `padded`, and the largest difference of a probability from it.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
HERE = Path(__file__).resolve().parent
CONTENDERS = ("padded", "unpadded", "bfloat16", "ort")
BATCH = 32


# === In processes of their own ===


def build(name, model, place):
    """Write a contender's files."""
    place.mkdir(parents=True, exist_ok=True)
    if name == "ort":
        import shutil

        from inference_contenders import build_onnx_batches

        build_onnx_batches(model, place)
        for file in ("vocab.txt", "tokenizer_config.json", "labels.txt"):
            shutil.copy(model / file, place / file)
        return
    import export
    import keras_bert
    from export.serving import graph

    if name == "padded":
        graph.UnpaddedModel.fits = staticmethod(lambda model: False)
    precision = "bfloat16" if name == "bfloat16" else "float32"
    print(export.save_serving(keras_bert.load_task(model), place / "sst", precision=precision))


def open_saved_model(place):
    """A function from texts to probabilities and labels."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  has the ops that read strings

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    loaded = tf.saved_model.load(str(place / "sst" / "1"))
    serve = loaded.signatures["serving_default"]

    def answer(texts, keep=loaded):
        found = serve(text=tf.constant(texts))
        return found["probabilities"].numpy(), [label.decode() for label in found["label"].numpy()]

    return answer


def open_ort(place):
    """The same with ONNX Runtime."""
    import numpy as np
    import onnxruntime
    from serving_peers import read_tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(place / "model.onnx", options, providers=["CPUExecutionProvider"])
    tokenizer, labels = read_tokenizer(place)
    tokenizer.enable_padding()

    def answer(texts):
        rows = tokenizer.encode_batch(texts)
        names = {"input_ids": "ids", "token_type_ids": "type_ids", "attention_mask": "attention_mask"}
        inputs = {name: np.array([getattr(row, field) for row in rows], np.int64) for name, field in names.items()}
        logits = session.run(None, inputs)[0]
        shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        return shares, [labels[best] for best in shares.argmax(axis=-1)]

    return answer


def measure(name, place, texts_file):
    """Processor seconds of a pass over all texts, after one that warms up, with the answers."""
    texts = json.loads(texts_file.read_text(encoding="utf-8"))
    answer = (open_ort if name == "ort" else open_saved_model)(place)
    batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    for batch in batches:
        answer(batch)
    start = time.process_time()
    found = [answer(batch) for batch in batches]
    seconds = time.process_time() - start
    probabilities = [row for part, _ in found for row in part.tolist()]
    labels = [label for _, part in found for label in part]
    print(json.dumps({"seconds": seconds / len(texts) * 1000, "probabilities": probabilities, "labels": labels}))


# === All of them ===


def run_apart(arguments, name, *words):
    python = arguments.peer_python if name == "ort" else sys.executable
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)} if name != "ort" else None
    command = [python, __file__, *words]
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr[-1500:]}")
    return done.stdout.splitlines()[-1]


def main():
    if sys.argv[1:2] == ["build"]:
        sys.path.append(sys.path.pop(0))
        return build(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
    if sys.argv[1:2] == ["measure"]:
        sys.path.append(sys.path.pop(0))
        return measure(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
    from record import provenance

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds glue/SST-2/")
    parser.add_argument("--model", type=Path, required=True, help="a classifier that was fine-tuned on SST-2")
    parser.add_argument("--files", type=Path, required=True, help="where files are built, and found again")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peer-python", default=sys.executable, help="with onnxruntime and torch")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "saved_model.json")
    arguments = parser.parse_args()
    sys.path.append(sys.path.pop(0))
    from keras_bert.data.glue import read_glue

    dev = read_glue("SST-2", arguments.data / "glue", "dev")
    arguments.files.mkdir(parents=True, exist_ok=True)
    texts_file = arguments.files / "texts.json"
    texts_file.write_text(json.dumps(list(dev.texts)), encoding="utf-8")
    found = {}
    for name in arguments.contenders:
        place = arguments.files / f"graph_{name}"
        if not (place / "built").is_file():
            run_apart(arguments, name, "build", name, arguments.model.resolve(), place.resolve())
            (place / "built").touch()
    for _ in range(arguments.rounds):
        for name in arguments.contenders:
            place = (arguments.files / f"graph_{name}").resolve()
            new = json.loads(run_apart(arguments, name, "measure", name, place, texts_file.resolve()))
            found[name] = min(found.get(name, new), new, key=lambda one: one["seconds"])
    rows, first = {}, found[arguments.contenders[0]]
    for name, one in found.items():
        same = [a == b for a, b in zip(one["labels"], first["labels"], strict=True)]
        differences = [abs(a[0] - b[0]) for a, b in zip(one["probabilities"], first["probabilities"], strict=True)]
        right = [a == b for a, b in zip(one["labels"], dev.labels, strict=True)]
        rows[name] = {
            "cpu_s_per_1000": one["seconds"],
            "accuracy": sum(right) / len(right),
            "same": sum(same) / len(same),
            "largest_difference": max(differences),
        }
        print(
            f"{name:<10}{one['seconds']:>7.2f} s{rows[name]['accuracy']:>9.4f}{rows[name]['same']:>8.3f}"
            f"{rows[name]['largest_difference']:>10.1e}",
            flush=True,
        )
    record = {**provenance("keras-bert-edge", "tensorflow"), "data": "SST-2 dev", "batch": BATCH, "results": rows}
    arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
