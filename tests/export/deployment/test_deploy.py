"""One call from a fine-tuned task to a directory for an app: the promise, the files, what goes wrong on the way."""

import functools
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_tasks import DEEP_CONFIG, pretrained_directory, reviews

import export
import export.deployment.deploying
import export.search.run as search
from export.deployment import files as deployment_files
from export.deployment import report as deployment_report
from export.deployment.manifest import check_manifest
from export.deployment.result import count_points, times_faster
from export.search.candidates import Candidate, ModelPlan
from export.search.data import read_data
from export.search.models import ModelMaker
from export.search.trials import Trial
from keras_bert.cli import main
from keras_bert.finetuning.recipes import Recipe
from keras_bert.tasks.base.saved_tasks import load_task
from keras_bert.tasks.classification.task import TextClassifier

TRAIN, VALIDATION = reviews(96, seed=1), reviews(60, seed=2)
QUICK = Recipe(name="quick", learning_rate=3e-3, epochs=2, batch_size=16, evaluations=1, patience=None)
STUDENT = ModelPlan(
    name="student", stage="distill", trim=1, sizes=(("num_layers", 1), ("intermediate_dim", 16)), training=QUICK
)
BROKEN = replace(STUDENT, name="broken", sizes=(("num_heads", 7),))
SLOW = replace(STUDENT, name="slow", training=replace(QUICK, epochs=1e6))
CANDIDATES = (
    Candidate(recipe="dynamic_int8"),
    Candidate(model=BROKEN, recipe="dynamic_int8"),
    Candidate(model=SLOW, recipe="dynamic_int8"),
    Candidate(model=STUDENT, recipe="dynamic_int8"),
)


def test_the_manifest_comes_last(tmp_path, monkeypatch):
    """Whoever finds a manifest finds the files that it lists, also where the move is killed."""
    place, directory, order = tmp_path / "new", tmp_path / "out", []
    for folder in (place / "a model", directory / "a model"):
        folder.mkdir(parents=True)
        (folder / "file").write_text(folder.parent.name)
    for name in ("manifest.json", "zebra.txt", "answers.json"):
        (place / name).write_text("new")
    replace_path = os.replace
    monkeypatch.setattr(os, "replace", lambda path, target: (order.append(path.name), replace_path(path, target)))
    deployment_files._move_all(place, directory)
    assert order == ["a model", "answers.json", "zebra.txt", "manifest.json"]
    assert (directory / "a model" / "file").read_text() == "new"


@functools.cache
def teacher():
    task = TextClassifier.from_pretrained(pretrained_directory(DEEP_CONFIG), labels=["bad", "good"], sequence_length=32)
    report = task.fit(*TRAIN, learning_rate=3e-3, batch_size=16, epochs=16, evaluations=1, patience=None, verbose=0)
    assert report.best.score > 0.9
    return task


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """A search that is killed once and goes on, in the first of its files."""
    directory = tmp_path_factory.mktemp("deploy") / "film reviews"
    options = {"accuracy_budget": 0.3, "candidates": CANDIDATES, "time_limit": 3600, "verbose": 0}
    tried, convert = [], search.convert

    def killed(task, path, **kwargs):
        tried.append(path.parent.name)
        if len(tried) == 3:
            raise KeyboardInterrupt
        return convert(task, path, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "convert", killed)
        with pytest.raises(KeyboardInterrupt):
            export.deploy(teacher(), directory, TRAIN, VALIDATION, **options)
        assert not (directory / "model.tflite").exists()
        result = export.deploy(teacher(), directory, TRAIN, VALIDATION, **options)
    assert len(tried) == 4 and tried[2] == tried[3]  # the killed one again, the others once
    return result


@pytest.mark.slow
def test_a_lean_student_is_what_is_left_of_its_teacher(tmp_path):
    data = read_data(teacher(), TRAIN, VALIDATION)
    training = replace(QUICK, learning_rate=1e-3)
    cuts = {"layers": 1, "heads": 1, "neurons": 16}
    lean = ModelPlan(name="lean", stage="distill", trim=1, **cuts, sizes=(("embedding_dim", 8),), training=training)
    built = ModelMaker(teacher(), data, 1.0, tmp_path).make(lean)
    config = built.task.config
    assert (config.num_layers, config.num_heads, config.intermediate_dim, config.embedding_dim) == (1, 1, 16, 8)
    assert config.head_dim == teacher().config.head_dim and config.hidden_dim == teacher().config.hidden_dim
    assert "heads stay in every block" in built.notes[2] and "neurons stay in every block" in built.notes[3]
    assert built.score > 0.7
    again = ModelMaker(teacher(), data, 1.0, tmp_path)
    assert again.is_made(lean) and again.make(lean).score == built.score


