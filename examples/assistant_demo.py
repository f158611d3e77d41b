"""The whole mission in one script: real weights → fine-tune → TFLite → an answer on the device's runtime.

    make demo                                              # about 3 minutes on 2 cores
    python examples/assistant_demo.py --text "wake me at seven"

Fine-tunes MiniLM (6 layers, 23 million parameters) on the bundled commands to a phone assistant, writes
demo_output/model.tflite with its vocabulary and labels, checks it on the held-out test set against the Keras model, and
answers sentences through the file alone. At the end it prints something like:

    Keras     float32        accuracy 75.5%   90.9 MB
    TFLite    dynamic_int8   accuracy 74.8%   23.3 MB
    » it's way too dark in the kitchen
      control_device (93%), then get_weather (2%); 4.0 ms
"""

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

import export
import keras_bert
from keras_bert.datasets import intents

LENGTH = 28  # tokens; the longest command of the data set has 26
SENTENCES = (
    "could you get me up at quarter to six on Monday",
    "it's way too dark in the kitchen",
    "will I need an umbrella in Malmö this weekend?",
)


def dataset(tokenizer, utterances, *, batch_size, labels, seed=None):
    """Packed batches of `(inputs, class)`, shuffled where a seed is given."""
    texts = [utterance.text for utterance in utterances]
    classes = [labels.index(utterance.intent) for utterance in utterances]
    data = tf.data.Dataset.from_tensor_slices((texts, classes))
    if seed is not None:
        data = data.shuffle(len(texts), seed=seed)
    data = data.batch(batch_size, drop_remainder=seed is not None)
    return data.map(
        lambda text, label: (
            keras_bert.pack(tokenizer, text, sequence_length=LENGTH),
            {"class_logits": label},
        )
    ).prefetch(2)


def fine_tune(model, train, validation, epochs):
    # Half of the parameters are the token table, and a few hundred commands can teach it little.
    model.get_layer("token_embedding").trainable = False
    steps = epochs * len(train)
    schedule = keras.optimizers.schedules.PolynomialDecay(2e-4, steps, end_learning_rate=0.0)
    model.compile(
        optimizer=keras.optimizers.AdamW(schedule, weight_decay=0.01, clipnorm=1.0),
        loss={"class_logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
        metrics={"class_logits": [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]},
    )
    verbose = 1 if sys.stdout.isatty() else 2
    model.fit(train, validation_data=validation, epochs=epochs, shuffle=False, verbose=verbose)


def accuracy(answers, utterances):
    return np.mean([answer == utterance.intent for answer, utterance in zip(answers, utterances, strict=True)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", action="append", help="a sentence to answer (may be given several times)")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a directory or name with pretrained weights")
    parser.add_argument("--output", type=Path, default=Path("demo_output"), help="where the exported files go")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--smoke", action="store_true", help="a few steps on a part of the data, to see that it runs")
    arguments = parser.parse_args()
    keras.utils.set_random_seed(arguments.seed)
    keras_bert.keep_freed_memory()

    print(f"1. Loading {arguments.model} …")
    encoder, tokenizer = keras_bert.load_encoder(arguments.model)
    labels = intents()
    model = keras_bert.bert_model(None, "classification", num_classes=len(labels), encoder=encoder, seed=arguments.seed)
    print(f"   {model.count_params() / 1e6:.1f} million parameters, {len(labels)} intents")

    print("2. Fine-tuning on the bundled assistant commands …")
    splits = {split: keras_bert.load_assistant(split) for split in ("train", "validation", "test")}
    if arguments.smoke:
        splits, arguments.epochs = {name: rows[:32] for name, rows in splits.items()}, 1
    train = dataset(tokenizer, splits["train"], batch_size=16, labels=labels, seed=arguments.seed)
    validation = dataset(tokenizer, splits["validation"], batch_size=16, labels=labels)
    start = time.perf_counter()
    fine_tune(model, train, validation, arguments.epochs)
    print(f"   {time.perf_counter() - start:.0f} seconds")

    print(f"3. Writing {arguments.output}/model.tflite …")
    keras_bert.save_pretrained(model, arguments.output, tokenizer=tokenizer, labels=labels)
    artifact = export.convert(model, arguments.output / "model.tflite", recipe="dynamic_int8", lengths=(16, LENGTH))

    print("4. Checking it on the held-out test set …")
    test = dataset(tokenizer, splits["test"], batch_size=16, labels=labels)
    logits = model.predict(test, verbose=0)["class_logits"]
    classify = export.load(arguments.output)
    keras_accuracy = accuracy([labels[index] for index in logits.argmax(-1)], splits["test"])
    lite_accuracy = accuracy([classify(utterance.text)[0].name for utterance in splits["test"]], splits["test"])
    keras_bytes = (arguments.output / "model.safetensors").stat().st_size
    print(f"   Keras     float32        accuracy {keras_accuracy:.1%}   {keras_bytes / 1e6:.1f} MB")
    print(f"   TFLite    {artifact.recipe}   accuracy {lite_accuracy:.1%}   {artifact.num_bytes / 1e6:.1f} MB")

    print("5. Answering through the TFLite file …")
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
