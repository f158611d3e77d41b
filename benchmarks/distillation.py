"""What distillation costs and what it gains, on SST-2: epochs beside a teacher in the loop, accuracy beside no teacher.

    python benchmarks/distillation.py --data DIR --teacher TASK                       # both parts
    python benchmarks/distillation.py --data DIR --teacher TASK --parts speed --examples 3200
    python benchmarks/distillation.py --data DIR --teacher TASK --parts quality --examples 8000 --augment 4
    python benchmarks/distillation.py --data DIR --teacher TASK --parts quality --examples 67349 --mixed 60000

DIR holds `glue/SST-2/`, TASK a fine-tuned classifier (`keras-bert finetune`).

Speed: seconds of an epoch in which nothing is compiled any more, the same student and examples, batches of 32, XLA.
`ours` is what `export.distill` trains, the teacher's answers computed once before (that time is printed too); `in the
loop` is the same with the teacher asked in every step; `Distiller` is `keras.distillation.Distiller` on padded rows in
length buckets, which Keras would have one write. They take turns, and the best of `--rounds` epochs counts.

Quality: accuracy on the dev set of the same student, from the same weights, by the same recipe: fine-tuned on the
labels, and distilled. The distilled one can also see texts that have no labels: with `--augment N` N copies of each
text with words replaced, with `--mixed N` N sentences mixed of the texts. The one without a teacher has as many steps.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from mixed_sentences import mix_sentences
from record import add_output, write_run

import export
import keras_bert
from export.distillation.losses import Logits, Relations
from export.distillation.training import plan_distillation
from keras_bert.data.augmentation import NearestWords, augment
from keras_bert.data.glue import read_glue
from keras_bert.finetuning.layerwise_adamw import finetuning_optimizer
from keras_bert.model.weights import copy_weights
from keras_bert.tasks.base.fitting import fresh_model, task_batches
from keras_bert.training.training_model import TrainingModel

BATCH, TEMPERATURE = 32, 2.0


def read(arguments):
    train, dev = (read_glue("SST-2", arguments.data / "glue", split) for split in ("train", "dev"))
    chosen = np.random.default_rng(arguments.seed).permutation(len(train))[: arguments.examples]
    rows = [train[int(index)] for index in chosen]
    return [row.text for row in rows], [row.label for row in rows], dev


def new_student(teacher, arguments, seed=0):
    return export.make_student(teacher, seed=seed, verbose=False, **arguments.student)


# === Speed ===


class InTheLoop(TrainingModel):
    """The same training model, which asks the teacher in every step."""

    ask = None

    def train_step(self, data):
        inputs, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
        logits = tf.stop_gradient(self.ask(inputs)["class_logits"])
        return super().train_step((inputs, {**labels, "soft_class_logits": logits}, weights))


def packed_contender(teacher, student, texts, labels, kind):
    """A compiled model with a function that gives the batches of an epoch, and how many they are."""
    start = time.perf_counter()
    method, data = plan_distillation([teacher], student, texts, labels, losses=[Logits(TEMPERATURE)])
    seconds = time.perf_counter() - start
    table = data.tokenized.used_ids()
    batches, steps = task_batches(student, data, BATCH, packed=True, table=table)
    recipe = keras_bert.Recipe(batch_size=BATCH)
    model = kind.from_model(fresh_model(student, recipe, 0, table, method))
    if kind is InTheLoop:
        asked = fresh_model(teacher, recipe, 0, table)
        model.ask = lambda inputs: asked(inputs, training=False)  # in a function: its weights are not the model's
    model.compile(finetuning_optimizer(1e-4, 1000), loss=method.losses(student.training_losses()), jit_compile=True)
    return model, lambda epoch: batches(0, epoch, 1), steps, seconds


def distiller_contender(teacher, student, texts, labels):
    """Keras's own, on models with one output: of a dictionary of outputs it fails in the first step."""
    batches, steps = task_batches(student, student.prepare(texts, labels), BATCH)
    asked, taught = (plain_logits(task) for task in (teacher, student))
    # As an object: by its name, Keras 3.15 takes the divergence of logits instead of probabilities.
    loss = keras.distillation.LogitsDistillation(TEMPERATURE, loss=keras.losses.KLDivergence())
    model = keras.distillation.Distiller(asked, taught, distillation_losses=loss)
    (own,) = student.losses().values()
    model.compile(finetuning_optimizer(1e-4, 1000), loss=own, jit_compile=True)

    def single(inputs, labels, weights):
        return inputs, labels["class_logits"], weights

    return model, lambda epoch: batches(0, epoch, 1).map(single), steps


def plain_logits(task):
    model = task.build_from_config(task.config)
    copy_weights(task.model, model)
    return keras.Model(model.input, model.output["class_logits"])