def by_model(result, name):
    return next(trial for trial in result.trials if trial.model == name)


def test_the_promise_is_kept_by_the_file(deployed):
    chosen, directory = deployed.chosen, deployed.directory
    assert chosen.model == "student" and deployed.is_kept
    texts, labels = VALIDATION
    classify = export.load(directory)
    accuracy = np.mean([classify(text)[0].name == label for text, label in zip(texts, labels, strict=True)])
    assert accuracy == pytest.approx(chosen.score) and accuracy >= deployed.teacher_score - 0.3
    assert (directory / "model.tflite").stat().st_size == chosen.num_bytes < deployed.reference.num_bytes / 2
    smaller = [trial for trial in deployed.trials if trial.is_measured and trial.num_bytes < 0.98 * chosen.num_bytes]
    assert not smaller
    assert "* student" in str(deployed) and "report.html" in str(deployed)


def test_what_fails_or_takes_too_long_is_a_row(deployed):
    broken, slow = by_model(deployed, "broken"), by_model(deployed, "slow")
    assert broken.status == "failed" and "num_heads=7" in broken.note
    assert slow.status == "skipped" and re.search(r"would take about \d+ min, and \d+ min are left", slow.note)
    assert by_model(deployed, "teacher").is_measured


def test_the_directory_is_whole(deployed):
    directory = deployed.directory
    names = {path.name for path in directory.iterdir()}
    assert names == {
        ".work",
        "model.tflite",
        "saved_model",
        "keras",
        "vocab.txt",
        "labels.txt",
        "golden.json",
        "report.html",
        "model_card.md",
        "manifest.json",
    }
    assert check_manifest(directory) == []
    assert (directory / "saved_model/1/saved_model.pb").is_file()
    task = load_task(directory / "keras")
    assert (directory / "labels.txt").read_text().split() == task.labels == ["bad", "good"]
    assert (directory / "vocab.txt").read_text().split() == list(task.tokenizer.vocabulary)
    golden = json.loads((directory / "golden.json").read_text())
    classify = export.load(directory)
    assert [row["answer"][0]["name"] for row in golden] == [classify(row["text"])[0].name for row in golden]
    manifest = json.loads((directory / "manifest.json").read_text())
    assert manifest["chosen"]["name"] == deployed.chosen.name and len(manifest["candidates"]) == len(CANDIDATES)
    card = (directory / "model_card.md").read_text()
    assert "film reviews" in card and f"{deployed.chosen.score:.4f}" in card


