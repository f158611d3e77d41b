"""Fits every task of the compatibility corpus on a few examples, and writes what came of it as JSON.

    python tests/helpers/every_task.py OUT.json [--devices 2] [--fit classification similarity] [--ask]

Weights come from the corpus, and there is no dropout, so both backends and all sets of devices start from the same
place. `steps` are the losses that `fit` reported, `traces` how often JAX traced a training step, which is how often it
compiles one. With `--ask`, every task is also asked as it is, and has to answer as the corpus says.
"""

import argparse
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import contextlib
import json
import warnings
from pathlib import Path

import keras
import numpy as np
from compat_artifacts import as_json, ask_task, differences, read_json

import keras_bert
from keras_bert.training.training_model import TrainingModel

CORPUS = Path(__file__).parents[1] / "compat" / "0.1.0" / "tasks"
WORDS = ["a", "the", "film", "plot", "cast", "train", "was", "is", "very", "and", "in", "good", "fine", "bad", "dull"]
LABELS = ["bad", "fine", "good"]
# Dropout's choices depend on the shape of rows, which two devices share in another way than one.
FIT = {"dropout": 0.0, "attention_dropout": 0.0, "classifier_dropout": 0.0}
FIT |= {"epochs": 2, "batch_size": 4, "learning_rate": 2e-3, "evaluations": 2, "patience": None, "verbose": 0}
RANDOM = np.random.default_rng(4)


def sentence(shortest=3, longest=9):
    """A few random words."""
    return " ".join(RANDOM.choice(WORDS, RANDOM.integers(shortest, longest)))


def tagged(count, kinds):
    """Words, and tags of some of them."""
    words = [sentence().split() for _ in range(count)]
    return words, [[f"B-{kinds[len(word) % len(kinds)]}" if len(word) > 4 else "O" for word in row] for row in words]


def questions(count):
    """Questions, and answers that stand in their contexts."""
    contexts = [sentence(6, 12) for _ in range(count)]
    words = [context.split()[2] for context in contexts]
    starts = [len(" ".join([*context.split()[:2], ""])) for context in contexts]
    return [("was it", context) for context in contexts], list(zip(words, starts, strict=True))


def examples(name, task, count=14):
    """What a task of the corpus trains on; 14 examples leave a last batch that is not full."""
    texts = [sentence() for _ in range(count)]
    turn = [index % 3 for index in range(count)]
    if name.startswith("tagging"):
        return tagged(count, ["PER", "LOC"])
    if name == "intent_slots":
        words, tags = tagged(count, ["place", "person"])
        return words, list(zip(["book" if index else "ask" for index in turn], tags, strict=True))
    labels = [(task.labels or LABELS)[index % len(task.labels or LABELS)] for index in turn]
    choices = [["a film", "it was bad", "the cast"][: 2 + index % 2] for index in turn]
    entails = ["entailment" if index % 2 else "neutral" for index in turn]
    by_name = {
        "aspect": ([(text, "plot") for text in texts], labels),
        "classification_multi_label": (texts, [["cast", "plot"][:index] for index in turn]),
        "classification_regression": (texts, [float(index) for index in turn]),
        "multiple_choice": (list(zip(texts, choices, strict=True)), [index % 2 for index in turn]),
        "question_answering": questions(count),
        "relation": ([f"the <e1>film</e1> was {text} <e2>train</e2>" for text in texts], labels),
        "seq2seq": ([(text, " ".join(text.split()[:3])) for text in texts], None),
        "similarity": (list(zip(texts, texts[1:] + texts[:1], strict=True)), [float(index) for index in turn]),
        "zero_shot_entailment": ([(text, "film") for text in texts], entails),
        "zero_shot_similarity": ([(text, f"{text} good") for text in texts], None),
    }
    return by_name.get(name, (texts, [LABELS[index] for index in turn]))


class EveryLoss(keras.callbacks.Callback):
    """Notes the loss after each step: the mean of the epoch so far."""

    def __init__(self):
        super().__init__()
        self.values = []

    def on_train_batch_end(self, batch, logs=None):
        self.values.append(float(logs["loss"]))


@contextlib.contextmanager
def counted_traces():
    """Count how often a training step is traced."""
    traces, step = [], TrainingModel.train_step

    def counted(self, *arguments):
        traces.append(1)
        return step(self, *arguments)

    TrainingModel.train_step = counted
    try:
        yield traces
    finally:
        TrainingModel.train_step = step


def fit(name):
    """Losses, scores and answers of a task after training."""
    global RANDOM
    RANDOM = np.random.default_rng(4)
    task, losses = keras_bert.load_task(CORPUS / name), EveryLoss()
    inner = getattr(task, "task", task)
    x, y = examples(name, inner)
    asked = read_json(CORPUS / f"{name}.json")["inputs"]["calls"]
    with counted_traces() as traces, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of texts that are cut
        report = task.fit(x, y, validation_data=(x, y), callbacks=[losses], **FIT)
        answers = [task.predict(*call["args"], **call.get("options", {})) for call in asked[:1]]
    scores = [run.score for run in report.runs]
    return {"steps": losses.values, "scores": scores, "answers": as_json(answers), "traces": len(traces)}


def wrong_answers(name):
    """Where a task of the corpus answers otherwise than it did on TensorFlow."""
    recorded = read_json(CORPUS / f"{name}.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = ask_task(keras_bert.load_task(CORPUS / name), recorded["inputs"])
    return differences(recorded["answers"], found, 1e-5)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--fit", nargs="*", help="these alone; without a name none")
    parser.add_argument("--ask", action="store_true")
    arguments = parser.parse_args()
    every = sorted(path.name for path in CORPUS.iterdir() if path.is_dir())
    every = [name for name in every if name not in ("classification_wide", "classification_quantized")]
    names = every if arguments.fit is None else arguments.fit
    scope = contextlib.nullcontext()
    if arguments.devices > 1:
        devices = keras_bert.choose_devices("data_parallel" if keras.backend.backend() == "jax" else "mirrored")
        assert devices.num_replicas == arguments.devices
        scope = devices.scope()
    found = {}
    with scope:
        for name in names:
            found[name] = fit(name)
            print(name, found[name]["steps"][-1], found[name]["traces"], flush=True)
    if arguments.ask:
        found["wrong answers"] = {name: wrong for name in every if (wrong := wrong_answers(name))}
    arguments.out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
