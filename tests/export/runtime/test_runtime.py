"""The device runtime: a `.tflite` file alone gives the answers of `predict`, and bad files and texts clear words."""

import json
import subprocess
import sys

import numpy as np
import pytest
from places import ROOT
from tiny_tasks import CONFIG, pretrained_directory, reviews

import export
from export.file.archive import append_files, read_files
from export.file.metadata import add_metadata, describe_task
from export.runtime import Classifier, load
from keras_bert.model.weights import copy_weights
from keras_bert.tasks.classification.task import TextClassifier

TEXTS = ["the film was great", "a dull plot", "", "é 中 👍 unknownword", "very " * 40 + "poor"]
PAIRS = [("the film was great", "a dull plot"), ("it is", "very fine and good"), ("a", "the cast " * 20)]


def new_classifier(kind="single_label", **options):
    labels = None if kind == "regression" else ["bad", "fine", "good"]
    task = TextClassifier.from_pretrained(pretrained_directory(), labels=labels, kind=kind, **options)
    head = task.model.get_layer("classifier")  # whose answers are to differ from text to text
    head.kernel.assign(np.random.default_rng(5).normal(0, 6, head.kernel.shape))
    head.bias.assign(-task.logits(reviews(30, seed=1)[0]).mean(axis=0))
    return task


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("runtime")


@pytest.fixture(scope="module")
def exported(place):
    task = new_classifier()
    return task, export.convert(task, place / "model.tflite", recipe="float32", lengths=(8, 32)).path


def probabilities(answer, labels=("bad", "fine", "good")):
    found = {label.name: label.probability for label in answer}
    return [found.get(name, 0.0) for name in labels]


def assert_same_answers(ours, theirs, atol=1e-5):
    for answer, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(probabilities(answer), probabilities(expected), atol=atol)
        assert [label.name for label in answer] == [label.name for label in expected]


@pytest.mark.filterwarnings("ignore:.*texts were cut")
def test_answers_are_those_of_predict(exported):
    task, path = exported
    answer = load(path)
    assert_same_answers(answer(TEXTS), task.predict(TEXTS))
    assert_same_answers(answer(PAIRS), task.predict(PAIRS))
    assert_same_answers(answer([list(pair) for pair in PAIRS]), task.predict(PAIRS))
    assert_same_answers([answer(TEXTS[0])], [task.predict(TEXTS[0])])
    both = ("a fine film", "a dull plot")  # a tuple is texts too, not a pair
    assert_same_answers(answer(both), task.predict(both))
    assert answer([]) == []


def test_rows_of_one_length_follow_each_other(exported, monkeypatch):
    answer, lengths = load(exported[1]), []
    run_row = answer._runner._run_row
    monkeypatch.setattr(
        answer._runner, "_run_row", lambda ids, *others: lengths.append(len(ids)) or run_row(ids, *others)
    )
    texts = ["a b c", "a", "a b", "c a b", "b"]
    assert_same_answers(answer(texts), [answer([text])[0] for text in texts], atol=0)
    assert lengths[:5] == sorted(lengths[:5]) != lengths[5:]


def test_a_directory_is_opened_by_its_model(exported):
    task, path = exported
    for answer in (load(path.parent), Classifier(path)):
        assert_same_answers([answer("a fine film")], [task.predict("a fine film")])


@pytest.mark.filterwarnings("ignore:.*texts were cut")
@pytest.mark.parametrize("kind", ["multi_label", "regression"])
@pytest.mark.slow
def test_other_kinds(place, kind):
    task = new_classifier(kind)
    path = export.convert(task, place / f"{kind}.tflite", recipe="float32", lengths=None).path
    answers = load(path)(TEXTS)
    if kind == "regression":
        np.testing.assert_allclose(answers, task.predict(TEXTS), atol=1e-5)
    else:
        assert_same_answers(answers, task.predict(TEXTS))
        assert_same_answers(load(path)(TEXTS, threshold=0.01), task.predict(TEXTS, threshold=0.01))


@pytest.mark.slow
def test_windows_read_the_whole_text(place):
    task = new_classifier(sequence_length=16, long_texts="windows")
    path = export.convert(task, place / "windows.tflite", recipe="float32", lengths=16).path
    long = ["the cast was fine " * 6 + "bad", "it is good"]
    assert_same_answers(load(path)(long), task.predict(long))


