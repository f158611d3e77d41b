"""What a search may try, which row wins, how sure that is: values alone, no files."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_tasks import DEEP_CONFIG, pretrained_directory, reviews

from export.cli.deploy import read_seconds
from export.deployment.manifest import check_manifest, write_manifest
from export.deployment.proof import _confusion
from export.search.candidates import Candidate, ModelPlan
from export.search.costs import Costs, work_of
from export.search.data import read_data
from export.search.intervals import least_half_width, needed_examples, score_interval
from export.search.models import flat_texts
from export.search.proposals import lean_sizes, list_candidates, spread_lengths, student_sizes
from export.search.trials import SKIPPED, Trial, as_table, choose, pareto_front
from export.tasks.base.registry import find_export
from keras_bert.finetuning.recipes import Recipe
from keras_bert.model.config import BertConfig
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.text.tokenizer import BertTokenizer
from tests.export.runtime.test_other_tasks import TASKS, task_of
from tests.export.runtime.test_tagging_and_answers import loud_answerer, loud_tagger

MINILM = BertConfig(num_layers=6, num_heads=12, hidden_dim=384, intermediate_dim=1536)


def new_classifier():
    task = TextClassifier.from_pretrained(pretrained_directory(DEEP_CONFIG), labels=["bad", "good"], sequence_length=32)
    task.fresh_heads = False
    return task


# === Candidates ===


def test_the_usual_candidates_go_from_cheap_to_dear():
    found = list_candidates(new_classifier(), examples=500, row_lengths=[5, 9, 9, 30])
    stages = [candidate.model.stage for candidate in found]
    assert list(dict.fromkeys(stages)) == ["quantize", "trim", "layers", "distill", "qat"]
    assert stages == sorted(stages, key=["quantize", "trim", "layers", "distill", "qat"].index)
    quantized = [candidate for candidate in found if candidate.model.stage == "quantize"]
    assert {candidate.recipe for candidate in quantized} == {
        "float32",
        "float16",
        "dynamic_int8",
        "static_int8",
        "weight_int4",
        "all_int4",
    }
    assert {candidate.lengths for candidate in quantized} == {"dynamic", (16, 24, 32)}
    assert len({candidate.key for candidate in found}) == len(found)
    trained = [candidate.model for candidate in found if candidate.model.stage == "qat"]
    assert all(plan.start.stage in ("trim", "distill") and plan.quantized for plan in trained)


def test_without_training_data_nothing_is_trained():
    found = list_candidates(new_classifier(), examples=0, row_lengths=[5], recipes=["weight_int4"])
    assert {candidate.model.stage for candidate in found} == {"quantize"}
    assert {candidate.recipe for candidate in found} == {"weight_int4"}


@pytest.mark.parametrize(
    ("asked", "kinds"),
    [("dynamic", {"dynamic"}), ("fixed", {(8, 32)}), (16, {(16,)}), ([8, 16], {(8, 16)}), (None, {"dynamic", (8, 32)})],
)
def test_all_candidates_have_the_lengths_that_an_app_takes(asked, kinds):
    found = list_candidates(new_classifier(), examples=500, row_lengths=[5], lengths=asked)
    assert {candidate.lengths for candidate in found} == kinds
    assert {candidate.model.stage for candidate in found} == {"quantize", "trim", "layers", "distill", "qat"}
    with pytest.raises(ValueError, match="lengths='short'; expected 'dynamic', 'fixed', or numbers"):
        list_candidates(new_classifier(), examples=0, lengths="short")


@pytest.mark.parametrize("change", ["tokenizer", "long_texts", "threshold"])
def test_what_was_found_is_of_no_use_for_another_task(change):
    task = loud_answerer() if change == "threshold" else new_classifier()
    task.fresh_heads = False
    rows = ([("who?", "ada ran")], ["ada"]) if change == "threshold" else reviews(8, seed=1)
    data = read_data(task, None, rows)
    before = data.fingerprint(task)
    assert data.fingerprint(task) == before
    if change == "tokenizer":
        task.tokenizer = BertTokenizer(task.tokenizer.vocabulary, lowercase=False)
    elif change == "long_texts":
        task.long_texts = "windows"
    else:
        task.no_answer_threshold += 1.5
    assert data.fingerprint(task) != before


def test_students_get_narrower_and_their_heads_keep_their_width():
    sizes = student_sizes(MINILM)
    assert [(row["num_layers"], row["hidden_dim"]) for row in sizes] == [(2, 384), (3, 192), (3, 128)]
    for row in sizes:
        assert MINILM.replace(**row).head_dim == 32
    assert spread_lengths([5, 9, 9, 30], 64) == (16, 24, 64)


def test_lean_students_keep_a_part_of_everything():
    first, second = lean_sizes(MINILM)
    assert first == {"layers": 4, "heads": 4, "neurons": 512}
    assert second == {"layers": 3, "heads": 4, "neurons": 384}
    tiny = BertConfig(vocabulary_size=9, num_layers=1, num_heads=1, hidden_dim=8, intermediate_dim=8)
    assert lean_sizes(tiny) == [{"layers": 1, "heads": 1, "neurons": 8}]  # never nothing, and the same one once


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"stage": "magic"}, "expected one of quantize"),
        ({"sizes": (("num_layers", 1),)}, "has no training"),
        ({"sizes": (("num_layers", 1),), "layers": 1, "training": Recipe()}, "one of the two"),
        ({"sizes": (("hidden_dim", 8),), "heads": 1, "neurons": 8, "training": Recipe()}, "sizes and heads, neurons"),
        ({"start": ModelPlan(), "trim": 1}, "put those into the plan of start"),
        ({"encoder": "tiny-en", "layers": 2, "training": Recipe()}, "which has its own vocabulary and sizes"),
        ({"encoder": "tiny-en"}, "is a student and has no training"),
    ],
)
def test_plans_that_contradict_themselves(wrong, words):
    with pytest.raises(ValueError, match=words):
        ModelPlan(**wrong)


def test_a_changed_plan_has_another_key():
    plan = ModelPlan(name="student", stage="distill", sizes=(("num_layers", 1),), training=Recipe())
    assert replace(plan, training=Recipe(epochs=9)).key != plan.key != replace(plan, trim=2).key
    assert not ModelPlan().needs_training and plan.needs_training
    smaller = replace(plan, sizes=(("num_layers", 0),))
    assert smaller.is_smaller(plan) and not plan.is_smaller(smaller) and not plan.is_smaller(ModelPlan())
    lean = ModelPlan(name="lean", stage="distill", layers=2, heads=2, neurons=16)
    assert replace(lean, heads=1, neurons=8).is_smaller(lean) and not replace(lean, heads=1, neurons=32).is_smaller(
        lean
    )
    assert not smaller.is_smaller(lean)  # of another kind: nothing follows for it


# === Costs ===


def test_the_work_of_a_token_is_that_of_the_matrices():
    config = BertConfig(num_layers=3, hidden_dim=64, num_heads=4, intermediate_dim=256)
    products = 3 * (4 * 64 * 64 + 2 * 64 * 256)  # query, key, value, output; up and down
    assert products < work_of(config) < 1.2 * products


def test_a_student_costs_what_its_work_says():
    costs = Costs(MINILM, tokens=10_000, examples=1000, seconds_per_work=1e-9, asked=True)
    plan = ModelPlan(name="s", stage="distill", sizes=(("num_layers", 3),), training=Recipe(epochs=2))
    candidate = Candidate(model=plan, recipe="dynamic_int8")
    expected = 3 * 2 * 10_000 * work_of(MINILM.replace(num_layers=3)) * 1e-9
    assert costs.of_model(candidate) == pytest.approx(expected)
    longer = replace(candidate, model=replace(plan, training=Recipe(epochs=2, steps=1000)))
    assert costs.of_model(longer) == pytest.approx(16 * expected)  # 1,000 steps of 32 are 32 passes
    costs.learn(candidate, 4 * expected, 3.0)  # it took four times as long
    assert costs.of_model(candidate) == pytest.approx(2 * expected)
    assert costs.of_file(Candidate(recipe="float32")) == 3.0
    lean = Candidate(model=ModelPlan(name="l", layers=4, heads=6, neurons=768), recipe="float32")
    sizes = costs.config_of(lean)
    assert (sizes.num_layers, sizes.heads_dim, sizes.head_dim, sizes.intermediate_dim) == (4, 192, 32, 768)
    assert work_of(sizes) < work_of(MINILM.replace(num_layers=4)) / 1.9


# === Trials ===


def trial(name, score, size, milliseconds, **changes):
    row = Trial.of(Candidate(model=ModelPlan(name=name), recipe="float32"), "measured", score=score, num_bytes=size)
    return replace(row, milliseconds=milliseconds, teacher_milliseconds=10.0, **changes)


def test_the_smallest_within_the_budget_wins_and_of_equals_the_fastest():
    rows = [trial("big", 0.9, 100, 10.0), trial("small", 0.895, 50, 6.0), trial("as small", 0.893, 51, 5.0)]
    rows += [trial("bad", 0.7, 10, 1.0), Trial.of(Candidate(recipe="float16"), SKIPPED, note="no time")]
    assert choose(rows, 0.89)[0].model == "as small"
    assert choose(rows, 0.894)[0].model == "small"
    chosen, is_kept = choose(rows, 0.95)
    assert chosen.model == "big" and not is_kept
    assert [row.model for row in pareto_front(rows)] == ["bad", "small", "as small", "big"]
    assert [row.model for row in pareto_front([*rows, trial("best", 0.91, 5, 0.5)])] == ["best"]
    table = as_table(rows, metric="accuracy", chosen=rows[1])
    assert "* small" in table and "skipped: no time" in table
    with pytest.raises(RuntimeError, match="no time"):
        choose(rows[-1:], 0.5)


def test_rows_survive_the_disk(tmp_path):
    row = trial("big", 0.9, 100, 10.0)
    row.save(tmp_path / "row.json")
    assert Trial.load(tmp_path / "row.json") == row
    (tmp_path / "row.json").write_text('{"key": 1')
    assert Trial.load(tmp_path / "row.json") is None and Trial.load(tmp_path / "none.json") is None


# === How sure it is ===


def test_intervals_of_shares_are_those_of_the_book():
    """Agresti and Min (2005): the paired difference with half an example more in each cell."""
    random = np.random.default_rng(0)
    count, repeats, inside = 400, 300, 0
    for _ in range(repeats):
        first = random.random(count) < 0.9
        second = np.where(random.random(count) < 0.1, random.random(count) < 0.5, first)  # truly 0.04 worse
        groups = np.array_split(random.permutation(count), 20)
        change = second.astype(float) - first
        parts = np.array([np.delete(change, group).mean() for group in groups])
        found = score_interval(change.mean(), parts, count)
        inside += found.low <= -0.04 <= found.high
    assert 0.92 <= inside / repeats <= 0.98
    lost, gained = int((change < 0).sum()), int((change > 0).sum())
    variance = (lost + gained + 1 - (lost - gained) ** 2 / (count + 2)) / (count + 2) ** 2
    assert found.half_width == pytest.approx(2.093 * np.sqrt(variance), rel=0.5)


def test_the_same_answers_on_few_examples_prove_little():
    found = score_interval(0.0, np.zeros(10), 10)
    assert found.low < -0.1 and found.half_width == pytest.approx(least_half_width(10))
    assert least_half_width(needed_examples(0.01)) <= 0.01 < least_half_width(needed_examples(0.01) - 1)


# === Data of every task ===

WORDS = [["the", "film"], ["a", "great", "plot"], ["it", "is", "fine"]]
DATA = {name: (task_of, labelled) for name, (_, _, _, labelled) in TASKS.items()}
DATA["tagging"] = (lambda _: loud_tagger(), (WORDS, [["O", "B-PER"], ["O", "O", "B-LOC"], ["O", "O", "O"]]))
DATA["question_answering"] = (
    lambda _: loud_answerer(),
    ([("what was it ?", "the film was great"), ("what ?", "a dull plot")], ["great", "plot"]),
)
DATA["classification"] = (lambda _: new_classifier(), reviews(30, seed=2))


class FileOf:
    """What a file would give, from the task itself: the numbers of a runtime without a file."""

    def __init__(self, task, noise=0.0):
        self.task, self.noise = task, noise
        self.reader = type("Reader", (), {"reading": {"sequence_length": task.sequence_length}})

    def outputs(self, tokenized):
        raw = self.task.outputs(tokenized)
        random = np.random.default_rng(0)
        raw = {name: value + self.noise * random.normal(size=value.shape) for name, value in raw.items()}
        return find_export(self.task.name).from_task(self.task, raw, tokenized)


@pytest.mark.parametrize("name", DATA)
def test_every_task_is_scored_through_its_file(name):
    make, labelled = DATA[name]
    task = make(name)
    task.fresh_heads = False
    data = read_data(task, None, labelled)
    assert data.score_file(task, FileOf(task)) == pytest.approx(data.score_task(task))
    interval = data.difference(task, task, FileOf(task))
    if interval is not None:  # choices: their rows depend on the longest list of choices
        assert interval.difference == pytest.approx(0) and interval.low < 0 < interval.high
    assert interval is not None or name == "multiple_choice"
    assert len(data.calibration) and len(data.row_lengths(task)) and "no training data" in data.notes[0]
    other = data.score_file(task, FileOf(task, noise=50.0))
    assert np.isfinite(other)


def test_noise_widens_the_interval():
    task, labelled = new_classifier(), reviews(60, seed=2)
    data = read_data(task, None, labelled)
    noisy = data.difference(task, task, FileOf(task, noise=5.0))
    assert noisy.half_width > data.difference(task, task, FileOf(task)).half_width
    assert noisy.difference == pytest.approx(data.score_file(task, FileOf(task, noise=5.0)) - data.score_task(task))


@pytest.mark.parametrize(
    ("train", "validation", "words"),
    [
        (None, None, "no validation data"),
        (None, ["a film"], "no labels"),
        (None, (["a film"], ["superb"]), "validation data cannot be used.*superb"),
        ((["a film"], ["superb"]), (["a film"], ["good"]), "train data cannot be used.*superb"),
    ],
)
def test_data_that_cannot_be_used(train, validation, words):
    with pytest.raises(ValueError, match=words):
        read_data(new_classifier(), train, validation)


def test_a_model_that_was_never_trained_is_not_deployed():
    with pytest.raises(ValueError, match="untrained"):
        read_data(
            TextClassifier.from_pretrained(pretrained_directory(DEEP_CONFIG), labels=["a", "b"]), None, (["a"], ["a"])
        )


def test_texts_are_found_wherever_they_are():
    assert flat_texts(["a", ("b", ["c"]), type("Marked", (), {"text": "d"})()]) == ["a", "b", "c", "d"]


def test_confusion_counts_the_classes(monkeypatch):
    task, (texts, labels) = new_classifier(), reviews(20, seed=3)
    data = read_data(task, None, (texts, labels))
    monkeypatch.setattr("export.deployment.proof.load", lambda path: FileOf(task))
    found = _confusion(task, task, data, Path("model.tflite"))
    answers = [answer[0].name for answer in task.predict(texts)]
    expected = [
        [sum(pair == (true, said) for pair in zip(labels, answers, strict=True)) for said in task.labels]
        for true in task.labels
    ]
    np.testing.assert_array_equal(found.teacher, expected)
    np.testing.assert_array_equal(found.file, expected)


# === Files ===


def test_a_manifest_notices_a_changed_byte(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/model.bin").write_bytes(b"123")
    (tmp_path / "labels.txt").write_text("a\n")
    write_manifest(tmp_path, {"chosen": "one"})
    said = json.loads((tmp_path / "manifest.json").read_text())
    assert said["chosen"] == "one" and said["files"]["deep/model.bin"]["bytes"] == 3 and said["versions"]["keras"]
    assert check_manifest(tmp_path) == []
    (tmp_path / "deep/model.bin").write_bytes(b"124")
    (tmp_path / "labels.txt").unlink()
    assert check_manifest(tmp_path) == ["deep/model.bin", "labels.txt"]


@pytest.mark.parametrize(("words", "seconds"), [("90", 90), ("90s", 90), ("30m", 1800), ("1.5h", 5400)])
def test_times_in_words(words, seconds):
    assert read_seconds(words) == seconds


@pytest.mark.parametrize("words", ["soon", "0m", "-3m", "5 days"])
def test_times_that_are_none(words):
    with pytest.raises(ValueError, match="expected a time"):
        read_seconds(words)