def measure_speed(teacher, texts, labels, arguments):
    student = new_student(teacher, arguments)
    *ours, seconds = packed_contender(teacher, student, texts, labels, TrainingModel)
    *loop, _ = packed_contender(teacher, student, texts, labels, InTheLoop)
    contenders = {"ours": ours, "in the loop": loop, "Distiller": distiller_contender(teacher, student, texts, labels)}
    times = {name: [] for name in contenders}
    for epoch in range(arguments.rounds + 1):  # the first compiles
        for name, (model, batches, steps) in contenders.items():
            start = time.perf_counter()
            model.fit(batches(epoch), steps_per_epoch=steps, shuffle=False, verbose=0)
            times[name].append(time.perf_counter() - start)
    best = {name: min(spent[1:]) for name, spent in times.items()}
    print(f"teacher asked once: {seconds:.1f} s for {len(texts):,} texts")
    print(f"{'':<14}{'s an epoch':>12}{'ours is … faster':>20}")
    for name, spent in best.items():
        print(f"{name:<14}{spent:>12.2f}{spent / best['ours']:>19.2f}×", flush=True)
    names = {"in the loop": "the teacher in the loop", "Distiller": "keras.distillation.Distiller"}
    rows = [{"contender": names.get(name, name), "s an epoch": spent[1:]} for name, spent in times.items()]
    settings = {"examples": len(texts), "batch": BATCH, "s for the teacher's answers, once": seconds}
    write_run(arguments.output, rows, packages=("tensorflow", "keras"), part="speed", settings=settings)
    return {"teacher_once": seconds, "seconds": best}


# === Quality ===


def measure_quality(teacher, texts, labels, dev, arguments):
    options = {"learning_rate": arguments.learning_rate, "epochs": arguments.epochs, "batch_size": BATCH}
    options |= {"validation_data": dev, "verbose": arguments.verbose}
    losses, more = [Logits(TEMPERATURE)], []
    if arguments.relations:
        losses.append(Relations(heads=arguments.relations))
    if arguments.augment:
        proposer = NearestWords(teacher.model, teacher.tokenizer)
        more = augment(texts, proposer=proposer, seed=arguments.seed, per_text=arguments.augment, progress=False).texts
    if arguments.mixed:
        more = (more or texts) + mix_sentences(texts, arguments.mixed, arguments.seed)
    results = {"fine-tuned": [], "distilled": []}
    with tempfile.TemporaryDirectory() as cache:
        for seed in range(arguments.seeds):
            alone, taught = (new_student(teacher, arguments, seed) for _ in range(2))
            # Without a teacher the labels are all there is: as many steps, so that nobody has seen more batches.
            rounds = len(more) / len(texts) if more else 1
            alone.fit(texts, labels, seeds=(seed,), **{**options, "epochs": arguments.epochs * rounds})
            results["fine-tuned"].append(alone.evaluate(dev).accuracy)
            given = (more, None) if more else (texts, labels)
            weight = 0 if more else arguments.label_weight
            aims = {"losses": losses, "label_weight": weight, "cache": cache, "seeds": (seed,)}
            export.distill(teacher, taught, *given, **aims, **options)
            results["distilled"].append(taught.evaluate(dev).accuracy)
            print({name: [round(100 * value, 2) for value in values] for name, values in results.items()}, flush=True)
    accuracy = teacher.evaluate(dev).accuracy
    size = new_student(teacher, arguments).model.count_params()
    print(f"teacher {100 * accuracy:.2f} % with {teacher.model.count_params():,} parameters, student {size:,}")
    means = {name: 100 * float(np.mean(values)) for name, values in results.items()}
    for name, mean in means.items():
        print(f"{name:<14}{mean:>8.2f} %  ± {100 * np.std(results[name]):.2f} over {arguments.seeds} seeds")
    print(f"the teacher is worth {means['distilled'] - means['fine-tuned']:+.2f} points")
    names = {"fine-tuned": "fine-tuned on the labels"}
    rows = [
        {"student": names.get(name, name), "accuracy, %": [100 * v for v in found]} for name, found in results.items()
    ]
    part = "quality" if len(texts) > 60_000 else f"quality, {len(texts):,} examples"
    settings = {"augment": arguments.augment, "mixed": arguments.mixed, "epochs": arguments.epochs, "parameters": size}
    facts = {"seeds": list(range(arguments.seeds)), "settings": settings}
    write_run(arguments.output, rows, packages=("tensorflow", "keras"), part=part, **facts)
    return {"teacher": accuracy, **results}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds glue/SST-2/")
    parser.add_argument("--teacher", type=Path, required=True, help="the directory of a classifier for SST-2")
    parser.add_argument("--parts", nargs="+", choices=("speed", "quality"), default=["speed", "quality"])
    parser.add_argument("--examples", type=int, default=3200)
    parser.add_argument(
        "--student",
        type=json.loads,
        default={"num_layers": 3, "hidden_dim": 192, "num_heads": 6, "intermediate_dim": 768},
    )
    parser.add_argument("--rounds", type=int, default=3, help="of timing")
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--label-weight", type=float, default=0.5)
    parser.add_argument("--relations", type=int, default=0, help="relation heads to take too; 0 takes none")
    parser.add_argument("--augment", type=int, default=0, help="copies of each text with words replaced")
    parser.add_argument("--mixed", type=int, default=0, help="sentences mixed of the texts (mixed_sentences.py)")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="of the choice of examples")
    parser.add_argument("--verbose", type=int, default=0)
    add_output(parser, "distillation")
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    teacher = keras_bert.load_task(arguments.teacher)
    texts, labels, dev = read(arguments)
    result = {"examples": len(texts), "student": arguments.student}
    if "speed" in arguments.parts:
        result["speed"] = measure_speed(teacher, texts, labels, arguments)
    if "quality" in arguments.parts:
        result["quality"] = measure_quality(teacher, texts, labels, dev, arguments)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
