"""Our encoder beside keras-hub's `BertBackbone` (and PyTorch, where installed): same weights, one process.

    python benchmarks/encoder.py                        # about 6 minutes on 2 cores
    python benchmarks/encoder.py --default-allocator    # without keep_freed_memory()

Prints, for MiniLM's sizes (6 layers, width 384): the largest difference of the outputs; the forward pass at batch 1
and 8, length 128; a training step (batch 16, length 128, 20 masked positions, AdamW, dropout 0.1), as a TensorFlow
graph and compiled by XLA; and what share of this machine's float32 matmul rate the training step reaches. Contenders
take turns, round by round, and the minimum counts: the time of an undisturbed run. PyTorch has its own thread pool,
so it is timed in a process of its own. `keep_freed_memory()` helps every contender, so all of them have it.
"""

import argparse
import os
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import keras_hub
import numpy as np
import tensorflow as tf
from record import add_output, write_run

from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.heads import masked_lm_logits
from keras_bert.system.allocator import keep_freed_memory

CONFIG = BertConfig(
    num_layers=6, num_heads=12, hidden_dim=384, intermediate_dim=1536, activation="gelu_tanh"
)  # keras-hub's BERT has the tanh GELU
LENGTH, MASKED, TRAIN_BATCH = 128, 20, 16
NAMES, KINDS = {"ours": "ours", "hub": "keras-hub"}, {False: "graph", True: "XLA"}


# === The contenders ===


def ours():
    return bert_encoder(CONFIG, seed=0)


def theirs(encoder):
    """keras-hub's backbone with our weights."""
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=CONFIG.vocabulary_size,
        num_layers=CONFIG.num_layers,
        num_heads=CONFIG.num_heads,
        hidden_dim=CONFIG.hidden_dim,
        intermediate_dim=CONFIG.intermediate_dim,
        dropout=CONFIG.dropout,
    )
    weights = {v.path: v for v in encoder.variables}
    for variable in backbone.variables:
        if "seed_generator" not in variable.path:
            value = weights[_our_name(variable.path)].numpy()
            variable.assign(value.reshape(variable.shape))
    return backbone


def _our_name(path):
    for theirs, ours in (
        ("position_embedding/embeddings", "embeddings/position"),
        ("segment_embedding", "embeddings/segment"),
        ("embeddings_layer_norm", "embeddings/norm"),
        ("transformer_layer_", "block_"),
        ("self_attention_layer/", "attention/"),
        ("attention_output", "output"),
        ("self_attention_layer_norm", "attention_norm"),
        ("feedforward_intermediate_dense", "intermediate"),
        ("feedforward_output_dense", "output"),
        ("feedforward_layer_norm", "output_norm"),
        ("pooled_dense", "pooler/dense"),
    ):
        path = path.replace(theirs, ours)
    return path


def pretraining_model(encoder, hub_head=None):
    """MLM and NSP on top; each library with its own MLM head."""
    positions = keras.Input((MASKED,), dtype="int32", name="masked_positions")
    outputs = encoder.output
    if hub_head is None:
        vectors = keras.ops.take_along_axis(outputs["sequence_output"], positions[:, :, None], axis=1)
        mlm = masked_lm_logits(encoder, vectors)
    else:
        mlm = hub_head(outputs["sequence_output"], positions)
    nsp = keras.layers.Dense(2, name="nsp")(outputs["pooled_output"])
    return keras.Model({**encoder.input, "masked_positions": positions}, {"mlm": mlm, "nsp": nsp})


def training_step(model, jit_compile):
    optimizer = keras.optimizers.AdamW(1e-4)
    optimizer.build(model.trainable_variables)
    values = [variable.value for variable in model.trainable_variables]
    loss_of = tf.nn.sparse_softmax_cross_entropy_with_logits

    def step(features, mlm_labels, nsp_labels):
        with tf.GradientTape() as tape:
            logits = model(features, training=True)
            loss = tf.reduce_mean(loss_of(mlm_labels, logits["mlm"]))
            loss += tf.reduce_mean(loss_of(nsp_labels, logits["nsp"]))
        optimizer.apply(tape.gradient(loss, values), model.trainable_variables)
        return loss

    return tf.function(step, jit_compile=jit_compile)