class Tags(HTMLParser):
    """Checks that tags are closed, and collects attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.attributes, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in ("meta", "circle", "line", "path", "polyline"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("circle", "line", "path", "polyline"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_report_stands_by_itself(deployed):
    page = (deployed.directory / "report.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(page)
    assert not tags.open
    assert not {"src", "href", "srcset", "action"} & {name for name, _ in tags.attributes}
    assert not re.search(r"<script|url\(|@import|https?://", page)
    text = " ".join(tags.text)
    for trial in deployed.trials:
        assert trial.name in text
    for words in ("FULLY_CONNECTED", "teacher", "model.tflite", "num_heads=7", "docker run", "XNNPACK", "Android"):
        assert words in text
    assert page.count('class="confusion') == 2 and page.count("<svg") == 3
    (chosen,) = re.findall(r"<tr class=chosen>(.*?)</tr>", page)
    assert page.count(">chosen<") == 1 and ">chosen<" in chosen and deployed.chosen.name in chosen


def again(monkeypatch, deployed, budget, candidates):
    """Deploy once more, up to the writing; gives the result and the files that were made."""
    made, convert = [], search.convert

    def counted(task, path, **options):
        made.append(path.parent.name)
        return convert(task, path, **options)

    monkeypatch.setattr(search, "convert", counted)
    monkeypatch.setattr(export.deployment.deploying, "write_deployment", lambda *_: None)
    options = {"candidates": candidates, "verbose": 0}
    return export.deploy(teacher(), deployed.directory, TRAIN, VALIDATION, budget, **options), made


@pytest.mark.slow
def test_a_stricter_budget_finds_another_file_among_those_that_were_measured(deployed, monkeypatch):
    best, made = again(monkeypatch, deployed, 0.0, [CANDIDATES[0]])
    assert best.chosen.model == "teacher" and best.is_kept
    assert made in (
        [],
        [CANDIDATES[0].key],
    )  # made again only where the student had beaten it, and its file was dropped
    assert any("cannot rule out" in note or "all of it within" in note for note in best.notes)
    assert any("60 validation examples cannot show" in note for note in best.notes)


@pytest.mark.parametrize(("speedup", "words"), [(3.94, "3.9× faster"), (1.0, "1.0× faster"), (0.5, "2.0× slower")])
def test_a_file_that_is_slower_is_not_called_faster(speedup, words):
    assert times_faster(speedup) == words


@pytest.mark.parametrize(("share", "words"), [(0.01, "1 point"), (0.03, "3 points"), (0.005, "0.5 points")])
def test_one_point_is_singular(share, words):
    assert count_points(share) == words


@pytest.mark.slow
def test_a_budget_that_cannot_be_met_keeps_the_best(deployed, monkeypatch):
    monkeypatch.setattr(search.DeploymentData, "score_task", lambda self, task: 1.5)
    best, _ = again(monkeypatch, deployed, 0.0, [CANDIDATES[0], CANDIDATES[3]])
    assert not best.is_kept and best.chosen.score == max(trial.score for trial in best.trials)
    assert re.search(r"cannot be met: accuracy .* points beyond it", best.verdict)
    seen = SimpleNamespace(train=None, validation=SimpleNamespace(labelled=VALIDATION[0]))
    page = deployment_report._top("film reviews", best, seen) + deployment_report._pictures(best)
    assert "The best of" in page and "none is over the dashed line" in page and "The smallest" not in page


@pytest.mark.slow
def test_an_app_with_fixed_lengths_gets_a_file_of_such(tmp_path):
    options = {"recipes": ["dynamic_int8"], "lengths": "fixed", "verbose": 0}
    found = export.deploy(teacher(), tmp_path / "out", None, VALIDATION, 0.0, **options)
    assert list(export.load(tmp_path / "out").metadata.signatures.values())[-1] == 32  # and none is of any length
    assert None not in export.load(tmp_path / "out").metadata.signatures.values()
    assert found.chosen.recipe == "dynamic_int8"  # the reference is of any length, and is not taken


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"accuracy_budget": -0.1}, "accuracy_budget=-0.1"),
        ({"accuracy_budget": "1%"}, "0.01 for one point"),
        ({"time_limit": 0}, "time_limit=0"),
        ({"candidates": CANDIDATES, "recipes": ["float32"]}, "Pass one or the other"),
        ({"candidates": CANDIDATES, "lengths": 16}, "Pass one or the other"),
        ({"recipes": ["int2"]}, "int2"),
    ],
)
def test_what_cannot_be_asked(options, words, tmp_path):
    task = TextClassifier.from_pretrained(pretrained_directory(DEEP_CONFIG), labels=["bad", "good"], sequence_length=32)
    task.fresh_heads = False
    with pytest.raises(ValueError, match=words):
        export.deploy(task, tmp_path / "out", TRAIN, VALIDATION, **options)
    assert not (tmp_path / "out").exists()


def test_the_command(tmp_path, capsys, monkeypatch):
    task = TextClassifier.from_pretrained(pretrained_directory(DEEP_CONFIG), labels=["bad", "good"], sequence_length=32)
    task.save(tmp_path / "model")
    for name, (texts, labels) in (("train", TRAIN), ("dev", VALIDATION)):
        rows = "".join(f"{text}\t{label}\n" for text, label in zip(texts, labels, strict=True))
        (tmp_path / f"{name}.tsv").write_text("text\tlabel\n" + rows)
    asked = {}

    def deploy(task, directory, train, validation, budget, **options):
        asked.update(options, train=len(train), validation=len(validation), budget=budget)
        chosen = Trial.of(Candidate(recipe="float32"), "measured", num_bytes=5)
        return SimpleNamespace(directory=directory, chosen=chosen, is_kept=True)

    monkeypatch.setattr(export.deployment.deploying, "deploy", deploy)
    arguments = ["deploy", tmp_path / "model", tmp_path / "out", "--train", tmp_path / "train.tsv"]
    arguments += ["--validation", tmp_path / "dev.tsv", "--budget", "0.02", "--time-limit", "30m"]
    assert main([*map(str, arguments), "--recipes", "float32, weight_int4", "--lengths", "8,16", "--json"]) == 0
    expected = {
        "train": 96,
        "validation": 60,
        "budget": 0.02,
        "recipes": ["float32", "weight_int4"],
        "lengths": (8, 16),
    }
    assert asked == {**expected, "time_limit": 1800, "seed": 0, "verbose": 0}
    found = json.loads(capsys.readouterr().out)
    assert found["kept"] and found["bytes"] == 5 and found["tflite"] == str(tmp_path / "out/model.tflite")
    assert main([*map(str, arguments[:-1]), "soon"]) == 1 and "expected a time" in capsys.readouterr().err
