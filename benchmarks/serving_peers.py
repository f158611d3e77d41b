"""The peers of `serving.py`: other runtimes behind the same web framework, with one thread of work for each core.

    python benchmarks/serving_peers.py build ort_int8 MODEL PLACE
    python benchmarks/serving_peers.py serve ort_int8 PLACE PORT

`ort_int8` is ONNX Runtime (dynamic int8, a scale for each channel) with `tokenizers`; `ort_int8_fused` the same after
ONNX Runtime's optimizer of transformers, which makes each attention, norm and activation one op; `saved_model` is our
own SavedModel in TensorFlow. All take and give what `keras-bert serve` does: `instances` and `predictions`. Each
request runs in one of as many threads as there are cores, each text at its own length.
Needs: pip install torch transformers onnx onnxruntime tokenizers uvicorn starlette httptools uvloop orjson
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# === ONNX Runtime ===


def build_ort(model, place):
    """The model in int8, with its tokenizer and labels."""
    import shutil

    from inference_contenders import build_onnx_int8

    build_onnx_int8(model, None, place)
    (place / "model.onnx").unlink()
    for name in ("vocab.txt", "tokenizer_config.json", "labels.txt"):
        shutil.copy(model / name, place / name)


def build_fused_ort(model, place):
    """The same with fused ops, which are fused before the matrices become int8."""
    import shutil

    from inference_contenders import build_onnx_fused_int8

    build_onnx_fused_int8(model, None, place)
    for name in ("vocab.txt", "tokenizer_config.json", "labels.txt"):
        shutil.copy(model / name, place / name)


def open_ort(place):
    """A function from a text to its label and probabilities."""
    import numpy as np
    import onnxruntime
    from inference_contenders import read_tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if "avx512_vnni" not in Path("/proc/cpuinfo").read_text() and "avx_vnni" not in Path("/proc/cpuinfo").read_text():
        options.add_session_config_entry("session.x64quantprecision", "1")  # right products, see inference.py
    session = onnxruntime.InferenceSession(place / "int8.onnx", options, providers=["CPUExecutionProvider"])
    tokenizer, labels = read_tokenizer(place)

    def answer(text):
        row = np.array([tokenizer.encode(text).ids], np.int64)
        inputs = {"input_ids": row, "token_type_ids": np.zeros_like(row), "attention_mask": np.ones_like(row)}
        (logits,) = session.run(None, inputs)[0]
        shares = np.exp(logits - logits.max())
        shares = (shares / shares.sum()).tolist()
        best = max(range(len(shares)), key=shares.__getitem__)
        return {"label": labels[best], "probability": shares[best], "probabilities": shares}

    return lambda texts: [answer(text) for text in texts]


# === TensorFlow ===


def build_saved_model(model, place):
    """Our SavedModel."""
    import export
    import keras_bert

    export.save_serving(keras_bert.load_task(model), place / "sst")


def open_saved_model(place):
    """A function from a text to its label and probabilities, by the SavedModel."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  has the ops that read strings

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(len(os.sched_getaffinity(0)))
    loaded = tf.saved_model.load(str(place / "sst" / "1"))
    serve = loaded.signatures["serving_default"]

    def answer(texts, keep=loaded):
        found = {name: value.numpy() for name, value in serve(text=tf.constant(texts)).items()}
        rows = zip(found["label"], found["probability"].tolist(), found["probabilities"].tolist(), strict=True)
        return [{"label": name.decode(), "probability": one, "probabilities": every} for name, one, every in rows]

    return answer


PEERS = {
    "ort_int8": (build_ort, open_ort),
    "ort_int8_fused": (build_fused_ort, open_ort),
    "saved_model": (build_saved_model, open_saved_model),
}


# === The server ===


def serve(answer, port):
    """Serve `:predict` with a pool of threads."""
    import asyncio

    import orjson
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))

    async def predict(request):
        texts = orjson.loads(await request.body())["instances"]
        found = await asyncio.get_running_loop().run_in_executor(pool, answer, texts)
        return Response(orjson.dumps({"predictions": found}), media_type="application/json")

    app = Starlette(routes=[Route("/v1/models/sst:predict", predict, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", access_log=False)


def main():
    # A script beside this one may be called like a module that a library looks for (JAX: `compression`).
    sys.path.append(sys.path.pop(0))
    command, name, *rest = sys.argv[1:]
    build, open_peer = PEERS[name]
    if command == "build":
        model, place = map(Path, rest)
        place.mkdir(parents=True, exist_ok=True)
        build(model, place)
    else:
        serve(open_peer(Path(rest[0])), int(rest[1]))


if __name__ == "__main__":
    main()
