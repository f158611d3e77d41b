"""MiniLM on GLUE: what fine-tuning reaches, with each task's own metric on its dev set.

    python benchmarks/glue_results.py full --data DIR --tasks SST-2 --epochs 2 --learning-rate 5e-5   # 30 minutes
    python benchmarks/glue_results.py full --data DIR --tasks SST-2 --epochs 2 --runs 3 --state state/  # 90
    python benchmarks/glue_results.py full --data DIR --tasks MRPC STS-B CoLA RTE --epochs 5 --learning-rate 5e-5
    python benchmarks/glue_results.py few --data DIR --tasks SST-2 MRPC RTE                            # about 2 hours

`full` trains on a whole training set; the best measurement on the dev set counts, as is usual for GLUE; with `--runs`
the weights of several runs are averaged, and with `--state` a killed benchmark goes on where it was. `few` takes
1,000 examples and five seeds, and compares `standard` and `few_sample`, run by run and, as `few_sample` gives them, the
mean of three runs' weights: of seeds 0, 1, 2, then 1, 2, 3 and so on around. The last weights count, nothing is chosen
on the dev set, and every run is printed. Such means share runs; with `--seeds` 0 to 14 and `--stride 3` they share
none. DIR holds `glue/`. With `--save` the models of `full` are kept: `teacher_to_student.py` takes them, and those
with `--pooling cls`, which other runtimes have too, `inference.py`.
"""

import argparse
import json
import os
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from record import add_output, write_run

import keras_bert
from keras_bert.data.glue import glue_metrics, glue_task, read_glue
from keras_bert.finetuning.weight_averaging import RunWeights, average_runs
from keras_bert.model.config import POOLINGS

MODEL, LENGTH = "all-MiniLM-L6-v2", 128
AVERAGED = len(keras_bert.RECIPES["few_sample"].seeds)


def new_classifier(task, arguments, seed=0):
    kind = {"kind": "regression"} if task.kind == "regression" else {"labels": task.labels}
    options = {"sequence_length": LENGTH, "pooling": arguments.pooling, "seed": seed}
    return keras_bert.TextClassifier.from_pretrained(arguments.model, **kind, **options)


def measure(task, classifier, dev):
    """The task's own metrics on its dev set."""
    answers = classifier.predict(dev.inputs)
    if task.kind != "regression":
        answers = [answer[0].name for answer in answers]
    return glue_metrics(task, answers, dev.labels)