# === Measuring ===


def features(batch):
    rng = np.random.default_rng(0)
    ids = rng.integers(1000, CONFIG.vocabulary_size, (batch, LENGTH))
    segments = np.repeat([[0] * (LENGTH // 2) + [1] * (LENGTH // 2)], batch, 0)
    return {
        "token_ids": tf.constant(ids, tf.int32),
        "segment_ids": tf.constant(segments, tf.int32),
        "padding_mask": tf.ones((batch, LENGTH), tf.int32),
    }


def fastest(contenders, rounds):
    """Minimum seconds of each callable."""
    return {name: min(seconds) for name, seconds in all_seconds(contenders, rounds).items()}


def all_seconds(contenders, rounds):
    """Seconds of each callable; they take turns so that a slow moment of the machine hits all of them."""
    found = {name: [] for name in contenders}
    for run in contenders.values():
        run()
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            found[name].append(time.perf_counter() - start)
    return found


def matmul_rate():
    """GFLOP/s of the encoder's own largest matmul, compiled by XLA, the best of many."""
    a = tf.random.normal((TRAIN_BATCH * LENGTH, CONFIG.intermediate_dim))
    b = tf.random.normal((CONFIG.intermediate_dim, CONFIG.intermediate_dim))
    run = tf.function(tf.matmul, jit_compile=True)
    seconds = fastest({"matmul": lambda: run(a, b).numpy()}, rounds=50)["matmul"]
    return 2 * a.shape[0] * a.shape[1] * b.shape[1] / seconds / 1e9


def training_gflop():
    """Floating point operations of the matmuls in a training step: forward, and twice that for the gradients."""
    width, inner, tokens = CONFIG.hidden_dim, CONFIG.intermediate_dim, TRAIN_BATCH * LENGTH
    block = 4 * width * width + 2 * width * inner + 2 * LENGTH * width
    masked = TRAIN_BATCH * MASKED * (width * CONFIG.vocabulary_size + width * width)
    return 3 * 2 * (tokens * CONFIG.num_layers * block + masked) / 1e9


def torch_seconds(batch):
    command = [sys.executable, __file__, *sys.argv[1:], "--torch-forward", str(batch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return float(done.stdout) if done.returncode == 0 else None


def run_torch_forward(batch):
    import torch
    from transformers import BertConfig as TorchConfig
    from transformers import BertModel

    torch.set_num_threads(os.cpu_count())
    model = BertModel(
        TorchConfig(
            num_hidden_layers=CONFIG.num_layers,
            num_attention_heads=CONFIG.num_heads,
            hidden_size=CONFIG.hidden_dim,
            intermediate_size=CONFIG.intermediate_dim,
            hidden_act="gelu_new",
        )
    ).eval()
    ids = torch.randint(1000, CONFIG.vocabulary_size, (batch, LENGTH))
    with torch.inference_mode():
        print(fastest({"torch": lambda: model(ids)}, rounds=40)["torch"])


# === The tables ===


def forward_table(encoder, backbone, rounds):
    print(f"\nForward, length {LENGTH}, milliseconds\n")
    print("| batch | ours graph | ours XLA | keras-hub graph | keras-hub XLA | PyTorch | ours / best other |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for batch in (1, 8):
        inputs = features(batch)
        contenders = {}
        for jit in (False, True):
            for name, model in (("ours", encoder), ("hub", backbone)):
                outputs = keras.Model(model.input, {k: model.output[k] for k in ("sequence_output", "pooled_output")})
                call = tf.function(lambda x, m=outputs: m(x, training=False), jit_compile=jit)
                contenders[name, jit] = lambda call=call, x=inputs: call(x)["pooled_output"].numpy()
        found = all_seconds(contenders, rounds)
        best = {name: min(seconds) for name, seconds in found.items()}
        torch = torch_seconds(batch)
        others = min(s for s in (best["hub", False], best["hub", True], torch) if s)
        mine = min(best["ours", False], best["ours", True])
        cells = [best["ours", False], best["ours", True], best["hub", False], best["hub", True], torch]
        row = " | ".join("–" if cell is None else f"{cell * 1e3:.1f}" for cell in cells)
        print(f"| {batch} | {row} | {mine / others:.2f} |")
        names = {(name, jit): f"{called}, {how}" for name, called in NAMES.items() for jit, how in KINDS.items()}
        rows.append({"batch": batch, **{names[key]: [1e3 * one for one in found[key]] for key in names}})
        rows[-1]["PyTorch"] = None if torch is None else 1e3 * torch
    return rows


def training_table(encoder, backbone, rounds):
    hub_head = keras_hub.layers.MaskedLMHead(
        vocabulary_size=CONFIG.vocabulary_size,
        token_embedding=backbone.token_embedding,
        intermediate_activation=lambda x: keras.activations.gelu(x, approximate=True),
        name="mlm_head",
    )
    models = {
        "ours": pretraining_model(encoder),
        "keras-hub": pretraining_model(backbone, hub_head),
    }
    rng = np.random.default_rng(1)
    inputs = {
        **features(TRAIN_BATCH),
        "masked_positions": tf.constant(rng.integers(0, LENGTH, (TRAIN_BATCH, MASKED)), tf.int32),
    }
    mlm = tf.constant(rng.integers(0, CONFIG.vocabulary_size, (TRAIN_BATCH, MASKED)), tf.int32)
    nsp = tf.constant(rng.integers(0, 2, (TRAIN_BATCH,)), tf.int32)
    contenders = {}
    for jit in (True, False):
        for name, model in models.items():
            step = training_step(model, jit)
            contenders[name, jit] = lambda step=step: step(inputs, mlm, nsp).numpy()
    found = all_seconds(contenders, rounds)
    best = {name: min(seconds) for name, seconds in found.items()}
    rate, gflop = matmul_rate(), training_gflop()
    print(f"\nTraining step, {TRAIN_BATCH} x {LENGTH} tokens, seconds\n")
    print("| | graph | XLA |\n|---|---|---|")
    for name in models:
        print(f"| {name} | {best[name, False]:.3f} | {best[name, True]:.3f} |")
    mine = min(best["ours", False], best["ours", True])
    hub = min(best["keras-hub", False], best["keras-hub", True])
    print(f"\nkeras-hub's best / ours: {hub / mine:.2f}")
    print(f"matmul rate {rate:.0f} GFLOP/s; the step's {gflop:.0f} GFLOP run at {gflop / mine:.0f} GFLOP/s,")
    print(f"that is {gflop / mine / rate:.0%} of it")
    rates = [
        {"what": "the training step", "GFLOP/s": gflop / mine},
        {"what": "a plain matrix product", "GFLOP/s": rate},
    ]
    return [{"contender": name, **{how: found[name, jit] for jit, how in KINDS.items()}} for name in models], rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12, help="turns that each contender takes")
    parser.add_argument("--default-allocator", action="store_true", help="leave the C library's settings alone")
    parser.add_argument("--torch-forward", type=int, help=argparse.SUPPRESS)
    add_output(parser, "encoder")
    arguments = parser.parse_args()
    if not arguments.default_allocator:
        keep_freed_memory()
    if arguments.torch_forward:
        run_torch_forward(arguments.torch_forward)
        return
    encoder = ours()
    backbone = theirs(encoder)
    inputs = features(8)
    mine, hub = encoder(inputs), backbone(inputs)
    differences = {key: float(np.abs(mine[key] - hub[key]).max()) for key in ("sequence_output", "pooled_output")}
    for key, difference in differences.items():
        print(f"largest difference of {key}: {difference:.1e}")
    forward = forward_table(encoder, backbone, rounds=4 * arguments.rounds)
    training, rates = training_table(encoder, backbone, arguments.rounds)
    equality = [{"what": "largest difference of the outputs", "value": max(differences.values())}]
    write_run(
        arguments.output,
        {"Forward, ms": forward, "Training step, s": training, "Rates, GFLOP/s": rates, "Equality": equality},
        packages=("tensorflow", "keras", "keras-hub", "torch", "transformers"),
        part="default allocator" if arguments.default_allocator else None,
        settings={"length": LENGTH, "training batch": TRAIN_BATCH, "masked positions": MASKED},
        contenders=["ours", "keras-hub", "PyTorch"],
    )


if __name__ == "__main__":
    main()
