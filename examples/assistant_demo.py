"""The whole mission in one script: real weights → fine-tune → TFLite → an answer on the device's runtime.

    make demo                                              # about 2 minutes on 2 cores
    python examples/assistant_demo.py --text "wake me at seven"

Fine-tunes MiniLM (6 layers, 23 million parameters) on the bundled commands to a phone assistant, writes
demo_output/model.tflite with vocabulary and labels inside, verifies it on the held-out test set against the Keras
model, and answers sentences through the file alone. At the end it prints something like:

    Keras     float32        accuracy 74.5%   90.9 MB
    TFLite    dynamic_int8   accuracy 75.2%   23.7 MB
    » it's way too dark in the kitchen
      control_device (93%), then get_weather (3%); 4.1 ms
"""

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import export
import keras_bert
from keras_bert.datasets import intents

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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", action="append", help="a sentence to answer (may be given several times)")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a directory or name with pretrained weights")
    parser.add_argument("--output", type=Path, default=Path("demo_output"), help="where the exported files go")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--smoke", action="store_true", help="a few steps on a part of the data, to see that it runs")
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()

    print(f"1. Loading {arguments.model} …")
    classifier = keras_bert.TextClassifier.from_pretrained(arguments.model, labels=intents(), sequence_length=LENGTH)
    print(f"   {classifier.model.count_params() / 1e6:.1f} million parameters, {len(classifier.labels)} intents")

    print("2. Fine-tuning on the bundled assistant commands …")
    train, validation, test = (texts_and_intents(split, arguments.smoke) for split in ("train", "validation", "test"))
    report = classifier.fit(
        *train,
        validation_data=validation,
        learning_rate=2e-4,
        batch_size=16,
        epochs=1 if arguments.smoke else arguments.epochs,
        patience=None,
        seeds=(arguments.seed,),
        verbose=1 if sys.stdout.isatty() else 2,
    )
    print(f"   validation accuracy {report.best.score:.1%}, {report.best.seconds:.0f} seconds")

    print(f"3. Writing {arguments.output}/model.tflite, and verifying it on the held-out test set …")
    classifier.save(arguments.output / "keras")
    test = keras_bert.tasks.inputs.as_rows(*test)
    package = export.write_package(
        classifier, arguments.output, recipe="dynamic_int8", lengths=(16, LENGTH), data=test, check=not arguments.smoke
    )
    found, keras_bytes = package.report, (arguments.output / "keras/model.safetensors").stat().st_size
    print(f"   Keras     float32        accuracy {found.keras_score:.1%}   {keras_bytes / 1e6:.1f} MB")
    print(f"   TFLite    dynamic_int8   accuracy {found.file_score:.1%}   {package.artifact.num_bytes / 1e6:.1f} MB")

    print("4. Answering through the TFLite file …")
    classify = export.load(arguments.output)
    for text in arguments.text or SENTENCES:
        answer(classify, text)
    while sys.stdin.isatty() and not arguments.text:
        text = input("Type a command (Enter alone ends): ").strip()
        if not text:
            break
        answer(classify, text)


def answer(classify, text):
    start = time.perf_counter()
    best, second, *_ = classify(text)
    milliseconds = (time.perf_counter() - start) * 1e3
    print(f"   » {text}\n     {best}, then {second}; {milliseconds:.1f} ms")


if __name__ == "__main__":
    main()
