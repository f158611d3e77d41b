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
from inference_llama import build_llama, open_llama

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
    from keras_bert.model.encoder import encoder_config

    task = keras_bert.load_task(model)
    task.sequence_length = encoder_config(task.model).max_sequence_length  # a file has no more positions
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


def pools_mean(model: Path) -> bool:
    """Whether a model classifies the mean of its tokens, which `BertForSequenceClassification` cannot."""
    ours = json.loads((model / "config.json").read_text(encoding="utf-8")).get("keras_bert", {})
    return ours.get("config", {}).get("pooling") == "mean"


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
            self.model, self.takes_mean = _read_torch(model), pools_mean(model)

        def forward(self, ids, segments, mask):
            inputs = {"input_ids": ids, "token_type_ids": segments, "attention_mask": mask}
            if not self.takes_mean:
                return self.model(**inputs).logits
            bert, share = self.model.bert, mask.unsqueeze(-1).float()
            mean = (bert(**inputs).last_hidden_state * share).sum(1) / share.sum(1)
            return self.model.classifier(torch.tanh(bert.pooler.dense(mean)))

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


def build_onnx_fused_int8(model: Path, data: Path, place: Path) -> dict:
    """The same after ONNX Runtime's optimizer of transformers: attention, norms and activations are one op each."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers.optimizer import optimize_model

    build_onnx(model, data, place)
    config, path = json.loads((model / "config.json").read_text(encoding="utf-8")), place / "int8.onnx"
    sizes = {"num_heads": config["num_attention_heads"], "hidden_size": config["hidden_size"]}
    fused = optimize_model(str(place / "model.onnx"), model_type="bert", opt_level=0, **sizes)
    fused.save_model_to_file(str(place / "model.onnx"))
    # The type of what an op of ONNX Runtime's own gives is not inferred, but has to be known: 1 is float32.
    options = {"per_channel": True, "extra_options": {"DefaultTensorType": 1}}
    quantize_dynamic(place / "model.onnx", path, weight_type=QuantType.QInt8, **options)
    (place / "model.onnx").unlink()
    return {"bytes": path.stat().st_size}


def read_tokenizer(place: Path):
    """BERT's tokenizer in Rust, and the labels, from a model directory."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokens = (place / "vocab.txt").read_text(encoding="utf-8").split("\n")
    ids = {token: index for index, token in enumerate(tokens)}
    settings = json.loads((place / "tokenizer_config.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=settings.get("do_lower_case", True))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    tokenizer.enable_truncation(128)
    return tokenizer, (place / "labels.txt").read_text(encoding="utf-8").split("\n")[:-1]


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


def open_openvino(place: Path, threads: int, file: str = "model.onnx"):
    """OpenVINO on the float32 graph, or the quantized one."""
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(core.read_model(place / file), "CPU", settings).create_infer_request()
    return lambda ids: request.infer(_their_inputs(ids))[0][0].copy()


def build_openvino_int8(model: Path, data: Path, place: Path) -> dict:
    """OpenVINO's post-training quantization (NNCF) of the float32 graph, calibrated on training texts."""
    import nncf
    import openvino

    build_onnx(model, data, place)
    tokenizer, _ = read_tokenizer(model)
    lines = (data / "glue" / "SST-2" / "train.tsv").read_text(encoding="utf-8").split("\n")[1:301]
    rows = [np.array([tokenizer.encode(line.split("\t")[0]).ids], np.int32) for line in lines]
    quantized = nncf.quantize(
        openvino.Core().read_model(place / "model.onnx"),
        nncf.Dataset(rows, _their_inputs),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(rows),
    )
    openvino.save_model(quantized, place / "int8.xml")
    return {"bytes": (place / "int8.bin").stat().st_size}


def build_ctranslate2(model: Path, data: Path, place: Path) -> dict:
    """CTranslate2's int8 encoder; the classifier, which it does not know, is multiplied in NumPy."""
    import shutil

    import ctranslate2
    from safetensors.numpy import load_file
    from transformers import BertModel, BertTokenizer

    plain = place / "encoder"
    BertModel.from_pretrained(model).save_pretrained(plain)
    BertTokenizer(str(model / "vocab.txt")).save_pretrained(plain)
    ctranslate2.converters.TransformersConverter(str(plain)).convert(
        str(place / "int8"), quantization="int8", force=True
    )
    shutil.rmtree(plain)
    weights = load_file(model / "model.safetensors")
    pooler = {"pooler": weights["bert.pooler.dense.weight"].T, "pooler_bias": weights["bert.pooler.dense.bias"]}
    head = {"kernel": weights["classifier.weight"].T, "bias": weights["classifier.bias"]}
    np.savez(place / "head.npz", takes_mean=pools_mean(model), **pooler, **head)
    return {"bytes": (place / "int8" / "model.bin").stat().st_size}


def open_ctranslate2(place: Path, threads: int):
    """One text at a time, at its own length."""
    import ctranslate2

    encoder = ctranslate2.Encoder(str(place / "int8"), device="cpu", compute_type="int8", intra_threads=threads)
    head = dict(np.load(place / "head.npz"))

    def answer(ids):
        states = np.array(encoder.forward_batch([ids[0].tolist()]).last_hidden_state)[0]
        pooled = states.mean(axis=0) if head["takes_mean"] else states[0]
        return np.tanh(pooled @ head["pooler"] + head["pooler_bias"]) @ head["kernel"] + head["bias"]

    return answer


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


RECIPES = ("float32", "float16", "dynamic_int8", "static_int8", "weight_int4", "all_int4")
CONTENDERS = {
    **{recipe: _ours(recipe) for recipe in RECIPES},
    "hub": Contender(lambda *where: build_hub(False, *where), open_hub),
    "hub_int8": Contender(lambda *where: build_hub(True, *where), open_hub),
    "ort": Contender(build_onnx, lambda place, threads: open_onnx("model.onnx", place, threads)),
    "ort_int8": Contender(build_onnx_int8, lambda place, threads: open_onnx("int8.onnx", place, threads)),
    "ort_int8_plain": Contender(
        build_onnx_int8, lambda place, threads: open_onnx("int8.onnx", place, threads, right_products=False)
    ),
    "ort_int8_fused": Contender(
        build_onnx_fused_int8, lambda place, threads: open_onnx("int8.onnx", place, threads, right_products=False)
    ),
    "openvino": Contender(build_onnx, open_openvino),
    "openvino_int8": Contender(build_openvino_int8, lambda place, threads: open_openvino(place, threads, "int8.xml")),
    "ctranslate2_int8": Contender(build_ctranslate2, open_ctranslate2),
    "llama_q8_0": Contender(lambda *where: build_llama("Q8_0", *where), open_llama),
    "llama_q4_0": Contender(lambda *where: build_llama("Q4_0", *where), open_llama),
    "torch": Contender(build_torch, open_torch),
}
