"""A task trained by us and by transformers on the same examples, timed pass by pass: what benchmarks of tasks share.

A script has a function for each contender, which takes the parsed arguments and gives the number of examples, the
seconds of every pass and the scores after the last. Ours trains as `fit` does, without its measurements on the way;
transformers trains a PyTorch model on the same buckets, labels and schedule, and answers through the same code.
`compare` runs each contender in a process of its own, one after the other, and prints a table. The speed is that of the
last pass, in which nothing is compiled any more.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from record import add_output, write_run

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

SHOWN = {"torch": "transformers + PyTorch", "crf": "ours, CRF"}
_IGNORED = -100  # what PyTorch's loss leaves out
_INPUTS = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}


# === Training ===


def train_ours(task, data, arguments) -> list[float]:
    """The seconds of each pass; the task has the trained weights afterwards."""
    from keras_bert.finetuning.layerwise_adamw import finetuning_optimizer
    from keras_bert.finetuning.recipes import Recipe
    from keras_bert.model.weights import copy_weights
    from keras_bert.tasks.base.fitting import fresh_model, packs_rows, task_batches
    from keras_bert.training.training_model import TrainingModel

    clock = make_clock()
    recipe = Recipe(learning_rate=arguments.rate, batch_size=arguments.batch, epochs=arguments.epochs)
    table = data.tokenized.used_ids()
    batches, steps = task_batches(task, data, arguments.batch, packed=packs_rows(task), table=table)
    model = TrainingModel.from_model(fresh_model(task, recipe, arguments.seed, table))
    optimizer = finetuning_optimizer(arguments.rate, steps * arguments.epochs)
    model.compile(optimizer, loss=task.losses(), jit_compile=True)
    model.fit(
        batches(arguments.seed, 0, arguments.epochs),
        steps_per_epoch=steps,
        epochs=arguments.epochs,
        shuffle=False,
        verbose=0,
        callbacks=[clock],
    )
    copy_weights(model, task.model, table_rows=table)
    task.keep_extra_state(task.extra_state(model))
    return clock.seconds


def make_clock():
    """Times the passes of a `fit`, without what it waits for when it is done (`tf.data`'s tuner can hold it long)."""
    import keras

    class Clock(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.seconds: list[float] = []

        def on_epoch_begin(self, epoch, logs=None):
            self.start = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            self.seconds.append(time.perf_counter() - self.start)

    return Clock()


def train_torch(task, data, arguments, kind: str | Callable) -> list[float]:
    """The same for a PyTorch model; afterwards the task answers with its logits.

    Args:
        task, data, arguments: As for `train_ours`.
        kind: The name of a class of transformers; or a function from the model's directory to a network, and one that
            takes its inputs and labels (`None` to answer) and gives the loss and the logits by the name of the output.
    """
    import torch
    import transformers

    from keras_bert.checkpoint.hub import find_directory

    torch.manual_seed(arguments.seed)
    make = _one_head(task, kind) if isinstance(kind, str) else kind
    model, run = make(find_directory(arguments.model))
    from keras_bert.tasks.base.fitting import task_batches

    batches, steps = task_batches(task, data, arguments.batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.rate, weight_decay=0.01)
    total = steps * arguments.epochs
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(0.1 * total), total)

    def tensors(inputs):
        return {theirs: torch.from_numpy(inputs[ours].numpy()).long() for ours, theirs in _INPUTS.items()}

    seconds = []
    for epoch in range(arguments.epochs):
        model.train()
        start = time.perf_counter()
        for inputs, labels, weights in batches(arguments.seed, epoch, 1):
            counted = weights if isinstance(weights, Mapping) else dict.fromkeys(labels, weights)
            targets = {name: _uncounted_out(labels[name].numpy(), counted[name].numpy()) for name in labels}
            loss, _ = run(tensors(inputs), {name: torch.from_numpy(part).long() for name, part in targets.items()})
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        seconds.append(time.perf_counter() - start)
    model.eval()

    def forward(inputs):
        with torch.no_grad():
            _, logits = run(tensors(inputs), None)
        return {name: _Array(values.numpy()) for name, values in logits.items()}

    task.forward = lambda _: forward  # decoded and measured by the same code
    return seconds


def _one_head(task, name):
    """transformers' own class with one head, as `train_torch` takes it."""
    import transformers

    (output,) = task.losses()

    def make(directory):
        model = getattr(transformers, name).from_pretrained(directory, num_labels=len(task.labels))

        def run(inputs, labels):
            given = {} if labels is None else {"labels": labels[output]}
            answer = model(**inputs, **given)
            return answer.loss, {output: answer.logits}

        return model, run

    return make


def _uncounted_out(labels, weights):
    """Labels that count, `_IGNORED` for the others; a weight may be for all labels of a row."""
    weights = weights.reshape(weights.shape + (1,) * (labels.ndim - weights.ndim))
    return np.where(weights > 0, labels, _IGNORED)


class _Array:
    """An array that answers `numpy()`, as a tensor does."""

    def __init__(self, values):
        self._values = values

    def numpy(self):
        return self._values


# === Comparing ===


def make_parser(description: str, contenders: Mapping[str, Callable], **defaults) -> argparse.ArgumentParser:
    """The arguments that all scripts have; `defaults` are those of `epochs`, `batch`, `rate`, `length`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--contenders", nargs="+", choices=contenders, default=list(contenders))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--examples", type=int, help="train on the first so many")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--length", type=int)
    parser.add_argument("--part", help="what to call this run in the results file, beside others")
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)  # of one process
    add_output(parser, Path(sys.argv[0]).stem)
    parser.set_defaults(**defaults)
    return parser


def compare(
    parser: argparse.ArgumentParser,
    contenders: Mapping[str, Callable],
    *,
    scores: Mapping[str, str],
    part: Callable[[argparse.Namespace], str | None] = lambda arguments: None,
) -> None:
    """Run every contender with every seed, print a line for each, and write all to the results file.

    Args:
        parser: From `make_parser`, with whatever the script adds.
        contenders: A function for each name.
        scores: The columns of the table: what to call each of the scores that a contender gives, in percent.
        part: What to call the run in the results file, unless `--part` says.
    """
    arguments = parser.parse_args()
    if arguments.seed is not None:
        print(json.dumps(contenders[arguments.contenders[0]](arguments)))
        return
    columns = ["contender", "seed", *scores.values(), "examples/s, last pass", "first pass, s"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    speeds = ("examples/s", "first pass, s")
    rows = {name: {column: [] for column in (*scores.values(), *speeds)} for name in arguments.contenders}
    for seed in arguments.seeds:
        for name in arguments.contenders:
            command = [sys.executable, sys.argv[0], *sys.argv[1:], "--contenders", name, "--seed", str(seed)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            count, seconds, found = json.loads(done.stdout.splitlines()[-1])
            for key, column in scores.items():
                rows[name][column].append(100 * found[key])
            for column, value in zip(speeds, (count / seconds[-1], seconds[0]), strict=True):
                rows[name][column].append(value)
            percents = [f"{100 * found[key]:.2f}" for key in scores]
            cells = [name, str(seed), *percents, f"{count / seconds[-1]:.1f}", f"{seconds[0]:.0f}"]
            print(f"| {' | '.join(cells)} |", flush=True)
    keys = ("examples", "epochs", "batch", "rate", "length")
    write_run(
        arguments.output,
        [{"contender": SHOWN.get(name, name), **row} for name, row in rows.items()],
        packages=("tensorflow", "keras", "torch", "transformers"),
        part=arguments.part or part(arguments),
        seeds=arguments.seeds,
        contenders=[SHOWN.get(name, name) for name in rows],
        settings={"model": Path(arguments.model).name}
        | {key: value for key in keys if (value := getattr(arguments, key)) is not None},
    )
