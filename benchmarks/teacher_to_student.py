"""SST-2: a MiniLM teacher against a student of a few megabytes, files against files.

    python benchmarks/glue_results.py full --data DIR --tasks SST-2 --learning-rate 1e-4 --pooling cls --save sst2/
    python benchmarks/teacher_to_student.py --data DIR --teacher sst2/SST-2 --work DIR      # 2½ hours on one core
    python benchmarks/teacher_to_student.py --data DIR --teacher sst2/SST-2 --work DIR --without-teacher  # + 20 minutes

The teacher is the task that the first command saves, as a float32 TFLite file of any length;
the student has a trimmed vocabulary and four of the teacher's blocks, with a third of their heads and of their
neurons (or, with `--student narrow`, three fresh blocks of half the width). It learns in stages: the teacher's
hidden states on the training phrases and some mixed sentences, its logits on all of them, and its logits once more
after the neurons and tokens that it needs least have gone. SST-2's training texts are phrases of some 9 words, its dev
texts sentences of 19, so sentences are mixed from the training set: a phrase inside of a sentence gives way to another
of about its length, or two phrases are joined; the teacher says what they mean. DIR of `--data` holds `glue/`. Files
are measured on the dev set through LiteRT: accuracy, size, and the time of every dev text with its own length, batch 1,
one thread, all files in turn in one process without TensorFlow.

Everything that is finished stays in `--work`: killed and started again, it goes on. `--without-teacher` also trains a
student of the same sizes on the labels alone, made of the pretrained model instead of the fine-tuned one.
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from mixed_sentences import mix_sentences
from record import add_output, write_run

import export
import keras_bert
from export.compression.heads import remove_heads, remove_neurons
from export.compression.students import pick_layers, take_layers
from export.distillation.losses import Hidden, Logits
from export.verification.stream_latency import time_stream
from keras_bert.data.glue import read_glue
from keras_bert.data.inputs import as_rows
from keras_bert.tasks.base.saved_tasks import load_task

BARS = {"smaller": 25.0, "faster": 12.0, "accuracy": 0.975}
FILES = (("teacher", "float32"), ("teacher", "dynamic_int8"), ("student", "dynamic_int8"), ("student", "all_int4"))


# === The student ===


def train_student(arguments, teacher, train, dev):
    """The student; from the disk where it was trained before."""
    place = arguments.work / "student"
    if (place / "config.json").is_file():
        return load_task(place)
    texts = train.texts
    mixed = mix_sentences(texts, arguments.sentences, arguments.seed)
    print(f"{len(texts):,} training texts, {len(mixed):,} mixed sentences, e.g.", *mixed[:3], sep="\n  ", flush=True)
    student = new_student(arguments, teacher, train)
    if arguments.student == "narrow":
        pairs = None
    else:  # the middle and the last block learn what the teacher's blocks that they were made from give
        picked = pick_layers(teacher.config.num_layers, arguments.blocks).blocks
        pairs = [(block, picked[block - 1] + 1) for block in sorted({(arguments.blocks + 1) // 2, arguments.blocks})]
    some = texts + mixed[: arguments.hidden_sentences]
    losses = [Hidden(pairs), Logits()]
    distill_stage(arguments, teacher, student, dev, "states", some, losses, rate=1.0, epochs=arguments.hidden_epochs)
    everything = texts + mixed
    distill_stage(arguments, teacher, student, dev, "logits", everything, [Logits()], rate=0.5, epochs=arguments.epochs)
    student.save(place)
    return student


def distill_stage(arguments, teacher, student, dev, name, texts, losses, *, rate, epochs):
    """Train the student on the teacher's answers to these texts; `rate` is a share of the learning rate."""
    if not epochs:
        return
    start = time.perf_counter()
    report = export.distill(
        teacher,
        student,
        as_rows(texts, [teacher.labels[place % 2] for place in range(len(texts))]),  # labels that count nothing
        losses=losses,
        label_weight=0.0,
        validation_data=dev,
        recipe=recipe(arguments, rate * arguments.learning_rate, epochs),
        cache=arguments.work / "teacher",
        directory=arguments.work / f"state-{name}",
        verbose=2,
    )
    print(f"{name}: {report.best.score:.4f}, {time.perf_counter() - start:.0f} s", flush=True)