def full(arguments, write):
    for name in arguments.tasks:
        task = glue_task(name)
        train, dev = (read_glue(task, arguments.data / "glue", split) for split in ("train", "dev"))
        classifier = new_classifier(task, arguments, arguments.seeds[0])
        start = time.perf_counter()
        report = classifier.fit(
            train,
            validation_data=dev,
            epochs=arguments.epochs,
            learning_rate=arguments.learning_rate,
            seeds=tuple(arguments.seeds[: arguments.runs]),
            average=arguments.runs > 1,
            directory=None if arguments.state is None else arguments.state / task.name,
            evaluations=arguments.evaluations,
            patience=None,  # measured several times an epoch, two without a gain say nothing
            metric={"CoLA": "matthews"}.get(task.name),
            verbose=arguments.verbose,
        )
        seconds = time.perf_counter() - start
        numbers = {metric: round(value, 4) for metric, value in measure(task, classifier, dev).items()}
        steps = sum(run.steps for run in report.runs)
        speed = len(train) * steps / (-(-len(train) // report.recipe.batch_size)) / seconds
        write(
            {
                "task": task.name,
                "examples": len(train),
                **numbers,
                "runs": {run.seed: round(run.score, 4) for run in report.runs},
                "averaged": report.averaged,
                "seconds": round(seconds),
                "per_second": round(speed, 1),
            }
        )
        if arguments.save is not None:
            classifier.save(arguments.save / task.name)
        keras.backend.clear_session()


def few(arguments, write):
    for name in arguments.tasks:
        task = glue_task(name)
        train, dev = (read_glue(task, arguments.data / "glue", split) for split in ("train", "dev"))
        chosen = np.random.default_rng(0).permutation(len(train))[: arguments.examples]
        rows = [train[int(index)] for index in chosen]
        for recipe in arguments.recipes:
            plan = replace(keras_bert.RECIPES[recipe], restarts=0, learning_rate=arguments.learning_rate)
            if arguments.steps and plan.steps:
                plan = replace(plan, steps=arguments.steps)
            runs = []
            for seed in arguments.seeds:
                start = time.perf_counter()
                classifier = new_classifier(task, arguments)
                classifier.fit(rows, recipe=replace(plan, seeds=(seed,), average=False), verbose=0)
                score = main_score(task, classifier, dev)
                runs.append(RunWeights.of(classifier.model, seed, score))
                seconds = round(time.perf_counter() - start)
                write({"task": task.name, "recipe": recipe, "seed": seed, "score": score, "seconds": seconds})
            write({"task": task.name, "recipe": recipe, "of": "runs", **spread([run.score for run in runs])})
            scores = []
            for first in range(0, len(runs), arguments.stride):
                company = [runs[(first + place) % len(runs)] for place in range(AVERAGED)]
                average_runs(classifier.model, company, None)
                scores.append(main_score(task, classifier, dev))
            of = f"means of {AVERAGED} runs"
            write({"task": task.name, "recipe": recipe, "of": of, "scores": scores, **spread(scores)})
            keras.backend.clear_session()


def rows_of_full(lines):
    """A row for each task and metric; the scores of the runs on the way stand with the first metric."""
    told, rows = ("task", "examples", "runs", "averaged", "seconds", "per_second"), []
    for line in lines:
        runs = {"runs, %": [100 * score for score in line["runs"].values()], "examples/s": line["per_second"]}
        for metric in (name for name in line if name not in told):
            rows.append({"task": line["task"], "metric": metric, "dev": 100 * line[metric], **runs})
            runs = {}
    return rows


def rows_of_few(lines):
    """A row for each task, for single runs and for means of runs, with a column for each recipe."""
    rows = {}
    for line in lines:
        if "seed" in line:
            kind, scores = "a run", [line["score"]]
        elif "scores" in line:
            kind, scores = f"means of {AVERAGED}", line["scores"]
        else:
            continue
        row = rows.setdefault((line["task"], kind), {"task": line["task"], "weights": kind})
        row.setdefault(f"{line['recipe']}, %", []).extend(100 * score for score in scores)
    return list(rows.values())


def main_score(task, classifier, dev):
    """The first of the task's own metrics."""
    return round(float(next(iter(measure(task, classifier, dev).values()))), 4)


def spread(scores):
    return {"mean": round(float(np.mean(scores)), 4), "std": round(float(np.std(scores)), 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("full", "few"))
    parser.add_argument("--data", type=Path, required=True, help="holds glue/")
    parser.add_argument("--tasks", nargs="+", default=["SST-2"])
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--pooling", choices=POOLINGS, help="default: what suits the model, the mean for MiniLM")
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--learning-rate", type=float, help="default: by the model's width, 8e-5 for MiniLM")
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--steps", type=int, help="with few: the budget of few_sample (default: the recipe's)")
    parser.add_argument(
        "--evaluations", type=int, help="with full: how often the dev set is measured (default: epochs)"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--recipes", nargs="+", choices=keras_bert.RECIPES, default=["standard", "few_sample"])
    parser.add_argument("--stride", type=int, default=1, help="with few: from one mean's first run to the next one's")
    parser.add_argument("--runs", type=int, default=1, help="with full: average so many runs, by the first seeds")
    parser.add_argument("--state", type=Path, help="with full: where unfinished runs are kept")
    parser.add_argument("--part", help="what to call this run in the results file (default: its tasks, or few)")
    add_output(parser, "glue_results")
    parser.add_argument("--save", type=Path, help="with full: a directory for the fine-tuned models")
    parser.add_argument("--verbose", type=int, default=2)
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()

    lines = []

    def write(row):
        lines.append(row)
        print(json.dumps(row), flush=True)

    (full if arguments.what == "full" else few)(arguments, write)
    is_full = arguments.what == "full"
    write_run(
        arguments.output,
        rows_of_full(lines) if is_full else rows_of_few(lines),
        packages=("tensorflow", "keras"),
        part=arguments.part or (", ".join(arguments.tasks) if is_full else "few"),
        seeds=arguments.seeds[: arguments.runs] if is_full else arguments.seeds,
        settings={"epochs": arguments.epochs} if is_full else {"examples": arguments.examples},
    )


if __name__ == "__main__":
    main()
