"""What Keras users expect of `fit`: callbacks, `validation_split`, `.history`, a log file that can be read."""

import subprocess
import sys

import keras
import numpy as np
import pytest
from places import HELPERS, ROOT
from tiny_tasks import pretrained_directory, reviews

import keras_bert
from keras_bert.system.progress import fit_verbosity
from keras_bert.text.tokenized_texts import tokenize_texts

TRAIN, DEV = reviews(48, seed=1), reviews(16, seed=2)
QUICK = {"epochs": 3, "batch_size": 16, "patience": None, "evaluations": 3, "verbose": 0}


def new_classifier(**options):
    return keras_bert.TextClassifier.from_pretrained(
        pretrained_directory(), labels=["bad", "good"], sequence_length=16, **options
    )


class Recorder(keras.callbacks.Callback):
    """Notes what Keras tells it."""

    def __init__(self):
        super().__init__()
        self.seen, self.logs = [], []

    def on_train_begin(self, logs=None):
        self.seen.append("begin")

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append("batch")

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append("epoch")
        self.logs.append(dict(logs))


def test_callbacks_with_a_recipe_on_each_run_and_a_keras_history():
    recorder = Recorder()
    report = new_classifier().fit(*TRAIN, validation_data=DEV, callbacks=[recorder], seeds=(0, 1), **QUICK)
    assert recorder.seen.count("begin") == 2  # one for each seed
    assert recorder.seen.count("epoch") == 6 and recorder.seen.count("batch") == 18
    assert {"loss", "val_accuracy", "val_loss"} <= set(recorder.logs[0])
    best = recorder.logs[:3] if report.best.seed == 0 else recorder.logs[3:]
    assert report.history["val_accuracy"] == pytest.approx([row["val_accuracy"] for row in best])
    assert report.history["val_loss"] == pytest.approx([row["val_loss"] for row in best])
    assert report.epoch == [0, 1, 2] and len(report.history["loss"]) == 3


def test_early_stopping_of_keras_ends_a_run():
    class Worse(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["val_accuracy"] = -epoch  # nothing is ever gained

    stopping = keras.callbacks.EarlyStopping("val_accuracy", mode="max", patience=1)
    report = new_classifier().fit(*TRAIN, validation_data=DEV, callbacks=[Worse(), stopping], **QUICK)
    assert report.best.steps == 6 and report.best.stopped_early
    assert "stopped early by a callback" in str(report)


def test_validation_split_holds_out_the_last_examples(monkeypatch):
    measured = []
    task = new_classifier()
    score = task.score
    monkeypatch.setattr(
        task, "score", lambda outputs, data, metric: measured.append(data) or score(outputs, data, metric)
    )
    report = task.fit(*TRAIN, validation_split=0.25, **QUICK)
    assert report.metric == "accuracy" and report.best.steps == 9
    last = tokenize_texts(task.tokenizer, TRAIN[0][36:])
    np.testing.assert_array_equal(measured[-1].tokenized.first_ids, last.first_ids)
    np.testing.assert_array_equal(measured[-1].labels, [["bad", "good"].index(label) for label in TRAIN[1][36:]])
    for share in (-0.1, 1.0):
        with pytest.raises(ValueError, match=r"expected a share between 0 and 1"):
            task.fit(*TRAIN, validation_split=share, **QUICK)
    with pytest.raises(ValueError, match="leaves none to train on"):
        task.fit(*reviews(1, seed=1), validation_split=0.5, **QUICK)


def test_compiled_tasks_take_a_validation_split_too():
    task = new_classifier()
    task.compile("sgd", metrics=["accuracy"], jit_compile=False)
    history = task.fit(*TRAIN, validation_split=0.25, epochs=1, verbose=0)
    assert "val_accuracy" in history.history


@pytest.mark.slow
def test_a_log_file_has_a_line_an_epoch_and_no_control_characters():
    code = (
        f"import sys; sys.path.insert(0, {str(HELPERS)!r})\n"
        "import keras_bert\n"
        "from tiny_tasks import pretrained_directory, reviews\n"
        "task = keras_bert.TextClassifier.from_pretrained(pretrained_directory(), labels=['bad', 'good'])\n"
        "task.fit(*reviews(32, seed=1), validation_data=reviews(8, seed=2), epochs=2, evaluations=2)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "\x08" not in done.stdout and "\r" not in done.stdout and "\x1b" not in done.stdout
    assert sum("val_accuracy" in line for line in done.stdout.splitlines()) == 2


def test_verbosity(monkeypatch):
    assert fit_verbosity(0) == 0 and fit_verbosity("1") == 1
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert fit_verbosity("auto") == 1
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert fit_verbosity("auto") == 2
