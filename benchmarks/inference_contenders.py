"""The contenders of `inference.py`: each is built once, as files, and opened for every measurement.

`CONTENDERS` has a row for each. `build` takes a fine-tuned directory and a target directory, and writes files there,
with TensorFlow, PyTorch or whatever it needs. `open` takes the target directory and a number of threads, and gives a
function from token ids `[1, T]` to logits `[C]`. The two run in different processes, so that what is measured is what
would be shipped.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NAMES = ("token_ids", "segment_ids", "padding_mask")
THEIR_NAMES = ("input_ids", "token_type_ids", "attention_mask")
HUB_LENGTH = 128


@dataclass(frozen=True)
class Contender:
    """How one runtime comes to its file, and answers with it."""

    build: Callable[[Path, Path, Path], dict]  # the model, the data, the place → facts: bytes, partitions
    open: Callable[[Path, int], Callable[[np.ndarray], np.ndarray]]


def padded_inputs(ids: np.ndarray, length: int | None = None) -> dict[str, np.ndarray]:
    """Token ids as the three inputs, padded to a length."""
    length = length or ids.shape[1]
    token_ids = np.zeros((1, length), np.int32)
    token_ids[:, : ids.shape[1]] = ids
    mask = (np.arange(length)[None] < ids.shape[1]).astype(np.int32)
    return {"token_ids": token_ids, "segment_ids": np.zeros_like(token_ids), "padding_mask": mask}


def _tflite_facts(path):
    from export.file.ops import audit_ops

    partitions = max(audit_ops(path, count_partitions=True).partitions.values())
    return {"bytes": path.stat().st_size, "partitions": partitions}


# === Ours ===


def build_ours(recipe: str, model: Path, data: Path, place: Path) -> dict:
    """A file for any length, by a recipe."""
    import export
    import keras_bert
    from keras_bert.data.glue import read_glue

    task = keras_bert.load_task(model)
    some = read_glue("SST-2", data / "glue", "train").texts[:256]
    return _tflite_facts(
        export.convert(task, place / "model.tflite", recipe=recipe, lengths="dynamic", calibration=some).path
    )


def _runner(path, threads):
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=threads)
    (key,) = interpreter.get_signature_list()
    return interpreter.get_signature_runner(key)


def open_ours(place: Path, threads: int):
    """Each text at its own length."""
    run = _runner(place / "model.tflite", threads)
    return lambda ids: np.log(np.maximum(run(**padded_inputs(ids))["probabilities"][0], 1e-30))


# === keras-hub ===


def build_hub(quantize: bool, model: Path, data: Path, place: Path) -> dict:
    """`BertTextClassifier` by `model.export(format="litert")`, at a fixed length; int8 by the converter's own way."""
    import keras
    import keras_hub
    import tensorflow as tf

    import keras_bert

    task = keras_bert.load_task(model)
    encoder, tokenizer = keras_bert.load_encoder(model)
    keras_bert.save_pretrained(encoder, place / "preset", tokenizer=tokenizer, format="keras_hub")
    backbone = keras_hub.models.BertBackbone.from_preset(str(place / "preset"))
    classifier = keras_hub.models.BertTextClassifier(backbone, num_classes=len(task.labels), preprocessor=None)
    classifier.get_layer("logits").set_weights(task.model.get_layer("classifier").get_weights())
    signature = {name: keras.InputSpec(shape=(1, HUB_LENGTH), dtype="int32", name=name) for name in NAMES}
    options = {"optimizations": [tf.lite.Optimize.DEFAULT]} if quantize else {}
    path = place / "model.tflite"
    classifier.export(str(path), format="litert", input_signature=[signature], verbose=False, **options)
    return _tflite_facts(path)


def open_hub(place: Path, threads: int):
    """Each text padded to the one length."""
    run = _runner(place / "model.tflite", threads)

    def answer(ids):
        (logits,) = run(**padded_inputs(ids, HUB_LENGTH)).values()
        return logits[0]

    return answer


# === ONNX Runtime, OpenVINO, PyTorch ===


def _read_torch(model):
    from transformers import BertForSequenceClassification

    return BertForSequenceClassification.from_pretrained(model, attn_implementation="eager").eval()