def test_nothing_is_loaded_that_a_cold_start_has_no_time_for(exported):
    """Neither frameworks nor what writes and edits files, nor other tasks."""
    _, path = exported
    heavy = "tensorflow keras jax torch scipy sklearn pandas matplotlib transformers huggingface_hub requests asyncio"
    own = "flatbuffers ai_edge_litert.schema_py_generated export.file.metadata export.file.contents "
    own += "export.tasks.question_answering"
    code = (
        f"import sys; from export.runtime import load; print(load({str(path)!r})('a fine film')[0].name); "
        f"print([m for m in {[*heavy.split(), *own.split()]} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# === Bad input ===


def test_files_that_cannot_be_used(exported, tmp_path):
    _, path = exported
    with pytest.raises(FileNotFoundError, match=r"export\.convert"):
        load(tmp_path / "none.tflite")
    content = path.read_bytes()
    for name, damaged in {"short": content[: len(content) // 2], "text": b"hello", "empty": b""}.items():
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(ValueError, match=name):
            load(tmp_path / name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": {"sequence_length": "32"}}, "sequence_length='32'; expected a number"),
        ({"settings": {"sequence_length": -5}}, "sequence_length=-5; expected a number"),
        ({"signatures": {"length_8": 20, "length_32": 32}}, "the signature 'length_8' takes"),
        ({"signatures": {"length_32": None}}, "the signature 'length_32' takes"),
        ({"signatures": {"length_9": 9}}, "which it does not have"),
        ({"kind": "juggling"}, "do not go together"),
        ({"kind": "regression"}, "do not go together"),
        ({"outputs": ["class_logits"]}, "do not go together"),
        ({"labels": None}, "do not go together"),
        ({"labels": b"bad\nfine\n"}, "numbers for 2 labels"),
    ],
)
def test_a_file_that_does_not_say_the_truth_of_itself(exported, tmp_path, changes, message):
    content = exported[1].read_bytes()
    files = read_files(content, dict.fromkeys(("keras_bert_task.json", "vocab.txt", "labels.txt"), 1 << 20))
    labels = changes.get("labels", files.pop("labels.txt"))
    about = json.loads(files["keras_bert_task.json"]) | {key: changes[key] for key in changes if key != "labels"}
    files["keras_bert_task.json"] = json.dumps(about).encode()
    path = tmp_path / "lies.tflite"
    path.write_bytes(append_files(content, files if labels is None else files | {"labels.txt": labels}))
    with pytest.raises(ValueError, match=message):
        load(path)("a fine film")


def test_a_task_that_this_version_does_not_know(exported, tmp_path):
    task, _ = exported
    plain = export.convert(task.model, tmp_path / "plain.tflite", recipe="float32", lengths=8).path
    with pytest.raises(ValueError, match="no keras_bert_task.json|no archive|cannot be used"):
        load(plain)
    described = describe_task(task) | {"task": "juggling", "kind": None, "labels": None}
    (tmp_path / "other.tflite").write_bytes(add_metadata(plain.read_bytes(), **described))
    with pytest.raises(ValueError, match="juggling"):
        load(tmp_path / "other.tflite")


@pytest.mark.parametrize("texts", [[1], ["a", ("a", "b")], [("a", "b", "c")], [None], [b"bytes"]])
def test_what_is_no_text(exported, texts):
    with pytest.raises(TypeError, match="expected strings"):
        load(exported[1])(texts)


def test_a_copy_of_the_weights_is_in_the_file(exported, tmp_path):
    task, path = exported
    before = probabilities(load(path)("a fine film"))
    other = new_classifier()
    copy_weights(task.model, other.model)
    other.model.get_layer("classifier").bias.assign([99.0, 0.0, 0.0])
    again = export.convert(other, tmp_path / "again.tflite", recipe="float32", lengths=8).path
    assert probabilities(load(path)("a fine film")) == before
    assert load(again)("a fine film")[0].name == "bad"
    assert CONFIG.max_sequence_length == 32  # what the lengths above rely on
