"""One fine-tuned classifier in every runtime: latency by length and threads, agreement with float32, accuracy.

    keras-bert finetune DIR/glue/SST-2 sst2/ --glue SST-2 --model all-MiniLM-L6-v2 --epochs 2 --learning-rate 5e-5
    python benchmarks/inference.py --data DIR --model sst2/                        # about 20 minutes on 2 quiet cores
    python benchmarks/inference.py --data DIR --model sst2/ --contenders dynamic_int8 hub --threads 1

DIR holds `glue/SST-2/`. Contenders: our recipes by name; `hub` (keras-hub's BertTextClassifier by `model.export(…,
"litert")` at a fixed 128, float32) and `hub_int8` (the same with the converter's dynamic range quantization);
`ort_int8` (ONNX Runtime, dynamic int8 with right products: `session.x64quantprecision=1`), `openvino` (float32),
`torch` (float32). Each runs in a process of its own, one after the other, on the same weights and the same token ids;
what is not installed is left out with a word. Peers: pip install onnx onnxruntime openvino torch transformers.

Columns: milliseconds for one row (the least of many) at 16, 64 and 128 tokens; the mean over the dev set's own texts,
each at its own length where the runtime can; accuracy; the share of texts with float32's answer; the cosine of the
logits.
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

LENGTHS = (16, 64, 128)
RECIPES = ("float32", "dynamic_int8", "static_int8", "weight_int4")
NAMES = ("token_ids", "segment_ids", "padding_mask")


# === Contenders: each gives a function from token ids [1, T] to logits or probabilities [2], and its size in bytes ===


def ours(arguments, recipe, place):
    import export
    import keras_bert
    from keras_bert.tasks.glue import read_glue

    task = keras_bert.load_task(arguments.model)
    some = read_glue("SST-2", arguments.data / "glue", "train").texts[:256]
    artifact = export.convert(task, place / "model.tflite", recipe=recipe, lengths="dynamic", calibration=some)
    runner = _interpreter(artifact.path, arguments.threads).get_signature_runner("dynamic")
    return lambda ids: np.log(np.maximum(runner(**_inputs(ids))["probabilities"][0], 1e-30)), artifact.num_bytes


def hub(arguments, place, *, quantize=False):
    import keras
    import keras_hub
    import tensorflow as tf

    import keras_bert

    task = keras_bert.load_task(arguments.model)
    encoder, tokenizer = keras_bert.load_encoder(arguments.model)
    keras_bert.save_pretrained(encoder, place / "hub", tokenizer=tokenizer, format="keras_hub")
    backbone = keras_hub.models.BertBackbone.from_preset(str(place / "hub"))
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=2, preprocessor=None)
    ours = task.model.get_layer("classifier")
    model.get_layer("logits").set_weights(ours.get_weights())
    signature = {name: keras.InputSpec(shape=(1, 128), dtype="int32", name=name) for name in NAMES}
    options = {"optimizations": [tf.lite.Optimize.DEFAULT]} if quantize else {}
    model.export(str(place / "hub.tflite"), format="litert", input_signature=[signature], verbose=False, **options)
    runner = _interpreter(place / "hub.tflite", arguments.threads).get_signature_runner()

    def run(ids):
        (logits,) = runner(**_inputs(ids, 128)).values()
        return logits[0]

    return run, (place / "hub.tflite").stat().st_size


def _onnx(arguments, place):
    import torch
    from transformers import BertForSequenceClassification

    model = BertForSequenceClassification.from_pretrained(arguments.model, attn_implementation="eager").eval()
    ids = torch.ones((1, 16), dtype=torch.long)
    names = ["input_ids", "token_type_ids", "attention_mask"]
    axes = {name: {1: "length"} for name in names}
    inputs = (ids, ids * 0, ids)
    wrapped = _positional(model)
    torch.onnx.export(
        wrapped,
        inputs,
        place / "model.onnx",
        input_names=names,
        output_names=["logits"],
        dynamic_axes=axes,
        dynamo=False,
    )
    return place / "model.onnx", names


def _positional(model):
    import torch

    class Positional(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, segments, mask):
            return self.model(input_ids=ids, token_type_ids=segments, attention_mask=mask).logits

    return Positional().eval()


def ort_int8(arguments, place):
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path, names = _onnx(arguments, place)
    quantize_dynamic(path, place / "int8.onnx", weight_type=QuantType.QInt8, per_channel=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    options.add_session_config_entry("session.x64quantprecision", "1")  # else products saturate without VNNI
    session = onnxruntime.InferenceSession(place / "int8.onnx", options, providers=["CPUExecutionProvider"])
    run = lambda ids: session.run(None, _theirs(ids, names))[0][0]  # noqa: E731
    return run, (place / "int8.onnx").stat().st_size


def openvino(arguments, place):
    import openvino

    path, names = _onnx(arguments, place)
    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": arguments.threads, "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(core.read_model(path), "CPU", settings).create_infer_request()
    return lambda ids: request.infer(_theirs(ids, names))[0][0], path.stat().st_size


def torch(arguments, place):
    import torch
    from transformers import BertForSequenceClassification

    torch.set_num_threads(arguments.threads)
    model = BertForSequenceClassification.from_pretrained(arguments.model).eval()

    def run(ids):
        with torch.inference_mode():
            return model(input_ids=torch.from_numpy(ids).long()).logits[0].numpy()

    return run, sum(parameter.numel() for parameter in model.parameters()) * 4


CONTENDERS = {
    **{recipe: lambda arguments, place, recipe=recipe: ours(arguments, recipe, place) for recipe in RECIPES},
    "hub": hub,
    "hub_int8": lambda arguments, place: hub(arguments, place, quantize=True),
    "ort_int8": ort_int8,
    "openvino": openvino,
    "torch": torch,
}


# === Inputs ===


def _inputs(ids, length=None):
    length = length or ids.shape[1]
    padded = np.zeros((1, length), np.int32)
    padded[:, : ids.shape[1]] = ids
    mask = (np.arange(length)[None] < ids.shape[1]).astype(np.int32)
    return {"token_ids": padded, "segment_ids": np.zeros_like(padded), "padding_mask": mask}


def _theirs(ids, names):
    inputs = _inputs(ids)
    return {theirs: inputs[ours].astype(np.int64) for theirs, ours in zip(names, NAMES, strict=True)}


def _interpreter(path, threads):
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(model_path=str(path), num_threads=threads)


# === Measurements ===


def measure(arguments):
    """One contender in this process; the dev set's ids and float32's logits come from files."""
    stored = np.load(arguments.rows, allow_pickle=False)
    splits, labels, reference = stored["splits"], stored["labels"], stored["logits"]
    rows = [stored["ids"][None, splits[i] : splits[i + 1]].astype(np.int32) for i in range(len(labels))]
    with tempfile.TemporaryDirectory() as place:
        run, size = CONTENDERS[arguments.alone](arguments, Path(place))
        times = {length: _fastest(run, np.full((1, length), 1012, np.int32), arguments.repeats) for length in LENGTHS}
        run(rows[0])
        start = time.perf_counter()
        logits = np.stack([run(row) for row in rows])
        seconds = time.perf_counter() - start
    centered, expected = (values - values.mean(-1, keepdims=True) for values in (logits, reference))
    cosine = np.sum(centered * expected) / np.linalg.norm(centered) / np.linalg.norm(expected)
    return {
        "ms": times,
        "dev_ms": seconds / len(rows) * 1e3,
        "accuracy": float(np.mean(logits.argmax(-1) == labels)),
        "agreement": float(np.mean(logits.argmax(-1) == reference.argmax(-1))),
        "cosine": float(cosine),
        "bytes": size,
    }


def _fastest(run, ids, repeats):
    for _ in range(3):
        run(ids)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run(ids)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def write_rows(arguments, path):
    """The dev set as ids, with the labels and the Keras model's logits."""
    import keras_bert
    from keras_bert.tasks.glue import read_glue

    task, dev = keras_bert.load_task(arguments.model), read_glue("SST-2", arguments.data / "glue", "dev")
    tokenized, _, _ = task._tokenize(dev.texts)
    ids, splits, _ = tokenized.trimmed(128)[0].packed()
    labels = [task.labels.index(label) for label in dev.labels]
    np.savez(path, ids=ids, splits=splits, labels=labels, logits=task.logits(dev.texts))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds glue/SST-2/")
    parser.add_argument("--model", type=Path, required=True, help="a classifier that was fine-tuned on SST-2")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--output", type=Path, help="also write the numbers here, a line of JSON each")
    parser.add_argument("--alone", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        (arguments.threads,) = arguments.threads
        print(json.dumps(measure(arguments)))
        return
    with tempfile.TemporaryDirectory() as place:
        rows = Path(place) / "rows.npz"
        write_rows(arguments, rows)
        header = "".join(f"{f'{length} tokens':>12}" for length in LENGTHS)
        print(f"{'':<15}{'threads':>8}{header}{'dev texts':>12}{'accuracy':>10}{'same':>8}{'cosine':>8}{'MB':>7}")
        for threads in arguments.threads:
            for name in arguments.contenders:
                show(arguments, name, threads, rows)


def show(arguments, name, threads, rows):
    """Run one contender in a process of its own, and print its line."""
    command = [sys.executable, __file__, "--data", arguments.data, "--model", arguments.model, "--alone", name]
    command += ["--threads", threads, "--rows", rows, "--repeats", arguments.repeats]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name:<15}{threads:>8}  left out: {done.stderr.strip().splitlines()[-1][:90]}", flush=True)
        return
    found = json.loads(done.stdout.splitlines()[-1])
    times = "".join(f"{value:>12.2f}" for value in found["ms"].values())
    print(
        f"{name:<15}{threads:>8}{times}{found['dev_ms']:>12.2f}{found['accuracy']:>10.4f}{found['agreement']:>8.3f}"
        f"{found['cosine']:>8.4f}{found['bytes'] / 1e6:>7.1f}",
        flush=True,
    )
    if arguments.output is not None:
        with arguments.output.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"name": name, "threads": threads, **found}) + "\n")


if __name__ == "__main__":
    main()
