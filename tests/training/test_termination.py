"""SIGTERM ends training after the step that runs, with its state saved; started again, a run ends as an undisturbed."""

import os
import signal
import threading
from dataclasses import replace

import keras
import numpy as np
import pytest
from pretraining_run import CONFIG, PLAN, TOKENIZER, write_tiny_examples
from safetensors.numpy import load_file
from taught_run import teach, write_teacher
from tiny_tasks import pretrained_directory, reviews

import keras_bert
from keras_bert.pretraining.records import StopOnNaN, read_history
from keras_bert.system.termination import noticing_termination
from keras_bert.training.resume import newest_step, steps_of_epoch

# Seven steps run at once, two times an epoch.
SHORT = replace(PLAN, steps=28, save_every=14, learning_rate=1e-3)


def terminate():
    assert threading.current_thread() is threading.main_thread()
    os.kill(os.getpid(), signal.SIGTERM)


def stopped_and_resumed(run, directory, step, capsys):
    """Start a pretraining, stop it in an execution of steps, and start it again."""
    noticed = StopOnNaN.on_train_batch_end

    def on_train_batch_end(self, batch, logs=None):
        noticed(self, batch, logs)
        if self.before + batch + 1 == step:
            terminate()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StopOnNaN, "on_train_batch_end", on_train_batch_end)
        with pytest.raises(SystemExit) as ended:
            run(directory)
    assert ended.value.code == 143 and newest_step(directory / "state") == step
    assert f"the state after step {step} is in" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    run(directory)
    return load_file(directory / "model" / "model.safetensors"), read_history(directory / "history.jsonl")


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    place = tmp_path_factory.mktemp("examples")
    write_tiny_examples(place / "pairs", documents=60)
    write_tiny_examples(place / "singles", documents=60, pairs="single")
    return place


def check_same(run, tmp_path, capsys):
    run(tmp_path / "whole")
    whole = load_file(tmp_path / "whole" / "model" / "model.safetensors")
    history = read_history(tmp_path / "whole" / "history.jsonl")
    for step in (7, 21):
        weights, found = stopped_and_resumed(run, tmp_path / f"stopped-{step}", step, capsys)
        assert all(np.array_equal(weights[name], whole[name]) for name in whole)
        assert found["step"] == history["step"] == [14, 28]
        # The epoch in which it was stopped has the numbers of its rest.
        assert found["loss"][step < 14] == history["loss"][step < 14]


def test_pretraining(examples, tmp_path, capsys):
    def run(directory):
        keras_bert.pretrain(examples / "pairs", directory, CONFIG, TOKENIZER, SHORT, verbose=0)

    check_same(run, tmp_path, capsys)


@pytest.mark.slow
def test_pretraining_with_a_teacher(examples, tmp_path, capsys):
    teacher = write_teacher(tmp_path / "teacher")

    def run(directory):
        teach(examples / "singles", teacher, directory, plan=replace(SHORT, dropout=0.1), relations=1.0, mlm=0.5)

    check_same(run, tmp_path, capsys)


class TerminateAt(keras.callbacks.Callback):
    """Asks to stop after a number of batches of an epoch."""

    def __init__(self, epoch, batch):
        super().__init__()
        self.place = (epoch, batch)

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.place:
            terminate()


def test_finetuning(tmp_path):
    def fit(directory, *callbacks):
        labels = ["bad", "good"]
        task = keras_bert.TextClassifier.from_pretrained(
            pretrained_directory(), labels=labels, sequence_length=16, seed=0
        )
        options = {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2, "verbose": 0}
        task.fit(*reviews(48, seed=1), directory=directory, callbacks=callbacks, **options)
        return task.model.get_weights()

    whole = fit(tmp_path / "whole")
    with pytest.raises(SystemExit):
        fit(tmp_path / "stopped", TerminateAt(0, 0))
    step = newest_step(tmp_path / "stopped" / "seed-0")
    assert step in (1, 2)  # it is noticed at the end of the step that runs, or of the next
    resumed = fit(tmp_path / "stopped")
    assert all(np.array_equal(one, other) for one, other in zip(resumed, whole, strict=True))


def test_only_where_nobody_else_handles_the_signal():
    heard = []
    signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    try:
        with noticing_termination() as termination:
            terminate()
        assert heard == [1] and not termination.asked
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    found = []

    def run():
        with noticing_termination() as termination:
            found.append((signal.getsignal(signal.SIGTERM), termination.asked))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [(signal.SIG_DFL, False)]


def test_a_second_signal_ends_the_process_at_once():
    with noticing_termination() as termination:
        terminate()
        assert termination.asked and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_the_rest_of_an_epoch():
    assert steps_of_epoch(0, 500, 2000) == (500, 2000)
    assert steps_of_epoch(500, 500, 2000) == (500, 2000)
    assert steps_of_epoch(1200, 500, 2000) == (300, 1500)
