"""What pretraining is worth: several starts, fine-tuned on one suite of tasks.

    python benchmarks/pretraining_gain.py --data DIR --start mlm=run/model --start distilled=taught/model
    python benchmarks/pretraining_gain.py --data DIR --language zh --start distilled=taught-zh/model

DIR holds `glue/`, `glue_subsets/`, `wnut17/` and `snips/`; for Chinese `thucnews_small/`, `ner_zh_resume/` and
`csl_summ/`. A start is a model directory or a name. `random`, fresh weights with the sizes and the vocabulary of the
first start, is measured too; `--start teacher=all-MiniLM-L6-v2` adds the ceiling, for which `--factors 1` and one seed
are enough:

    python benchmarks/pretraining_gain.py --data DIR --size small --start distilled=small-en \
        --start teacher=all-MiniLM-L6-v2 --without-random --factors 1 --seeds 0

Each start has the learning rate that suits it: of three around the default of its width, the one that does best on
training data that was held out (the first seed). The held-out data also chooses the epoch. The last score, on data that
no choice has seen, is taken once for each seed. Classifiers read the mean of the tokens, whatever the
start. Every fit is written to the results file when it ends, and a fit that is there is not repeated, so a stopped run
goes on.
"""

import argparse
import dataclasses
import json
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from page_tables import pretraining_gain
from record import provenance

import keras_bert
from keras_bert.checkpoint import load_tokenizer
from keras_bert.checkpoint.hub import find_directory
from keras_bert.checkpoint.loading import open_checkpoint
from keras_bert.finetuning.recipes import rate_for_width

RESULTS = Path(__file__).parent / "results" / "pretraining_gain.json"


@dataclasses.dataclass(frozen=True)
class Suited:
    """A task of the suite."""

    name: str
    language: str
    read: object  # DIR → train, test
    task: object  # rows → class and its arguments
    metric: object  # report → number
    examples: int | None
    epochs: int
    frozen: bool = False


def glue(name, test="dev"):
    return lambda data: tuple(keras_bert.read_glue(name, data / "glue", split) for split in ("train", test))


def subset(name, text, pair):
    """The columns that the subsets of 10,000 rows have, whatever the task's own are called."""
    columns = {"text": text, "pair": pair}
    return lambda data: tuple(
        keras_bert.read_rows(data / "glue_subsets" / name / f"{split}.tsv", **columns) for split in ("train", "dev")
    )


def classes(rows):
    labels = sorted({row.label for row in rows})
    return keras_bert.TextClassifier, {"labels": labels, "sequence_length": 128, "pooling": "mean"}


def accuracy(report):
    return report.accuracy


def topics(data):
    return tuple(
        keras_bert.read_rows(data / "thucnews_small" / f"{split}.txt", text=0, label=1, header=False, format="tsv")
        for split in ("train", "test")
    )


def disciplines(data):
    return tuple(
        keras_bert.read_rows(data / "csl_summ" / f"cls_ctg_{split}.tsv", text=1, label=2, header=False)
        for split in ("train", "test")
    )


def tagged(train, test):
    return lambda data: (keras_bert.read_tagged(data / train), keras_bert.read_tagged(data / test))


def kinds(rows):
    return keras_bert.EntityTagger, {"labels": list(rows.entity_kinds), "sequence_length": 128}


def commands(data):
    return tuple(keras_bert.read_commands(data / "snips" / split) for split in ("train", "test"))


def intents(rows):
    names = {"intents": rows.intents, "slots": rows.entity_kinds}
    return keras_bert.IntentSlots, {**names, "sequence_length": 64}


