"""Everything in one script: weights → fine-tune → distill, quantize → SavedModel, TFLite, report → an answer.

    make demo                                              # about two minutes on 2 cores, after the installation
    python examples/assistant_demo.py --text "wake me at seven"

Fine-tunes MiniLM (6 layers, 23 million parameters) on the bundled commands to a phone assistant, lets `export.deploy`
look for the smallest file that keeps its accuracy (the model as it is in float32, int8 and int4, and a student that it
teaches in int8 and int4: tiny-en, the small model that comes with this library), and writes it to demo_output/ with a
SavedModel and report.html. All are measured on the validation set, the fine-tuned model and the chosen file on the
held-out test set, too; then it answers sentences through the TFLite file alone. At the end it prints the table of
README.md and answers like

    » it's way too dark in the kitchen
      control_device (87%), then get_weather (4%); 1.8 ms
"""

import argparse
import logging
import sys
import time
from pathlib import Path

import keras_bert

keras_bert.quiet_tensorflow()

import numpy as np

import export
from keras_bert.data import intents

LENGTH = 28  # tokens; the longest command of the data set has 26
SENTENCES = (
    "could you get me up at quarter to six on Monday",
    "it's way too dark in the kitchen",
    "will I need an umbrella in Malmö this weekend?",
)


def texts_and_intents(split, smoke):
    commands = keras_bert.load_assistant(split)
    commands = commands[:32] if smoke else commands
    return [command.text for command in commands], [command.intent for command in commands]


def candidates(smoke, seed):
    """The model as it is, and tiny-en with what it teaches."""
    training = keras_bert.Recipe(
        name="student", learning_rate=5e-4, epochs=1 if smoke else 6, evaluations=1, patience=None, seeds=(seed,)
    )
    # With copies of each command in other words, which the teacher labels.
    copies = 0 if smoke else 8
    tiny = export.ModelPlan(name="tiny-en", stage="distill", encoder="tiny-en", copies=copies, training=training)
    return [
        *(export.Candidate(recipe=recipe) for recipe in ("float32", "dynamic_int8", "all_int4")),
        *(export.Candidate(model=tiny, recipe=recipe) for recipe in ("dynamic_int8", "all_int4")),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", action="append", help="a sentence to answer (may be given several times)")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a directory or name with pretrained weights")
    parser.add_argument("--output", type=Path, default=Path("demo_output"), help="where the exported files go")
    parser.add_argument("--budget", type=float, default=0.03, help="how much accuracy may be lost")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--smoke", action="store_true", help="a few steps on a part of the data, to see that it runs")
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    logging.getLogger("tensorflow").setLevel("ERROR")  # every model is traced anew, which is meant
    start = time.perf_counter()

    print(f"1. Loading {arguments.model} …")
    classifier = keras_bert.TextClassifier.from_pretrained(arguments.model, labels=intents(), sequence_length=LENGTH)
    print(f"   {classifier.model.count_params() / 1e6:.1f} million parameters, {len(classifier.labels)} intents")

    print("2. Fine-tuning on the bundled assistant commands …")
    train, validation, test = (texts_and_intents(split, arguments.smoke) for split in ("train", "validation", "test"))
    report = classifier.fit(
        *train,
        validation_data=validation,
        batch_size=16,
        epochs=1 if arguments.smoke else arguments.epochs,
        patience=None,
        seeds=(arguments.seed,),
        verbose=1 if sys.stdout.isatty() else 2,
    )
    print(f"   validation accuracy {report.best.score:.1%}, {report.best.seconds:.0f} seconds")

    print(f"3. Looking for the smallest file within {100 * arguments.budget:g} points …")
    found = export.deploy(
        classifier,
        arguments.output,
        train,
        validation,
        1.0 - 1e-9 if arguments.smoke else arguments.budget,
        candidates=candidates(arguments.smoke, arguments.seed),
        seed=arguments.seed,
    )
    print_stages(found, classifier, test)
    print(f"   {found.directory}/report.html shows how it was chosen; {time.perf_counter() - start:.0f} seconds so far")

    print("4. Answering through the TFLite file …")
    classify = export.load(arguments.output)
    for text in arguments.text or SENTENCES:
        answer(classify, text)
    while sys.stdin.isatty() and not arguments.text:
        text = input("Type a command (Enter alone ends): ").strip()
        if not text:
            break
        answer(classify, text)


def print_stages(found, classifier, test):
    """Every stage on the validation data, and the first and the last on the test set, which nothing was chosen by."""
    print(f"   {'':<42}{'accuracy':>10}{'size':>10}{'a command':>12}")
    for trial in found.trials:
        mark = "*" if trial.key == found.chosen.key else " "
        if trial.is_measured:
            numbers = f"{trial.score:>10.1%}{trial.num_bytes / 1e6:>7.1f} MB{trial.milliseconds:>9.2f} ms"
            print(f"   {mark} {trial.name:<40}{numbers}")
        else:
            print(f"   {mark} {trial.name:<40} {trial.status}: {trial.note}")
    texts, labels = test
    classify = export.load(found.directory)
    before = np.mean([row[0].name == label for row, label in zip(classifier.predict(texts), labels, strict=True)])
    after = np.mean([classify(text)[0].name == label for text, label in zip(texts, labels, strict=True)])
    print(f"   on the held-out test set: the fine-tuned model {before:.1%}, model.tflite {after:.1%}")


def answer(classify, text):
    start = time.perf_counter()
    best, second, *_ = classify(text)
    milliseconds = (time.perf_counter() - start) * 1e3
    print(f"   » {text}\n     {best}, then {second}; {milliseconds:.1f} ms")


if __name__ == "__main__":
    main()
