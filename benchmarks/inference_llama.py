"""llama.cpp's BERT for `inference.py`: a GGUF file of the encoder, run by the package `xllamacpp`.

llama.cpp gives the state of the first token; pooler and classifier, two small products, are computed in NumPy. Its
server takes token ids and gives JSON within the process, which costs about a tenth of a millisecond.
"""

import json
from pathlib import Path

import numpy as np

_BLOCK = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_TABLES = {"word": "token_embd", "position": "position_embd", "token_type": "token_types"}


def build_llama(kind: str, model: Path, data: Path, place: Path) -> dict:
    """The encoder as GGUF, its matrices in `kind` (`"Q8_0"` or `"Q4_0"`), and the head as NumPy arrays."""
    import gguf
    from safetensors.numpy import load_file

    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    weights = load_file(model / "model.safetensors")
    path, layers = place / "model.gguf", config["num_hidden_layers"]
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(layers)
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.CLS)
    _add_vocabulary(writer, model)
    dtype = gguf.GGMLQuantizationType[kind]
    for name, array in _named(weights, layers):
        if array.ndim == 2 and name.startswith(("blk.", "token_embd.")):
            writer.add_tensor(name, gguf.quants.quantize(array, dtype), raw_dtype=dtype)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    head = {name: weights[name] for name in weights if name.startswith(("bert.pooler.", "classifier."))}
    np.savez(place / "head.npz", **head)
    return {"bytes": path.stat().st_size}


def _named(weights, layers):
    """Each tensor with llama.cpp's name."""
    start = "bert.embeddings."
    for theirs, ours in _TABLES.items():
        yield f"{ours}.weight", weights[f"{start}{theirs}_embeddings.weight"].astype(np.float32)
    for part in ("weight", "bias"):
        yield f"token_embd_norm.{part}", weights[f"{start}LayerNorm.{part}"].astype(np.float32)
        for layer in range(layers):
            for theirs, ours in _BLOCK.items():
                value = weights[f"bert.encoder.layer.{layer}.{theirs}.{part}"]
                yield f"blk.{layer}.{ours}.{part}", value.astype(np.float32)


def _add_vocabulary(writer, model):
    """WordPiece as llama.cpp writes it: a space before what begins a word."""
    tokens = (model / "vocab.txt").read_text(encoding="utf-8").split("\n")
    tokens = tokens[:-1] if not tokens[-1] else tokens
    special = {"[PAD]": "pad", "[UNK]": "unk", "[CLS]": "bos", "[SEP]": "sep", "[MASK]": "mask"}
    words = [one if one in special else one[2:] if one.startswith("##") else "\u2581" + one for one in tokens]
    writer.add_tokenizer_model("bert")
    writer.add_token_list(words)
    writer.add_token_types([3 if one in special else 1 for one in tokens])
    writer.add_token_type_count(2)
    for name, kind in special.items():
        if name in tokens:
            getattr(writer, f"add_{kind}_token_id")(tokens.index(name))


def open_llama(place: Path, threads: int):
    """The state of the first token by llama.cpp, pooler and classifier by NumPy."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.embedding = str(place / "model.gguf"), True
    params.n_ctx = params.n_batch = params.n_ubatch = 512
    params.n_parallel, params.embd_normalize = 1, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_CLS
    params.warmup, params.verbosity = False, -1
    server = xllamacpp.Server(params)
    with np.load(place / "head.npz") as stored:
        head = dict(stored)

    def answer(ids):
        found = server.handle_embeddings({"input": ids[0].tolist(), "encoding_format": "float"})
        state = np.array(found["data"][0]["embedding"], np.float32)
        pooled = np.tanh(head["bert.pooler.dense.weight"] @ state + head["bert.pooler.dense.bias"])
        return head["classifier.weight"] @ pooled + head["classifier.bias"]

    return answer