SUITE = (
    Suited("SST-2", "en", glue("SST-2"), classes, accuracy, 2000, 6),
    Suited("SST-2, frozen", "en", glue("SST-2"), classes, accuracy, 2000, 10, frozen=True),
    Suited("CoLA", "en", glue("CoLA"), classes, lambda report: report.matthews, None, 5),
    Suited("MRPC", "en", glue("MRPC", test="test_labelled"), classes, accuracy, None, 5),
    Suited("QNLI", "en", subset("QNLI", "sentence1", "sentence2"), classes, accuracy, None, 3),
    Suited(
        "WNUT-17",
        "en",
        tagged("wnut17/wnut17train.conll", "wnut17/emerging.test.annotated"),
        kinds,
        lambda report: report.f1,
        None,
        8,
    ),
    Suited("SNIPS", "en", commands, intents, lambda report: report.sentence_accuracy, 2000, 8),
    Suited("THUCNews", "zh", topics, classes, accuracy, 5000, 4),
    Suited(
        "résumés",
        "zh",
        tagged("ner_zh_resume/train.char.bmes", "ner_zh_resume/test.char.bmes"),
        kinds,
        lambda report: report.f1,
        None,
        8,
    ),
    Suited("CSL topics", "zh", disciplines, classes, accuracy, None, 4),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--start", action="append", default=[], metavar="NAME=MODEL", required=True)
    parser.add_argument("--language", choices=("en", "zh"), default="en")
    parser.add_argument("--tasks", nargs="+", metavar="NAME", help="some of the suite")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--factors", type=float, nargs="+", default=[0.5, 1.0, 2.0], help="of the width's default rate")
    parser.add_argument("--size", default="tiny", help="a name for starts of one size; results of others are kept")
    parser.add_argument("--without-random", action="store_true", help="leave fresh weights out")
    parser.add_argument("--work", type=Path, default=Path("pretraining-gain"), help="where the fresh weights go")
    parser.add_argument("--output", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    starts = dict(start.split("=", 1) for start in arguments.start)
    if not arguments.without_random:
        starts = {"random": fresh_weights(next(iter(starts.values())), arguments), **starts}
    suite = [one for one in SUITE if one.language == arguments.language and one.name in (arguments.tasks or [one.name])]
    for task in suite:
        for start, model in starts.items():
            measure(task, start, model, arguments)
    print_table(read_runs(arguments.output), arguments)


def fresh_weights(model, arguments):
    """A directory with the sizes and the vocabulary of a model, and weights from a seed."""
    place = arguments.work / f"random-{arguments.size}-{arguments.language}"
    if not place.exists():
        config = open_checkpoint(find_directory(model)).settings.config
        encoder = keras_bert.bert_encoder(config, seed=0)
        keras_bert.save_pretrained(encoder, place, tokenizer=load_tokenizer(model))
    return place


def measure(task, start, model, arguments):
    """All fits of a start on a task: one for each rate, then one for each further seed at the best rate."""
    identity = {"task": task.name, "language": task.language, "start": start, "size": arguments.size}
    first = arguments.seeds[0]

    def done(**wanted):
        wanted = {**identity, **wanted}
        return [run for run in read_runs(arguments.output) if wanted.items() <= run.items()]

    for factor in arguments.factors:
        if not done(factor=factor, seed=first):
            add_run(arguments.output, {**identity, **fit(task, model, arguments, factor, first)})
    best = max(arguments.factors, key=lambda factor: done(factor=factor, seed=first)[0]["held_out"])
    for seed in arguments.seeds:
        if not done(factor=best, seed=seed):
            add_run(arguments.output, {**identity, **fit(task, model, arguments, best, seed)})


def fit(task, model, arguments, factor, seed):
    """One fit: the score on held-out training data, which chose the epoch, and on the test data."""
    train, test = task.read(arguments.data)
    order = np.random.default_rng(0).permutation(len(train))
    held_out = order[: min(1000, len(train) // 10)]
    few = order[len(held_out) :][: task.examples]
    made, options = task.task(train)
    fitted = made.from_pretrained(model, seed=seed, **options)
    rate = factor * (rate_for_width(fitted.config.hidden_dim) if not task.frozen else 3e-3)
    recipe = dataclasses.replace(
        keras_bert.RECIPES["frozen" if task.frozen else "standard"],
        learning_rate=rate,
        epochs=task.epochs,
        patience=None,
        seeds=(seed,),
    )
    began = time.process_time()
    rows = [[train[int(index)] for index in part] for part in (few, held_out)]
    report = fitted.fit(rows[0], validation_data=rows[1], recipe=recipe, verbose=0)
    seconds = time.process_time() - began
    score = task.metric(fitted.evaluate(test))
    keras.backend.clear_session()
    found = {
        "factor": factor,
        "rate": rate,
        "seed": seed,
        "held_out": round(float(report.runs[0].score), 4),
        "test": round(float(score), 4),
        "processor_seconds": round(seconds, 1),
        **provenance("tensorflow", "keras", "numpy"),
    }
    print({**{"task": task.name, "model": str(model)}, **{name: found[name] for name in list(found)[:6]}}, flush=True)
    return found


# === Records ===


def read_runs(path):
    return json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []


def add_run(path, run):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"runs": [*read_runs(path), run]}, indent=1, ensure_ascii=False) + "\n", "utf-8")


def print_table(runs, arguments):
    runs = [run for run in runs if run["size"] == arguments.size and run["language"] == arguments.language]
    for table in pretraining_gain(runs):
        print(f"\n{table.markdown()}")


if __name__ == "__main__":
    main()
