"""The first steps of a fine-tuning beside PyTorch's: does ours learn as transformers does, step by step?

    python benchmarks/training_parity.py --steps 40                             # about 6 minutes on one core
    python benchmarks/training_parity.py --steps 20 --epsilon 1e-6              # what a larger epsilon does

MiniLM learns the intents and slots of the bundled assistant commands, by our optimizer on TensorFlow and on JAX (in a
process of its own) and by PyTorch's AdamW, from the same weights, heads included, on the same batches with the same
schedule: once without dropout, where all should do the same, and once with it, where all should do as well. Prints the
mean loss of every ten steps and that of commands that none has seen.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from record import add_output, write_run

import keras_bert
from keras_bert.checkpoint.hub import find_directory
from keras_bert.finetuning.layerwise_adamw import finetuning_optimizer
from keras_bert.finetuning.recipes import Recipe
from keras_bert.model.weights import to_numpy
from keras_bert.tasks.base.fitting import fresh_model, task_batches
from keras_bert.tasks.intent_slots.task import IntentSlots
from keras_bert.training.training_model import TrainingModel

MODEL, BATCH, RATE, EVERY = "all-MiniLM-L6-v2", 16, 1e-4, 10
HEADS = {"class_logits": "classifier", "token_logits": "token_classifier"}


def read():
    """The task, batches to train on and batches to measure on."""
    commands = keras_bert.load_assistant("train")
    kinds = {
        "intents": keras_bert.data.assistant.intents(),
        "slots": sorted({s.name for one in commands for s in one.slots}),
    }
    task = IntentSlots.from_pretrained(MODEL, **kinds, sequence_length=32, pooling="cls")
    task.trains_packed = False  # rows as PyTorch takes them

    def batches(rows, epochs):
        make, steps = task_batches(task, task.prepare(rows, None), BATCH)
        return [batch for _, batch in zip(range(steps * epochs), make(0, 0, epochs), strict=False)]

    return task, batches(commands, 3), batches(keras_bert.load_assistant("validation"), 1)


def train_ours(task, batches, dropout, steps, epsilon, heads=None):
    """The losses of the steps, how to measure the model, and its first heads."""
    rates = dict.fromkeys(("dropout", "attention_dropout", "classifier_dropout"), dropout)
    model = TrainingModel.from_model(fresh_model(task, Recipe(learning_rate=RATE, **rates), 0, None))
    if heads is None:
        heads = {name: [to_numpy(weight) for weight in model.get_layer(layer).weights] for name, layer in HEADS.items()}
    for name, layer in HEADS.items():
        model.get_layer(layer).set_weights(heads[name])
    optimizer = finetuning_optimizer(RATE, 2 * steps)
    optimizer.epsilon = epsilon or optimizer.epsilon
    model.compile(optimizer, loss=task.losses(), jit_compile=keras.backend.backend() == "jax")
    losses = []
    for inputs, labels, weights in (as_numpy(batch) for batch in batches[:steps]):
        model.reset_metrics()
        losses.append(float(model.train_on_batch(inputs, labels, sample_weight=weights, return_dict=True)["loss"]))

    def measure(*batch):
        inputs, labels, weights = as_numpy(batch)
        outputs = model(inputs, training=False)
        return sum(float(loss(labels[name], outputs[name], weights[name])) for name, loss in task.losses().items())

    return losses, measure, heads


def as_numpy(batch):
    """A batch for either backend."""
    return keras.tree.map_structure(lambda tensor: tensor.numpy(), batch)


def train_on_jax(dropout, steps, epsilon, heads):
    """The same by our optimizer on JAX, in a process of its own; gives the losses and the mean of unseen commands."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "heads.npz"
        np.savez(path, **{f"{name} {index}": part for name, parts in heads.items() for index, part in enumerate(parts)})
        command = [
            sys.executable,
            __file__,
            "--steps",
            str(steps),
            "--from-heads",
            str(path),
            "--dropout",
            str(dropout),
        ]
        command += [] if epsilon is None else ["--epsilon", str(epsilon)]
        environment = {**os.environ, "KERAS_BACKEND": "jax"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def answer_on_jax(arguments):
    """What `train_on_jax` asks for."""
    with np.load(arguments.from_heads) as file:
        heads = {name: [file[f"{name} {index}"] for index in (0, 1)] for name in HEADS}
    task, train, check = read()
    losses, measure, _ = train_ours(task, train, arguments.dropout, arguments.steps, arguments.epsilon, heads)
    print(json.dumps([losses, float(np.mean([measure(*batch) for batch in check]))]))


def train_torch(task, batches, dropout, steps, heads):
    """The same by PyTorch, from the same heads."""
    import torch
    import transformers
    from intent_slots import joint_bert
    from peer_training import _IGNORED, _INPUTS

    torch.manual_seed(0)
    model, run = joint_bert(find_directory(MODEL), {name: len(bias) for name, (_, bias) in heads.items()})
    with torch.no_grad():
        for name, (kernel, bias) in heads.items():
            model["heads"][name].weight.copy_(torch.tensor(kernel.T))
            model["heads"][name].bias.copy_(torch.tensor(bias))
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = dropout
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(0.1 * 2 * steps), 2 * steps)

    def loss_of(inputs, labels, weights):
        given = {theirs: torch.from_numpy(inputs[ours].numpy()).long() for ours, theirs in _INPUTS.items()}
        wanted = {name: np.where(weights[name] > 0, labels[name], _IGNORED) for name in labels}
        return run(given, {name: torch.from_numpy(part).long() for name, part in wanted.items()})[0]

    model.train()
    losses = []
    for batch in batches[:steps]:
        loss = loss_of(*batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    model.eval()

    def measure(*batch):
        with torch.no_grad():
            return loss_of(*batch).item()

    return losses, measure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--epsilon", type=float, help="of our optimizer, instead of its own")
    parser.add_argument("--from-heads", help=argparse.SUPPRESS)
    parser.add_argument("--dropout", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--without-torch", action="store_true", help="TensorFlow and JAX only")
    add_output(parser, "training_parity")
    arguments = parser.parse_args()
    if arguments.from_heads:
        answer_on_jax(arguments)
        return
    keras_bert.keep_freed_memory()
    task, train, check = read()
    parts = range(0, arguments.steps, EVERY)
    print("| dropout | | " + " | ".join(f"to step {part + EVERY}" for part in parts) + " | unseen |")
    print("|---" * (len(parts) + 3) + "|")
    columns = [f"steps {part + 1} to {part + EVERY}" for part in parts] + ["unseen"]
    results = []
    for dropout in (0.0, 0.1):
        losses, measure, heads = train_ours(task, train, dropout, arguments.steps, arguments.epsilon)
        rows = {"TensorFlow": (losses, np.mean([measure(*batch) for batch in check]))}
        rows["JAX"] = train_on_jax(dropout, arguments.steps, arguments.epsilon, heads)
        if not arguments.without_torch:
            losses, measure = train_torch(task, train, dropout, arguments.steps, heads)
            rows["PyTorch"] = losses, np.mean([measure(*batch) for batch in check])
        for name, (losses, unseen) in rows.items():
            values = [*(np.mean(losses[part : part + EVERY]) for part in parts), unseen]
            print(f"| {dropout} | {name} | " + " | ".join(f"{value:.4f}" for value in values) + " |", flush=True)
            results.append({"dropout": dropout, "contender": name, **dict(zip(columns, values, strict=True))})
    part = None if arguments.epsilon is None else f"epsilon {arguments.epsilon:g}"
    packages = ("tensorflow", "keras", "jax", "torch", "transformers")
    settings = {"batch": BATCH, "rate": RATE, "steps": arguments.steps}
    write_run(arguments.output, results, packages=packages, part=part, seeds=[0], settings=settings)


if __name__ == "__main__":
    main()
