"""A task that is saved over another and killed meanwhile: the next who opens the directory gets one of them whole."""

import json
import os
import threading

import numpy as np
import pytest
from tiny_models import VOCABULARY, tiny_model
from tiny_tasks import pretrained_directory

import keras_bert
import keras_bert.checkpoint.files as files
from keras_bert.checkpoint import CheckpointError, load_tokenizer, save_pretrained
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.text.tokenizer import BertTokenizer


class Killed(BaseException):
    """What nothing catches, as nothing catches a kill."""


def classifier(labels, seed):
    task = TextClassifier.from_pretrained(pretrained_directory(), labels=labels, sequence_length=16 + seed)
    task.model.get_layer("classifier").kernel.assign(
        np.random.default_rng(seed).normal(size=task.model.get_layer("classifier").kernel.shape)
    )
    return task


def state(task):
    return task.labels, task.sequence_length, task.model.get_layer("classifier").kernel.numpy().tobytes()


def save_and_die(task, directory, monkeypatch, *, after):
    """Save, and be killed after so many files are in their place; whether that was before the end."""
    replace, done = os.replace, []

    def killed(source, target):
        if os.path.dirname(target) == str(directory):
            if len(done) == after:
                raise Killed
            done.append(target)
        return replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "replace", killed)
        try:
            task.save(directory)
        except Killed:
            return True
    return False


def test_a_kill_leaves_one_of_both_whole(tmp_path, monkeypatch):
    old, new = classifier(["bad", "good"], 1), classifier(["good", "bad"], 2)
    for after in range(20):
        directory = tmp_path / str(after)
        old.save(directory)
        was_killed = save_and_die(new, directory, monkeypatch, after=after)
        assert state(keras_bert.load_task(directory)) == state(new)  # it was all written, and is finished now
        assert not list(directory.glob(".*"))
        if not was_killed:
            break
    assert 5 <= after < 20  # config, labels, weights, settings, vocabulary: one file after the other


def test_a_kill_while_writing_leaves_the_old_one(tmp_path, monkeypatch):
    old, new = classifier(["bad", "good"], 1), classifier(["good", "bad"], 2)
    old.save(tmp_path / "task")

    def killed(*args):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("keras_bert.tasks.base.task.write_settings", killed)
        with pytest.raises(Killed):
            new.save(tmp_path / "task")
        with pytest.raises(Killed):
            new.save(tmp_path / "other")
    assert state(keras_bert.load_task(tmp_path / "task")) == state(old)
    assert not (tmp_path / "other").exists()


def test_a_home_directory_is_meant_by_its_sign(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    task = classifier(["bad", "good"], 1)
    task.save("~/task")
    assert state(keras_bert.load_task("~/task")) == state(TextClassifier.load("~/task")) == state(task)
    assert (tmp_path / "home" / "task" / "keras_bert_task.json").exists() and not list((tmp_path / "cwd").iterdir())


@pytest.mark.parametrize("trick", ["name", "link"])
def test_a_strangers_directory_reaches_nothing_outside(tmp_path, trick):
    directory, victim = tmp_path / "model", tmp_path / "victim" / "config.json"
    save_pretrained(tiny_model(), directory)
    victim.parent.mkdir()
    victim.write_text("precious")
    waiting = directory / files._WAITING
    waiting.mkdir()
    if trick == "name":
        (waiting / files._STALE).write_text(json.dumps(["../victim/config.json"]))
    else:
        (directory / "linked").symlink_to(victim.parent)
        (waiting / "linked").mkdir()
        (waiting / "linked" / "config.json").write_text("worthless")
    with pytest.raises(CheckpointError, match="interrupted and could not be finished"):
        keras_bert.load_model(directory)
    assert victim.read_text() == "precious"


def test_another_vocabulary_leaves_no_word_of_the_first(tmp_path):
    directory = tmp_path / "model"
    save_pretrained(tiny_model(), directory, tokenizer=BertTokenizer(VOCABULARY))
    # As hubs have it: a second file with the vocabulary, which transformers prefers.
    normalizer = {"type": "BertNormalizer", "lowercase": True, "strip_accents": False, "handle_chinese_chars": True}
    words = {"model": {"type": "WordPiece", "vocab": {token: i for i, token in enumerate(VOCABULARY)}}}
    (directory / "tokenizer.json").write_text(json.dumps({**words, "normalizer": normalizer}))
    assert load_tokenizer(directory).strip_accents is None  # tokenizer_config.json says so, and it is asked first
    (directory / "notes.txt").write_text("mine")
    save_pretrained(tiny_model(), directory, tokenizer=BertTokenizer(VOCABULARY[:8]))
    assert not (directory / "tokenizer.json").exists() and (directory / "notes.txt").read_text() == "mine"
    assert len(load_tokenizer(directory).vocabulary) == 8


def test_several_that_save_to_one_place_at_once(tmp_path):
    """The last one wins, whole; nobody who saves or opens meanwhile gets an error."""
    directory, errors = tmp_path / "model", []
    names = [f"part-{number}" for number in range(20)]

    def save(text):
        try:
            for _ in range(15):
                with files.written_whole(directory) as partial:
                    for name in names:
                        (partial / name).write_text(text)
        except Exception as error:
            errors.append(error)

    def open_it():
        try:
            while any(thread.is_alive() for thread in savers):
                files.finish_writing(directory)
        except Exception as error:
            errors.append(error)

    savers = [threading.Thread(target=save, args=(text,)) for text in "abc"]
    opener = threading.Thread(target=open_it)
    for thread in [*savers, opener]:
        thread.start()
    for thread in [*savers, opener]:
        thread.join()
    assert not errors
    assert sorted(path.name for path in directory.iterdir()) == sorted(names)
    assert len({(directory / name).read_text() for name in names}) == 1
