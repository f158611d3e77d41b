"""What each part of the pretraining recipe is worth: variants of one run, each on the same text for the same steps.

    python benchmarks/pretraining_ablation.py --data DIR                        # all variants of tiny, 1,000 steps each
    python benchmarks/pretraining_ablation.py --data DIR --variants recipe random --seeds 0 1 2 --steps 3500
    python benchmarks/pretraining_ablation.py --data DIR --size mini --variants recipe --steps 600

DIR holds `enwiki.txt.gz` and `enwiki_heldout.txt.gz`, prose with a blank line between documents. A vocabulary of 8,000
tokens and rows of 64 are made once and kept in `--work`. Every variant is `keras_bert.pretrain` with one thing changed;
batches of 32 rows, loss and perplexity on held-out text with 15 % masks. Each run is added to `--output` when it ends:
variant, seed, steps, seconds of the processor, the curve, the machine, versions, the commit and the command. Runs that
are there already are not repeated; one that was stopped goes on.
"""

import argparse
import dataclasses
import json
import math
import os
import time
from dataclasses import asdict
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from record import provenance

from keras_bert.model.config import BertConfig
from keras_bert.model.neighbour_heads import NeighbourHeads
from keras_bert.pretraining.corpus.writing import write_examples
from keras_bert.pretraining.plan import Phase, PretrainingPlan
from keras_bert.pretraining.records import read_history
from keras_bert.pretraining.run import pretrain, pretrain_in_phases
from keras_bert.system.allocator import keep_freed_memory
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.vocabulary import learn_vocabulary, write_vocabulary

# What differs from `PretrainingPlan`'s defaults.
VARIANTS = {
    "recipe": {},
    "random": {"initial": "random"},
    "random, beta_2 0.98": {"initial": "random", "beta_2": 0.98},
    "random, 15 % masks": {"initial": "random", "mask_rate": 0.15},
    "first block alone": {"initial": NeighbourHeads(blocks=(0,))},
    "first block alone, beta_2 0.98": {"initial": NeighbourHeads(blocks=(0,)), "beta_2": 0.98},
    "half of the heads free": {"initial": NeighbourHeads(free=0.5)},
    "share 0.5": {"initial": NeighbourHeads(share=0.5)},
    "share 0.99": {"initial": NeighbourHeads(share=0.99)},
    "15 % masks": {"mask_rate": 0.15},
    "30 % masks": {"final_mask_rate": 0.3},
    "40 to 15 % masks": {"mask_rate": 0.4},
    "beta_2 0.98": {"beta_2": 0.98},
    "half the rate": {"learning_rate": 0.5},
    "one and a half times the rate": {"learning_rate": 1.5},
    "twice the rate": {"learning_rate": 2.0},
    "warm-up 0.1": {"warmup": 0.1},
    "dropout 0.1": {"dropout": 0.1},
    "half of the blocks first": {"growth": 0.4},  # the share of the steps
}

# Several phases with the tokens of the others: length and rows of a batch, and the share of all tokens.
PHASES = {
    "rows of 32 first": [(32, 64, 0.5), (64, 32, 0.5)],
    "batches of 16 first": [(64, 16, 0.25), (64, 32, 0.75)],
}


