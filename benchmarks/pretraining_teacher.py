"""What a small encoder gains from a teacher on raw text: SST-2 with 2,000 examples, beside random weights.

    python benchmarks/pretraining_teacher.py --data DIR --run run/

About 25 minutes of one core for the teacher and the student, and 10 for the fine-tuning. `DIR` holds `enwiki.txt.gz`,
`enwiki_heldout.txt.gz` and `glue/SST-2/`. Killed and started again with the same `--run`, it goes on where it was;
processor times are added up. Weights and learning rate of the fine-tuning are chosen on training data that was held
out; the dev set is asked once for each repetition. Prints a row for each start and writes all repetitions to
`benchmarks/results/pretraining_teacher.json`.
"""

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import keras_bert
from keras_bert.checkpoint import load_tokenizer
from keras_bert.pretraining.teacher.hidden_states import TeacherOutputs

RESULTS = Path(__file__).parent / "results" / "pretraining_teacher.json"
PACKAGES = ("tensorflow", "keras", "numpy", "safetensors")


class Times:
    """Processor seconds by name, kept in a file, so that those of a killed run are not lost at its end."""

    def __init__(self, path):
        self.path = path
        self.seconds = json.loads(path.read_text()) if path.exists() else {}

    def add(self, name, seconds):
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.path.write_text(json.dumps(self.seconds))


def count_teacher(times):
    """Add the processor time of every call of the teacher."""
    call = TeacherOutputs.__call__

    def timed(self, rows):
        began = time.process_time()
        try:
            return call(self, rows)
        finally:
            times.add("teacher", time.process_time() - began)

    TeacherOutputs.__call__ = timed


def distill(arguments, tokenizer, config):
    """The student's model directory, and what it cost."""
    run = arguments.run
    settings = {"sequence_length": arguments.sequence_length, "pairs": "single", "workers": 1, "progress": False}
    for name, file in (("examples", "enwiki.txt.gz"), ("validation", "enwiki_heldout.txt.gz")):
        keras_bert.write_examples(arguments.data / file, run / name, tokenizer, **settings)
    plan = keras_bert.PretrainingPlan(
        steps=arguments.steps,
        batch_size=arguments.batch_size,
        learning_rate=arguments.learning_rate,
        warmup=0.05,
        dropout=0.0,
        save_every=500,
        validation_steps=20,
    )
    teacher = keras_bert.Teacher(
        model=arguments.teacher,
        passes=arguments.passes,
        relations=arguments.relations,
        token_table=arguments.token_table,
    )
    times = Times(run / "processor_seconds.json")
    count_teacher(times)
    before, asked = time.process_time(), times.seconds.get("teacher", 0.0)
    options = {"teacher": teacher, "validation": run / "validation", "verbose": 2}
    history = keras_bert.pretrain(run / "examples", run / "student", config, tokenizer, plan, **options)
    asked = times.seconds.get("teacher", 0.0) - asked
    times.add("student", time.process_time() - before - asked)
    cache = json.loads((run / "student" / "plan.json").read_text())
    return {
        "plan": cache["plan"],
        "rows_of_the_teacher": cache["teacher"]["rows_kept"],
        "processor_seconds": times.seconds,
        "history": {name: [round(value, 5) for value in values] for name, values in history.items()},
    }


def sst2(directory, arguments, rate, seed):
    """Accuracy on held-out training data, which chose the weights, and on the dev set."""
    train, dev = (keras_bert.read_glue("SST-2", arguments.data / "glue", split) for split in ("train", "dev"))
    order = np.random.default_rng(0).permutation(len(train))
    few = [train[int(index)] for index in order[: arguments.examples]]
    held_out = [train[int(index)] for index in order[arguments.examples : arguments.examples + 1000]]
    options = {"labels": ["0", "1"], "sequence_length": 128}
    classifier = keras_bert.TextClassifier.from_pretrained(directory, **options)
    recipe = dataclasses.replace(
        keras_bert.RECIPES["standard"], learning_rate=rate, epochs=6, patience=None, seeds=(seed,)
    )
    report = classifier.fit(few, validation_data=held_out, recipe=recipe, verbose=0)
    measured = classifier.evaluate(dev, verbose=0)
    keras.backend.clear_session()
    return {
        "rate": rate,
        "seed": seed,
        "held_out": round(float(report.runs[0].score), 4),
        "dev": round(float(measured["accuracy"]), 4),
    }


def best(repetitions):
    """The repetitions of the rate that does best on held-out training data."""
    rates = {row["rate"] for row in repetitions}
    rate = max(rates, key=lambda rate: np.mean([row["held_out"] for row in repetitions if row["rate"] == rate]))
    return rate, [row["dev"] for row in repetitions if row["rate"] == rate]


def provenance():
    """What a reader needs to repeat the numbers."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "commit": commit,
        "command": "python " + " ".join(sys.argv),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {len(os.sched_getaffinity(0))} used",
        "versions": {"python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True, help="where the run is kept")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--teacher", default="all-MiniLM-L6-v2")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--relations", type=float, default=0.0)
    parser.add_argument("--token-table", default="outputs")
    parser.add_argument("--sequence-length", type=int, default=64)
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--rates", type=float, nargs="+", default=[5e-4, 1e-3])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    arguments.run.mkdir(parents=True, exist_ok=True)

    tokenizer = load_tokenizer(arguments.teacher)
    config = keras_bert.BertConfig.preset("tiny", vocabulary_size=tokenizer.vocabulary_size, pooling="mean")
    results = {**provenance(), "distillation": distill(arguments, tokenizer, config), "sst2": {}}
    fresh = arguments.run / "random"
    keras_bert.save_pretrained(keras_bert.bert_encoder(config, seed=0), fresh, tokenizer=tokenizer)
    for name, directory in (("distilled", arguments.run / "student" / "model"), ("random", fresh)):
        rows = results["sst2"][name] = []
        for rate in arguments.rates:
            for seed in arguments.seeds:
                rows.append(sst2(directory, arguments, rate, seed))
                print(name, rows[-1], flush=True)
                arguments.output.parent.mkdir(parents=True, exist_ok=True)
                arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    for name, rows in results["sst2"].items():
        rate, scores = best(rows)
        listed = ", ".join(f"{score:.1%}" for score in scores)
        print(f"SST-2, {arguments.examples:,} examples, {name:<10} {np.mean(scores):.1%} at {rate:.0e}  ({listed})")


if __name__ == "__main__":
    main()