def build_onnx(model: Path, data: Path, place: Path) -> dict:
    """The float32 graph for one row, by PyTorch's exporter."""
    return _export_onnx(model, place, {1: "length"})


def build_onnx_batches(model: Path, place: Path) -> dict:
    """The same for any number of rows."""
    return _export_onnx(model, place, {0: "rows", 1: "length"})


def _export_onnx(model: Path, place: Path, dynamic: dict[int, str]) -> dict:
    import torch

    class ByPosition(torch.nn.Module):
        """The exporter names inputs by their position."""

        def __init__(self):
            super().__init__()
            self.model = _read_torch(model)

        def forward(self, ids, segments, mask):
            return self.model(input_ids=ids, token_type_ids=segments, attention_mask=mask).logits

    ids, path = torch.ones((1, 16), dtype=torch.long), place / "model.onnx"
    with torch.inference_mode():
        torch.onnx.export(
            ByPosition().eval(),
            (ids, ids * 0, ids),
            path,
            input_names=list(THEIR_NAMES),
            output_names=["logits"],
            dynamic_axes=dict.fromkeys(THEIR_NAMES, dynamic),
            dynamo=False,
        )
    return {"bytes": path.stat().st_size}


def build_onnx_int8(model: Path, data: Path, place: Path) -> dict:
    """The same, its matrices in int8 with a scale for each channel."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    build_onnx(model, data, place)
    path = place / "int8.onnx"
    quantize_dynamic(place / "model.onnx", path, weight_type=QuantType.QInt8, per_channel=True)
    return {"bytes": path.stat().st_size}


def _their_inputs(ids):
    inputs = padded_inputs(ids)
    return {theirs: inputs[ours].astype(np.int64) for theirs, ours in zip(THEIR_NAMES, NAMES, strict=True)}


def open_onnx(file: str, place: Path, threads: int, *, right_products: bool = True):
    """ONNX Runtime; without VNNI its int8 products saturate unless it is told otherwise, which costs time with VNNI."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    if right_products:
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(place / file, options, providers=["CPUExecutionProvider"])
    return lambda ids: session.run(None, _their_inputs(ids))[0][0]


def open_openvino(place: Path, threads: int):
    """OpenVINO on the float32 graph."""
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(core.read_model(place / "model.onnx"), "CPU", settings).create_infer_request()
    return lambda ids: request.infer(_their_inputs(ids))[0][0].copy()


def build_torch(model: Path, data: Path, place: Path) -> dict:
    """PyTorch reads the fine-tuned directory itself."""
    (place / "model.json").write_text(json.dumps(str(model.resolve())), encoding="utf-8")
    return {"bytes": (model / "model.safetensors").stat().st_size}


def open_torch(place: Path, threads: int):
    """PyTorch float32, with its own fused attention."""
    import torch
    from transformers import BertForSequenceClassification

    torch.set_num_threads(threads)
    directory = json.loads((place / "model.json").read_text(encoding="utf-8"))
    model = BertForSequenceClassification.from_pretrained(directory).eval()

    def answer(ids):
        with torch.inference_mode():
            return model(input_ids=torch.from_numpy(ids).long()).logits[0].numpy()

    return answer


def _ours(recipe):
    return Contender(lambda *where: build_ours(recipe, *where), open_ours)


RECIPES = ("float32", "float16", "dynamic_int8", "static_int8", "weight_int4")
CONTENDERS = {
    **{recipe: _ours(recipe) for recipe in RECIPES},
    "hub": Contender(lambda *where: build_hub(False, *where), open_hub),
    "hub_int8": Contender(lambda *where: build_hub(True, *where), open_hub),
    "ort": Contender(build_onnx, lambda place, threads: open_onnx("model.onnx", place, threads)),
    "ort_int8": Contender(build_onnx_int8, lambda place, threads: open_onnx("int8.onnx", place, threads)),
    "ort_int8_plain": Contender(
        build_onnx_int8, lambda place, threads: open_onnx("int8.onnx", place, threads, right_products=False)
    ),
    "openvino": Contender(build_onnx, open_openvino),
    "torch": Contender(build_torch, open_torch),
}