def main():
    """Run what is asked for and not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the directory of enwiki.txt.gz")
    parser.add_argument("--work", type=Path, default=Path("pretraining-ablation"), help="vocabulary, examples, runs")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "pretraining_ablation.json")
    parser.add_argument(
        "--variants", nargs="+", choices=[*VARIANTS, *PHASES], default=[*VARIANTS, *PHASES], metavar="NAME"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--points", type=int, default=5, help="measurements of a run; they divide its steps")
    arguments = parser.parse_args()
    keep_freed_memory()
    tokenizer = prepare(arguments.data, arguments.work)
    for seed in arguments.seeds:
        for variant in arguments.variants:
            runs = read_runs(arguments.output)
            identity = {"variant": variant, "seed": seed, "size": arguments.size, "steps": arguments.steps}
            if not any(identity.items() <= run.items() for run in runs):
                run = {**identity, **train(identity, arguments, tokenizer)}
                write_runs(arguments.output, [*read_runs(arguments.output), run])
    print_table([run for run in read_runs(arguments.output) if run["size"] == arguments.size])


def prepare(data, work):
    """The tokenizer; vocabulary and examples are made where they are missing."""
    vocabulary, settings = work / "vocab.txt", {"sequence_length": 64, "progress": False, "workers": 1}
    if not vocabulary.exists():
        work.mkdir(parents=True, exist_ok=True)
        write_vocabulary(learn_vocabulary([data / "enwiki.txt.gz"], 8000, progress=False), vocabulary)
    tokenizer = BertTokenizer(vocabulary)
    write_examples([data / "enwiki.txt.gz"], work / "examples-64", tokenizer, **settings)
    write_examples([data / "enwiki.txt.gz"], work / "examples-32", tokenizer, **{**settings, "sequence_length": 32})
    write_examples([data / "enwiki_heldout.txt.gz"], work / "validation-64", tokenizer, **settings)
    return tokenizer


def train(identity, arguments, tokenizer):
    """One run, and everything worth knowing of it."""
    config = BertConfig.preset(identity["size"], vocabulary_size=tokenizer.vocabulary_size)
    name = "-".join(str(value) for value in identity.values()).replace(" ", "_").replace("%", "percent")
    where = provenance("tensorflow", "keras", "numpy")  # before the run: files may change while it goes on
    directory, began = arguments.work / "runs" / name, time.process_time()
    phases = make_phases(identity, config, arguments)
    if len(phases) > 1:
        pretrain_in_phases(phases, directory, config, tokenizer, verbose=0)
        history = read_history(directory / f"phase-{len(phases)}" / "history.jsonl")
    else:
        (phase,) = phases
        places = {"validation": phase.validation, "verbose": 0}
        pretrain(phase.examples, directory, config, tokenizer, phase.plan, **places)
        history = read_history(directory / "history.jsonl")
    losses = [math.log(value) for value in history["val_mlm_logits_perplexity"]]
    print(f"{name}: {', '.join(f'{loss:.3f}' for loss in losses)}", flush=True)
    return {
        "processor_seconds": round(time.process_time() - began, 1),
        "curve": {
            "step": history["step"],
            "validation_mlm_loss": [round(loss, 4) for loss in losses],
            "validation_nsp_accuracy": [round(value, 4) for value in history["val_nsp_logits_accuracy"]],
        },
        "plans": [asdict(phase.plan) for phase in phases],
        **where,
    }


def make_phases(identity, config, arguments):
    """The phases of a variant, one for most; rates are given as multiples of the size's own."""
    changes = dict(VARIANTS.get(identity["variant"], {}))
    plan = PretrainingPlan(
        steps=identity["steps"], save_every=identity["steps"] // arguments.points, seed=identity["seed"], strategy="one"
    ).for_config(config)
    if "learning_rate" in changes:
        changes["learning_rate"] *= plan.learning_rate
    if "growth" in changes:
        until = round(changes["growth"] * plan.steps / plan.save_every) * plan.save_every
        changes["growth"] = ((config.num_layers // 2, until),)
    parts = []
    for length, rows, share in PHASES.get(identity["variant"], [(64, plan.batch_size, 1.0)]):
        steps = round(share * plan.steps * plan.batch_size * 64 / (length * rows * arguments.points)) * arguments.points
        sizes = {"steps": steps, "save_every": steps // arguments.points, "batch_size": rows}
        part = dataclasses.replace(plan, **{**sizes, **changes})
        places = {"examples": arguments.work / f"examples-{length}", "validation": arguments.work / "validation-64"}
        parts.append(Phase(plan=part, **places))
    return parts


# === Records ===


def read_runs(path):
    return json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []


def write_runs(path, runs):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"runs": runs}, indent=1) + "\n", encoding="utf-8")


def print_table(runs):
    print("\n| variant | seed | steps | loss on held-out text | perplexity | next sentence | processor s |")
    print("|---|---|---|---|---|---|---|")
    for run in sorted(runs, key=lambda run: (run["steps"], run["curve"]["validation_mlm_loss"][-1])):
        loss, pairs = (run["curve"][name][-1] for name in ("validation_mlm_loss", "validation_nsp_accuracy"))
        numbers = f"{loss:.3f} | {math.exp(loss):.0f} | {pairs:.1%} | {run['processor_seconds']:.0f}"
        print(f"| {run['variant']} | {run['seed']} | {run['steps']:,} | {numbers} |")


if __name__ == "__main__":
    main()
