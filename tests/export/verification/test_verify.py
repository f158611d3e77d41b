"""Verification finds what is wrong with a file, and nothing where nothing is; the benchmark; the commands."""

import dataclasses
import json

import numpy as np
import pytest
from tiny_tasks import reviews

import export
import export.tflite.conversion
from export.deployment.packages import write_golden, write_package
from export.file.contents import parse, serialize
from export.recipes import RECIPES, Recipe
from export.verification.latency import benchmark
from export.verification.parity import VerificationError, verify
from keras_bert.cli import main
from tests.export.runtime.test_runtime import TEXTS, new_classifier

DATA, CLASSES = reviews(60, seed=4)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    task = new_classifier()
    return task, export.convert(task, tmp_path_factory.mktemp("verify") / "model.tflite", recipe="float32", lengths=32)


def test_a_good_file_passes(exported):
    task, artifact = exported
    report = verify(task, artifact, DATA, CLASSES)
    assert report.check() is report
    assert report.relative_error < 1e-5 and report.agreement == 1.0 and report.tokens_differ == 0
    assert report.keras_score == report.file_score == task.evaluate(DATA, CLASSES).accuracy
    assert report.ops.partitions == {"length_32": 1}
    assert "Keras" in str(report) and json.dumps(report.to_dict())


@pytest.mark.parametrize(
    ("of", "words"),
    [
        ("same answers", "99.50% of the answers are the same"),
        ("same tokens", "99.50% of the tokens are the same"),
        ("mean cosine", "the mean cosine of the answers is 0.9950"),
        ("correlation", "the correlation of the answers is 0.9950"),
    ],
)
def test_what_agrees_is_called_by_its_name(exported, of, words):
    report = verify(*exported, TEXTS)
    assert report.agreement_of == "same answers"
    assert words in str(dataclasses.replace(report, agreement=0.995, agreement_of=of))


def test_without_labels_there_is_no_score(exported):
    report = verify(*exported, TEXTS)
    assert report.metric is None and report.examples == len(TEXTS) - 1  # an empty text is left out


def test_another_models_file_fails(exported):
    _, artifact = exported
    other = new_classifier()
    other.model.get_layer("classifier").kernel.assign(-other.model.get_layer("classifier").kernel.numpy())
    report = verify(other, artifact, DATA, CLASSES)
    assert report.agreement < 0.9
    with pytest.raises(VerificationError, match="outputs differ"):
        report.check()


def test_each_reason_is_named(exported):
    report = verify(*exported, DATA, CLASSES)
    worse = dataclasses.replace(report, file_score=report.keras_score - 0.5)
    with pytest.raises(VerificationError, match="accuracy falls"):
        worse.check()
    with pytest.raises(VerificationError, match="3 texts are split"):
        dataclasses.replace(report, tokens_differ=3).check()
    with pytest.raises(VerificationError, match="FlexErf"):
        dataclasses.replace(report, ops=dataclasses.replace(report.ops, custom_ops=("FlexErf",))).check()
    with pytest.raises(VerificationError, match=r"only 90\.00%"):
        dataclasses.replace(report, keras_score=None, file_score=None, agreement=0.9).check()
    one_answer = dataclasses.replace(report, file_score=report.keras_score - 1 / report.examples)
    assert one_answer.check()


def test_a_shorter_file_shows_what_the_cut_costs(exported, tmp_path):
    task, _ = exported
    short = export.convert(task, tmp_path / "short.tflite", recipe="float32", lengths=4)
    report = verify(task, short, DATA, CLASSES)
    assert report.length == 4 and report.relative_error < 1e-5
    assert report.file_score != report.keras_score


def test_other_labels_are_refused(exported):
    task = new_classifier()
    task._labels = ["x", "y", "z"]
    with pytest.raises(ValueError, match="other labels"):
        verify(task, exported[1], TEXTS)


def test_golden_answers_are_what_the_file_gives(exported, tmp_path):
    task, artifact = exported
    write_golden(artifact, ["the film was great", ("a film", "a plot")], tmp_path / "golden.json")
    single, pair = json.loads((tmp_path / "golden.json").read_text())
    assert task.tokenizer.vocabulary[single["token_ids"][1]] == "the" and len(single["token_ids"]) == 6
    assert len(pair["token_ids"]) == 7 and pair["segment_ids"] == [0, 0, 0, 0, 1, 1, 1]
    expected = {label.name: label.probability for label in task.predict("the film was great")}
    np.testing.assert_allclose(single["outputs"]["probabilities"], [expected[name] for name in task.labels], atol=1e-5)