def shrink_student(arguments, teacher, student, train, dev):
    """The trained student without the neurons that matter least to it and without rare tokens, trained once more.

    By now the student's own neurons say which of them matter; cut to the same size at first, it learns less.
    """
    place = arguments.work / "smaller"
    if (place / "config.json").is_file():
        return load_task(place)
    smaller, report = export.trim_vocabulary(student, train.texts, min_count=arguments.last_min_count)
    print(report)
    smaller, report = remove_neurons(smaller, train, keep=arguments.last_neurons, verbose=False)
    print(report)
    texts = train.texts + mix_sentences(train.texts, arguments.sentences, arguments.seed)
    aims = {"rate": 0.5, "epochs": arguments.last_epochs}
    distill_stage(arguments, teacher, smaller, dev, "smaller", texts, [Logits()], **aims)
    smaller.save(place)
    return smaller


def train_alone(arguments, teacher, train, dev):
    """A student of the same sizes, on the labels alone.

    Made of the pretrained model in the same way: the fine-tuned one's weights would be a teacher, too. To say which
    heads and neurons matter, it needs a head that has learned something; its own blocks stay as they were meanwhile.
    Here all neurons go before training.
    """
    place = arguments.work / "alone"
    if (place / "config.json").is_file():
        return load_task(place)
    options = {"labels": teacher.labels, "sequence_length": teacher.sequence_length, "pooling": teacher.config.pooling}
    pretrained = keras_bert.TextClassifier.from_pretrained(arguments.model, seed=arguments.seed, **options)
    pretrained.fit(first(train, 20_000), recipe="frozen", epochs=1, seeds=(arguments.seed,), verbose=2)
    if arguments.last_epochs and arguments.student == "pruned":
        sizes = argparse.Namespace(**{**vars(arguments), "neurons": arguments.last_neurons})
        student = new_student(sizes, pretrained, train)
        student, _ = export.trim_vocabulary(student, train.texts, min_count=arguments.last_min_count)
    else:
        student = new_student(arguments, pretrained, train)
    plan = recipe(arguments, arguments.learning_rate / 2, arguments.label_epochs, dropout=None)
    report = student.fit(train, validation_data=dev, recipe=plan, directory=arguments.work / "state-alone", verbose=2)
    print(f"without a teacher: {report.best.score:.4f}", flush=True)
    student.save(place)
    return student


def first(rows, count):
    """So many of the rows."""
    return type(rows)(rows.examples[:count], rows.report)


def new_student(arguments, teacher, train):
    """A student with the words of the training texts: the teacher's blocks cut down, or narrow ones that are fresh."""
    trimmed, report = export.trim_vocabulary(teacher, train.texts)
    print(report)
    if arguments.student == "narrow":
        sizes = {"num_layers": 3, "hidden_dim": 192, "intermediate_dim": 384, "num_heads": 3, "embedding_dim": 192}
        return export.make_student(trimmed, seed=arguments.seed, **sizes)
    layers = trimmed.config.num_layers
    smaller = take_layers(trimmed, pick_layers(layers, arguments.blocks))
    for remove, keep in ((remove_heads, arguments.heads), (remove_neurons, arguments.neurons)):
        smaller, report = remove(smaller, train, keep=keep, verbose=False)
        print(report)
    return smaller


def recipe(arguments, rate, epochs, dropout=0.0):
    return keras_bert.Recipe(
        name="teacher to student",
        learning_rate=rate,
        epochs=epochs,
        batch_size=arguments.batch,
        dropout=dropout,
        attention_dropout=dropout,
        evaluations=max(1, round(2 * epochs)),
        patience=None,
        seeds=(arguments.seed,),
    )


# === Files ===


def write_files(arguments, teacher, student, train):
    """The teacher's file first. All are for any length."""
    texts = [train.texts[index] for index in np.random.default_rng(0).permutation(len(train))[:256]]
    found = []
    for name, stored in FILES:
        path = arguments.work / f"{name}-{stored}.tflite"
        if not path.is_file():
            task, data = (teacher, None) if name == "teacher" else (student, texts)
            export.convert(task, path, recipe=stored, lengths="dynamic", calibration=data, check=False)
        found.append((f"{name} {stored}", path))
    return found


def measure(files, dev, rounds):
    """Accuracy of each file on the dev set, and the times of its texts, in turn."""
    accuracies, lengths = [], []
    for _, path in files:
        runtime = export.load(path)
        answers = runtime(dev.texts)
        accuracies.append(np.mean([row[0].name == label for row, label in zip(answers, dev.labels, strict=True)]))
        lengths.append(np.minimum(runtime.reader.prepare(dev.texts).tokenized.lengths, runtime.longest))
    times = time_stream([path for _, path in files], lengths, rounds=rounds)
    return accuracies, times


