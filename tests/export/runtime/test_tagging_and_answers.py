"""Taggers and answerers on the device: the file alone gives what `predict` gives, and a file that lies, clear words."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from places import ROOT

import export
from export.deployment.packages import write_golden
from export.file.archive import append_files, read_files
from export.file.metadata import task_settings
from export.runtime import Answerer, Classifier, Tagger, load
from export.runtime.tokenizer import DeviceTokenizer
from export.tasks.base.inputs import read_examples, task_reader
from export.tflite.calibration_data import calibration_rows
from export.verification.latency import benchmark
from export.verification.parity import VerificationError, verify
from keras_bert.cli import main
from keras_bert.tasks.question_answering.task import QuestionAnswerer
from keras_bert.text.tokenizer import BertTokenizer
from tests.tasks.test_question_answering import VOCABULARY as QUESTION_VOCABULARY
from tests.tasks.test_question_answering import new_answerer, toys
from tests.tasks.test_tagging import VOCABULARY, new_tagger, sentences, told_tagger

STRANGE = "👩\u200d👧 Zoe\u0308  Smith's in S\u00e3o\u00a0Paulo, 北京!\u200b ADASON\tmet Ｂob\r\n(new york) \u0301"
LONG = "Bob ran from Paris with Zoë Jones " * 9
TEXTS = ["Ada Smith met Bob in Rome.", STRANGE, "", LONG, "한국 x" + "a" * 120, "Li"]
PAIRS = [
    ("which colour", "the box is dark red and the lid is blue here"),
    ("which number", "Zürich 😀😀 東京 naïve cafe\u0301 two Ａ red İzmir 한국 ﬁn " + "x" * 120),
    ("which cafe\u0301 of it 😀", "left of it one and three " * 12 + "cafe\u0301"),
    ("¿", "\u200b"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("runtime_tasks")


@pytest.fixture(scope="module")
def tagging(place):
    task = told_tagger(sequence_length=32)
    return task, export.convert(task, place / "tags.tflite", recipe="float32", lengths=(16, 32)).path


@pytest.fixture(scope="module")
def answering(place):
    task = loud_answerer()
    return task, export.convert(task, place / "answers.tflite", recipe="float32").path


def loud_answerer(**options):
    """Random weights, but answers that differ from question to question."""
    task = new_answerer(**options)
    head = task.model.get_layer("span_classifier")
    head.kernel.assign(np.random.default_rng(2).normal(0, 3, head.kernel.shape))
    return task


def loud_tagger(**options):
    """Random weights, and tags of all kinds."""
    task = new_tagger(sequence_length=32, **options)
    head = task.model.get_layer("token_classifier")
    head.kernel.assign(np.random.default_rng(3).normal(0, 3, head.kernel.shape))
    return task


def assert_same(ours, theirs, atol=1e-4):
    """The same entities or answers at the same places, with about the same probabilities."""
    assert len(ours) == len(theirs)
    for answer, expected in zip(ours, theirs, strict=True):
        parts = [part if isinstance(part, list) else [part] for part in (answer, expected)]
        assert [_place(one) for one in parts[0]] == [_place(one) for one in parts[1]]
        chances = [[one.probability for one in part] for part in parts]
        np.testing.assert_allclose(chances[0], chances[1], atol=atol)


def _place(answer):
    return answer.text, getattr(answer, "label", None), answer.start, answer.end


def changed(path, target, labels=None, **changes):
    """The same file with other settings, as a stranger could write it; keys of metadata where they are some."""
    content = path.read_bytes()
    files = read_files(content, dict.fromkeys(("keras_bert_task.json", "vocab.txt", "labels.txt"), 1 << 20))
    about = json.loads(files["keras_bert_task.json"])
    for name, value in changes.items():
        (about if name in about else about["settings"])[name] = value
    files["keras_bert_task.json"] = json.dumps(about).encode()
    if labels is not None:
        files["labels.txt"] = labels
    target.write_bytes(append_files(content, files))
    return target


# === Tokenizers ===


def test_both_tokenizers_give_the_same_flat_arrays():
    texts = [*TEXTS, *(text for pair in PAIRS for text in pair), "", "[CLS] ½ ß İ \x00 ـ क्षि"]
    for options in ({}, {"lowercase": False, "strip_accents": False, "split_cjk": False}):
        graph = BertTokenizer(VOCABULARY, **options)
        names = {"lowercase": "do_lower_case", "split_cjk": "tokenize_chinese_chars", "strip_accents": "strip_accents"}
        device = DeviceTokenizer(VOCABULARY, {names[name]: value for name, value in options.items()})
        for method in ("tokenize_flat", "tokenize_flat_with_offsets"):
            for ours, theirs in zip(getattr(graph, method)(texts), getattr(device, method)(texts), strict=True):
                np.testing.assert_array_equal(ours, theirs)
    assert (graph.cls_id, graph.sep_id, graph.pad_id) == (device.cls_id, device.sep_id, device.pad_id)
    with pytest.raises(ValueError, match="lone surrogate, '.ud800', at character 2"):
        device.tokenize_flat(["fine", "a \ud800"])
    with pytest.raises(TypeError, match="Got int '5'; expected strings"):
        device.tokenize_flat([5])
    with pytest.raises(ValueError, match="texts have 2 dimensions"):
        graph.tokenize_flat([["a"]])


# === Entities ===


def test_entities_are_those_of_predict(tagging):
    task, path = tagging
    find, expected = load(path), task.predict(TEXTS)
    assert isinstance(find, Tagger) and sum(map(len, expected)) > 20
    assert_same(find(TEXTS), expected)
    assert_same([find(STRANGE)], [task.predict(STRANGE)])
    for entity in find(STRANGE):
        assert STRANGE[entity.start : entity.end] == entity.text
    words = [["Ada", "\x07", "Smith", ""], ["北京"], []]
    assert_same(find(words), task.predict(words))
    assert find([]) == [] and find("") == [] and find([""]) == [[]]
    assert find(TEXTS[0], threshold=1.1) == []
    with pytest.raises(TypeError, match="Got int '5'; expected strings"):
        find([["a", 5]])


def test_a_file_of_integers_and_any_length_names_the_same_entities(tagging, place):
    task, _ = tagging
    artifact = export.convert(task, place / "tags_int8.tflite", recipe="dynamic_int8", lengths="dynamic")
    assert_same(load(artifact.path)(TEXTS), task.predict(TEXTS), atol=0.05)


@pytest.mark.slow
def test_a_crf_and_free_tags_decide_as_in_keras(place):
    task = loud_tagger(head="crf", scheme="BIOES", long_texts="cut")
    task.transitions = np.random.default_rng(1).normal(0, 3, task.transitions.shape).astype("float32")
    path = export.convert(task, place / "crf.tflite", recipe="float32", lengths=32).path
    texts = TEXTS[:2] + TEXTS[4:]
    with_crf = task.predict(texts)
    assert_same(load(path)(texts), with_crf)
    task.constrained = False
    assert_same(load(changed(path, place / "free.tflite", constrained=False))(texts), task.predict(texts))
    assert task.predict(texts) != with_crf  # or the settings would not matter
    with pytest.warns(UserWarning, match="cut"):
        expected = task.predict([LONG])
    assert_same(load(place / "free.tflite")([LONG]), expected)
    cut = {entity.end for entity in expected[0]}
    assert not cut or max(cut) < len(LONG) * 0.8  # what was cut off has no entities


# === Questions ===


def test_answers_are_those_of_predict(answering):
    task, path = answering
    answer, toy = load(path), toys(20, seed=3, words=(8, 60))[0]
    assert isinstance(answer, Answerer)
    assert len({one.text for one in task.predict(toy)}) > 8
    assert_same(answer(toy), task.predict(toy))
    assert_same(answer(PAIRS), task.predict(PAIRS))
    assert_same(answer(PAIRS, n_best=3), task.predict(PAIRS, n_best=3))
    for found, (_, context) in zip(answer(PAIRS), PAIRS, strict=True):
        assert found.text == context[found.start : found.end]
    assert answer(*PAIRS[0]) == answer(PAIRS[0]) == answer(PAIRS[:1])[0] and answer([]) == []
    with pytest.raises(TypeError, match="There is no context"):
        answer("which colour")
    with pytest.raises(ValueError, match="Pair 0: empty context"):
        answer("which colour", " ")
    with pytest.raises(ValueError, match="n_best=0"):
        answer(*PAIRS[0], n_best=0)


def test_no_answer_by_the_threshold_of_the_file(answering, tmp_path):
    task, path = answering
    toy = toys(20, seed=4)[0]
    strict = QuestionAnswerer(task.model, task.tokenizer, sequence_length=24, unanswerable=True)
    strict.no_answer_threshold = -1e9  # no answer is the first of all
    margins = [nothing.score - best.score for nothing, best in strict.predict(toy, n_best=2)]
    strict.no_answer_threshold = float(np.median(margins))
    refusing = load(
        changed(path, tmp_path / "q.tflite", unanswerable=True, no_answer_threshold=strict.no_answer_threshold)
    )
    expected = strict.predict(toy)
    assert 5 < sum(map(bool, expected)) < 15
    assert_same(refusing(toy), expected)
    assert_same(refusing(toy, n_best=2), strict.predict(toy, n_best=2))


@pytest.mark.slow
def test_answers_of_integers_at_any_length_and_of_shorter_rows(answering, place):
    task, _ = answering
    toy = toys(20, seed=5, words=(8, 40))[0]
    path = export.convert(task, place / "q_int8.tflite", recipe="dynamic_int8", lengths=None).path
    ours, theirs = load(path)(toy), task.predict(toy)
    assert np.mean([_place(one) == _place(other) for one, other in zip(ours, theirs, strict=True)]) >= 0.9
    # Rows shorter than the task's: the windows overlap still, as those of a task that was made for this length.
    short = QuestionAnswerer(task.model, task.tokenizer, sequence_length=24, max_question_length=4, stride=16)
    path = export.convert(short, place / "q_short.tflite", recipe="float32", lengths=16).path
    made = QuestionAnswerer(task.model, task.tokenizer, sequence_length=16, max_question_length=4, stride=4)
    assert_same(load(path)(toy), made.predict(toy))
    report = verify(short, path, *toys(20, seed=6))
    assert report.relative_error < 1e-5 and report.agreement == 1.0
    with pytest.raises(ValueError, match="Rows have 12 tokens, and max_question_length=10; expected at least 14"):
        export.convert(task, place / "q_none.tflite", lengths=12)


def test_the_question_can_be_no_answer_of_the_graph(answering):
    """The Task Library looks at the best tokens of all, so what no answer can be must not be among them."""
    task, path = answering
    data = task_reader(task, 24).prepare(PAIRS)
    outputs = load(path).outputs(data.tokenized)
    _, splits, second_begins = data.tokenized.packed()
    for begin, second in zip(splits[:-1], second_begins, strict=True):
        for values in outputs.values():
            assert values[begin + 1 : begin + second].max() < -60 < values[begin]


# === A file on its own ===


def test_nothing_of_tensorflow_or_keras_is_loaded(tagging, answering):
    code = (
        "import sys; from export.runtime import load;"
        f"print(len(load({str(tagging[1])!r})('Ada met Bob')), load({str(answering[1])!r})('which', 'a red box').text);"
        "print([m for m in ('tensorflow', 'keras', 'jax', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    first, last = done.stdout.splitlines()[-2:]
    assert first.startswith("2 ") and last == "[]"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scheme": 5}, "Got scheme=5; expected one of 'BIO', 'BIOES', 'IOB1'"),
        ({"scheme": ["BIO"]}, r"scheme=\['BIO'\]; expected one of"),
        ({"constrained": "yes"}, "constrained='yes'; expected true or false"),
        ({"splitting": "lines"}, "splitting='lines'; expected one of 'auto', 'words'"),
        ({"head": "crf"}, "transitions=None; expected a list of 6"),
        ({"head": "crf", "transitions": [[0.0] * 5] * 5}, "transitions=.*; expected a list of 6"),
        ({"head": "crf", "transitions": [[0.0] * 4 + ["x"]] * 6}, "each member a number"),
        ({"head": "crf", "transitions": [[0.0] * 4 + [10**400]] * 6}, "each member a number that float32 holds"),
        ({"head": "crf", "transitions": [[0.0] * 4 + [1e39]] * 6}, "each member a number that float32 holds"),
        ({"head": "crf", "transitions": [[float("nan")] * 5] * 6}, "each member a number"),
        ({"long_texts": 3}, "long_texts=3; expected one of None, 'cut', 'windows'"),
        ({"sequence_length": True}, "sequence_length=True; expected a number of tokens"),
        ({"labels": b"O\nB-PER\nI-PER\nperson\nI-LOC\n"}, "labels.*expected tags of words"),
        ({"labels": b"O\nB-PER\nI-PER\n"}, "numbers for 3 labels in token_logits"),
        ({"outputs": ["probabilities"]}, "do not go together"),
        ({"task": "question_answering"}, "stride=None; expected a whole number"),
        ({"task": "classification", "kind": "single_label", "outputs": ["probabilities"]}, "needs probabilities"),
    ],
)
def test_a_tagger_that_does_not_say_the_truth(tagging, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        load(changed(tagging[1], tmp_path / "lies.tflite", **changes))("Ada met Bob")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stride": 0}, "stride=0; expected a whole number from 1"),
        ({"stride": 1.5}, "stride=1.5; expected a whole number from 1"),
        ({"max_question_length": "10"}, "max_question_length='10'; expected a whole number"),
        ({"max_question_length": 21}, "Rows have 24 tokens, and max_question_length=21"),
        ({"max_answer_length": None}, "max_answer_length=None; expected"),
        ({"unanswerable": 1}, "unanswerable=1; expected true or false"),
        ({"no_answer_threshold": float("nan")}, "no_answer_threshold=nan; expected a number"),
        ({"no_answer_threshold": "0"}, "no_answer_threshold='0'; expected a number"),
        ({"task": "tagging"}, "scheme=None; expected one of"),
    ],
)
def test_an_answerer_that_does_not_say_the_truth(answering, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        load(changed(answering[1], tmp_path / "lies.tflite", **changes))("which", "a red box")


def test_each_runtime_opens_its_own_files(tagging):
    with pytest.raises(ValueError, match="is for the task 'tagging', not 'classification'; open it with load"):
        Classifier(tagging[1])


# === Verification ===


def test_verification_measures_what_the_task_measures(tagging, answering):
    task, path = tagging
    words, tags = sentences(30, seed=7)
    report = verify(task, path, words, tags).check()
    assert report.metric == "f1" and report.agreement == 1.0 and report.relative_error < 1e-5
    assert report.keras_score == report.file_score == task.evaluate(words, tags).f1 > 0.9
    plain = verify(task, path, TEXTS)
    assert plain.metric is None and plain.examples == len(TEXTS) and plain.tokens_differ == 0

    task, path = answering
    pairs, answers = toys(20, seed=8)
    report = verify(task, path, pairs, answers).check()
    assert report.metric == "f1" and report.agreement == 1.0 and report.ops.partitions == {"length_24": 1}
    assert report.keras_score == report.file_score == pytest.approx(task.evaluate(pairs, answers).f1)
    assert verify(task, path, PAIRS).metric is None


def test_verification_sees_a_changed_task(tagging, answering):
    other = told_tagger(sequence_length=32)
    head = other.model.get_layer("token_classifier")
    head.kernel.assign(-head.kernel.numpy())
    report = verify(other, tagging[1], *sentences(30, seed=7))
    assert report.agreement < 0.5
    with pytest.raises(VerificationError, match="outputs differ"):
        report.check()
    other = new_tagger(sequence_length=32, constrained=False)
    with pytest.raises(ValueError, match="has another constrained than the task"):
        verify(other, tagging[1], TEXTS)
    task = loud_answerer()
    task.no_answer_threshold = 1.0
    with pytest.raises(ValueError, match="has another no_answer_threshold than the task"):
        verify(task, answering[1], PAIRS)


def test_what_can_be_read(tagging, answering, tmp_path):
    task = tagging[0]
    assert read_examples(task).labelled is None and len(read_examples(answering[0]).inputs) > 5
    (tmp_path / "dev.conll").write_text("Ada B-PER\nran O\n\nRome B-LOC\n", encoding="utf-8")
    examples = read_examples(task, tmp_path / "dev.conll")
    assert examples.inputs == [["Ada", "ran"], ["Rome"]] and task.evaluate(examples.labelled).f1 == 1.0
    assert read_examples(task, ["Ada ran"], [[(0, 3, "PER")]]).labelled is not None
    line = json.dumps({"question": "which", "context": "a red box", "answers": ["red"]})
    (tmp_path / "dev.jsonl").write_text(line, encoding="utf-8")
    for form in (tmp_path / "dev.jsonl", [str(tmp_path / "dev.jsonl")]):
        examples = read_examples(answering[0], form)
        assert examples.inputs == [("which", "a red box")] and examples.labelled[0].texts == ("red",)
    with pytest.raises(ValueError, match="columns"):
        read_examples(answering[0], PAIRS, text=1)


def test_golden_tokens_outputs_and_answers(tagging, answering, tmp_path):
    write_golden(tagging[1], ["Ada Smith ran", "Bob ran " * 20], tmp_path / "golden.json")
    first, *windows = json.loads((tmp_path / "golden.json").read_text(encoding="utf-8"))
    assert [one["text"] for one in first["answer"]] == ["Ada Smith"] and len(first["token_ids"]) == 5
    assert np.shape(first["outputs"]["token_logits"]) == (5, 5) and len(windows) == 2
    assert len(windows[0]["outputs"]["token_logits"]) == len(windows[0]["token_ids"]) == 32

    write_golden(answering[1], PAIRS, tmp_path / "golden.json")
    first, *_ = json.loads((tmp_path / "golden.json").read_text(encoding="utf-8"))
    assert first["text"] == list(PAIRS[0]) and first["answer"]["text"] in PAIRS[0][1]
    assert len(first["outputs"]["start_logits"]) == len(first["token_ids"])
    report = benchmark(answering[1], repeats=2)
    assert [row.length for row in report.latencies] == [24]


# === Calibration ===


def test_texts_to_calibrate_with_come_in_any_form(tagging, answering):
    task = tagging[0]
    texts = ["Ada met Bob", "Rome", "in Paris"]
    lists = calibration_rows(task, texts, 16)
    dataset = tf.data.Dataset.from_tensor_slices(texts)
    labelled = tf.data.Dataset.from_tensor_slices((texts, [0, 1, 0]))
    for form in (tuple(texts), dataset, dataset.batch(2), labelled.repeat().take(3), (text for text in texts)):
        assert_same_rows(calibration_rows(task, form, 16), lists)
    assert len(calibration_rows(task, dataset.repeat(), 16)) == 256  # a dataset without end
    assert_same_rows(calibration_rows(task, lists, 16), lists)  # model inputs stay as they are
    assert [row["token_ids"].shape for row in calibration_rows(task, ["Ada met Bob " * 9], 16)] == [
        (1, 16),
        (1, 16),
        (1, 13),
    ]

    task, pairs = answering[0], toys(3, seed=9)
    expected = calibration_rows(task, pairs[0], 24)
    questions = tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*pairs[0], strict=True))))
    assert_same_rows(calibration_rows(task, questions, 24), expected)
    assert expected[0]["segment_ids"].max() == 1
    with pytest.raises(ValueError, match="a model has no tokenizer"):
        calibration_rows(task.model, dataset, 16)


def assert_same_rows(rows, expected):
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected, strict=True):
        for name in other:
            np.testing.assert_array_equal(row[name], other[name])


# === Commands ===


def test_the_commands_export_and_verify_a_tagger(tagging, tmp_path, capsys):
    tagging[0].save(tmp_path / "task")
    words, tags = sentences(12, seed=7)
    lines = ["\n".join(map("\t".join, zip(*both, strict=True))) for both in zip(words, tags, strict=True)]
    (tmp_path / "dev.conll").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "texts.txt").write_text("Ada met\tBob\nRome\n", encoding="utf-8")
    out, data = tmp_path / "out", ["--data", str(tmp_path / "dev.conll")]
    calibration = ["--recipe", "static_int8", "--calibration", str(tmp_path / "dev.conll")]
    assert main(["export", str(tmp_path / "task"), str(out), *calibration, *data, "--debug"]) == 0
    assert "f1              Keras" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {"model.tflite", "report.json", "golden.json"}
    files = [str(tmp_path / "task"), str(out / "model.tflite")]
    for name in ("dev.conll", "texts.txt"):
        assert main(["verify", *files, "--data", str(tmp_path / name), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["length"] == 32


@pytest.mark.slow
def test_the_commands_export_and_verify_an_answerer(answering, tmp_path, capsys):
    answering[0].save(tmp_path / "task")
    (tmp_path / "ask.txt").write_text("\n".join("\t".join(pair) for pair in PAIRS[:2]), encoding="utf-8")
    rows = [{"question": q, "context": c, "answers": [a[0]]} for (q, c), a in zip(*toys(9, seed=7), strict=True)]
    (tmp_path / "dev.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    out = tmp_path / "out"
    command = ["export", str(tmp_path / "task"), str(out), "--recipe", "float32", "--data", str(tmp_path / "dev.jsonl")]
    assert main([*command, "--debug"]) == 0
    assert "agreement       100.00%" in capsys.readouterr().out
    files = [str(tmp_path / "task"), str(out / "model.tflite")]
    assert main(["verify", *files, "--data", str(tmp_path / "ask.txt"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["examples"] == 2
    (tmp_path / "mixed.txt").write_text("which\ta red box\nwhich\n", encoding="utf-8")
    assert main(["verify", *files, "--data", str(tmp_path / "mixed.txt")]) == 1
    assert "a tab in some lines" in capsys.readouterr().err


def test_settings_are_those_of_the_task(tagging, answering):
    for task, path in (tagging, answering):
        settings = load(path).metadata.settings
        assert settings == {**json.loads(json.dumps(task_settings(task))), "recipe": "float32"}
    assert set(QUESTION_VOCABULARY) <= set(load(answering[1]).metadata.vocabulary)