def test_benchmark_measures_every_length(exported):
    report = benchmark(exported[1], lengths=[4, 32], repeats=5)
    assert [row.length for row in report.latencies] == [4, 32]
    assert all(0 < row.minimum <= row.p50 <= row.p90 for row in report.latencies)
    assert report.num_bytes == exported[1].num_bytes and 10 < report.peak_mb < 2000
    assert 0 < report.load_ms < report.start_ms
    assert "p90 ms" in str(report)
    with pytest.raises(RuntimeError, match="3 to 32"):
        benchmark(exported[1], lengths=[64])


def test_a_package_is_verified_before_it_counts(tmp_path):
    task = new_classifier()
    package = write_package(task, tmp_path, recipe="dynamic_int8", lengths=(8, 32), data=None)
    assert {path.name for path in tmp_path.iterdir()} == {"model.tflite", "report.json", "golden.json"}
    assert json.loads((tmp_path / "report.json").read_text())["agreement"] == package.report.agreement


def test_convert_writes_nothing_that_differs_from_its_model(exported, tmp_path, monkeypatch):
    task, _ = exported
    path = tmp_path / "model.tflite"
    strict = dataclasses.replace(RECIPES["dynamic_int8"], tolerance=1e-9)
    for converted in (task, task.model):
        with pytest.raises(VerificationError, match=r"signature 'length_\d+' differ by .*, expected at most 1e-09"):
            export.convert(converted, path, recipe=strict, lengths=(8, 16))
    intact = export.tflite.float_graph.float_file
    monkeypatch.setattr(export.tflite.conversion, "float_file", lambda *request: damage(intact(*request)))
    with pytest.raises(VerificationError, match="The file by float32 would differ too much from its model"):
        export.convert(task, path, recipe="float32", lengths=8)
    assert list(tmp_path.iterdir()) == []
    assert export.convert(task, path, recipe="float32", lengths=8, check=False).path == path


def damage(content):
    """Change the largest constant by a little."""
    file = parse(content)
    largest = max((one for one in file.buffers if one.data is not None), key=lambda one: len(one.data))
    largest.data = (np.frombuffer(largest.data.tobytes(), np.float32) * 1.01).view(np.uint8)
    return serialize(file)


def test_a_device_that_reads_otherwise_is_an_error(exported, tmp_path, monkeypatch):
    describe = export.tflite.conversion.describe_task
    other = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": False}
    monkeypatch.setattr(export.tflite.conversion, "describe_task", lambda task: describe(task) | {"tokenizer": other})
    with pytest.raises(VerificationError, match="into other tokens"):
        export.convert(exported[0], tmp_path / "model.tflite", recipe="float32", lengths=8)


def test_a_recipe_of_ones_own_has_its_own_tolerance(tmp_path):
    coarse = Recipe("coarse", weights="int8", activations="dynamic", tolerance=1e-9)
    with pytest.raises(VerificationError, match="coarse.*expected at most 1e-09"):
        write_package(new_classifier(), tmp_path, recipe=coarse, lengths=8)


@pytest.mark.slow
def test_a_package_that_fails_leaves_the_one_before(tmp_path):
    task = new_classifier()
    write_package(task, tmp_path, recipe="float32", lengths=8)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    strict = dataclasses.replace(RECIPES["dynamic_int8"], tolerance=1e-9)
    with pytest.raises(VerificationError, match="outputs differ"):
        write_package(task, tmp_path, recipe=strict, lengths=8)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_commands(tmp_path, capsys):
    task = new_classifier()
    task.save(tmp_path / "task")
    lines = [f"{text}\t{label}" for text, label in zip(DATA, CLASSES, strict=True)]
    data = tmp_path / "dev.tsv"
    data.write_text("\n".join(["sentence\tlabel", *lines]) + "\n", encoding="utf-8")
    out = tmp_path / "out"
    command = [
        "export",
        str(tmp_path / "task"),
        str(out),
        "--lengths",
        "8,32",
        "--recipe",
        "float32",
        "--data",
        str(data),
        "--text",
        "sentence",
    ]
    assert main([*command, "--debug"]) == 0
    assert "agreement       100.00%" in capsys.readouterr().out
    files = [str(tmp_path / "task"), str(out / "model.tflite")]
    assert main(["verify", *files, "--data", str(data), "--text", "sentence", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agreement"] == 1.0
    assert main(["benchmark", str(out / "model.tflite"), "--repeats", "2", "--json"]) == 0
    assert [row["length"] for row in json.loads(capsys.readouterr().out)["latencies"]] == [8, 32]
    assert main(["benchmark", str(out / "model.tflite"), "--lengths", "short"]) == 1
    assert "--lengths 'short'; expected numbers" in capsys.readouterr().err
    assert main([*command[:3], "--format", "onnx"]) == 1
    assert "onnx" in capsys.readouterr().err
    assert main([*command[:3], "--recipe", "static_int8"]) == 1
    assert "calibration" in capsys.readouterr().err