def print_table(files, accuracies, times, arguments):
    work, rows = arguments.work, []
    base = files[0][1].stat().st_size, times[0].mean, accuracies[0]
    print("\n| file | MB | smaller | ms | faster | accuracy | of the teacher's |\n|---|---|---|---|---|---|---|")
    for (name, path), accuracy, latency in zip(files, accuracies, times, strict=True):
        size = path.stat().st_size
        row = {"smaller": base[0] / size, "faster": base[1] / latency.mean, "accuracy": accuracy / base[2]}
        held = (
            ""
            if name.startswith("teacher")
            else "  "
            + ", ".join(f"{bar} {'holds' if row[bar] >= least else 'misses'} {least:g}" for bar, least in BARS.items())
        )
        print(
            f"| {name} | {size / 1e6:.2f} | {row['smaller']:.1f}× | {latency.mean:.3f} | {row['faster']:.1f}× "
            f"| {100 * accuracy:.2f} | {100 * row['accuracy']:.1f} % |{held}",
            flush=True,
        )
        numbers = {"file": name, "bytes": size, "ms": latency.mean, "accuracy_on_dev": accuracy, **row}
        rows.append({"file": name, "MB": size / 1e6, "ms": latency.mean, "accuracy, %": 100 * accuracy})
        with (work / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(
                json.dumps({name: round(v, 5) if isinstance(v, float) else v for name, v in numbers.items()}) + "\n"
            )

    sizes = {name: getattr(arguments, name) for name in ("student", "blocks", "heads", "last_neurons")}
    facts = {"seeds": [arguments.seed], "settings": sizes}
    write_run(arguments.output, rows, packages=("tensorflow", "keras", "ai-edge-litert"), **facts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds glue/")
    parser.add_argument("--teacher", type=Path, required=True, help="a task that was fine-tuned on SST-2")
    parser.add_argument("--work", type=Path, default=Path("teacher-to-student"), help="where everything is kept")
    parser.add_argument("--sentences", type=int, default=120_000, help="how many to mix")
    parser.add_argument("--hidden-sentences", type=int, default=20_000, help="of them, for the first stage")
    parser.add_argument("--hidden-epochs", type=float, default=2)
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--last-epochs", type=float, default=1.5, help="after the last cut")
    parser.add_argument("--last-neurons", type=int, default=320, help="that each block keeps at last")
    parser.add_argument("--last-min-count", type=int, default=3, help="rarer tokens go at last")
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--student", choices=("pruned", "narrow"), default="pruned")
    parser.add_argument("--blocks", type=int, default=4, help="of the pruned student")
    parser.add_argument("--heads", type=int, default=4, help="that each block keeps")
    parser.add_argument("--neurons", type=int, default=512, help="that each block keeps")
    parser.add_argument("--rounds", type=int, default=5, help="how often each dev text is timed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without-teacher", action="store_true", help="train the same student on the labels, too")
    parser.add_argument("--label-epochs", type=float, default=4, help="of that student")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="what that student is made of")
    parser.add_argument(
        "--smoke", type=int, metavar="TEXTS", help="so many training and dev texts, to see that it runs"
    )
    add_output(parser, "teacher_to_student")
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()

    teacher = load_task(arguments.teacher)
    train, dev = (read_glue("SST-2", arguments.data / "glue", split) for split in ("train", "dev"))
    if arguments.smoke:
        train, dev = (first(rows, arguments.smoke) for rows in (train, dev))
    student = train_student(arguments, teacher, train, dev)
    if arguments.last_epochs and arguments.student == "pruned":
        student = shrink_student(arguments, teacher, student, train, dev)
    files = write_files(arguments, teacher, student, train)
    print_table(files, *measure(files, dev, arguments.rounds), arguments)
    if arguments.without_teacher:
        alone = train_alone(arguments, teacher, train, dev)
        scores = [task.evaluate(dev).accuracy for task in (student, alone)]
        print(f"\nin Keras: distilled {scores[0]:.4f}, without a teacher {scores[1]:.4f}", flush=True)
        names = ("distilled", "on the labels alone")
        rows = [{"student": name, "accuracy, %": 100 * score} for name, score in zip(names, scores, strict=True)]
        facts = {"seeds": [arguments.seed], "settings": {"parameters": student.model.count_params()}}
        write_run(arguments.output, rows, packages=("tensorflow", "keras"), part="without a teacher", **facts)


if __name__ == "__main__":
    main()
