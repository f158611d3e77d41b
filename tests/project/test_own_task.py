"""A task in one file, `helpers/toy_task.py`, goes wherever the library's own tasks go, without an edit elsewhere."""

import ast
import html
import json
import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from own_registries import own_registries
from places import ROOT

import export
import keras_bert
from keras_bert.cli import main

FILE = ROOT / "tests/helpers/toy_task.py"
WORDS = ["the", "a", "dog", "cat", "bird", "old", "very", "and", "it"]
VERBS, ENDINGS = ["bark", "sing", "jump", "eat"], ["", "s", "ing"]
UNUSED = [f"unused{number}" for number in range(1000)]  # what trimming takes away
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *VERBS, "##s", "##ing", *UNUSED]
CONFIG = keras_bert.BertConfig(
    vocabulary_size=len(VOCABULARY),
    num_layers=1,
    num_heads=2,
    hidden_dim=16,
    intermediate_dim=32,
    max_sequence_length=32,
    initializer_range=0.2,
)
LONG = "a dog sing " * 20  # of its 60 tokens the model reads 30
RECIPE = {"learning_rate": 1e-2, "epochs": 8, "batch_size": 16}


@pytest.fixture(scope="module", autouse=True)
def toy():
    """The file, imported as a user would; what it registers is forgotten afterwards."""
    with own_registries("toy_task"):
        yield import_module("toy_task")


def marked_lines(count, *, seed):
    """Texts of 2 to 8 words with the verbs between asterisks."""
    random = np.random.default_rng(seed)

    def word():
        if random.random() < 0.4:
            return f"*{random.choice(VERBS)}{random.choice(ENDINGS)}*"
        return str(random.choice(WORDS))

    return [" ".join(word() for _ in range(random.integers(2, 9))) for _ in range(count)]


@pytest.fixture(scope="module")
def made(tmp_path_factory, toy):
    """A pretrained directory, files with data, and one fitted task."""
    place = tmp_path_factory.mktemp("verbs")
    encoder = keras_bert.bert_encoder(CONFIG, seed=3)
    keras_bert.save_pretrained(encoder, place / "bert", tokenizer=keras_bert.BertTokenizer(VOCABULARY))
    for name, seed in (("train", 1), ("test", 2)):
        (place / f"{name}.marked").write_text("\n".join(marked_lines(64, seed=seed)), encoding="utf-8")
    task = toy.VerbCounter.from_pretrained(place / "bert", sequence_length=32, threshold=0.4)
    before = task.evaluate(place / "test.marked").accuracy
    seen = []
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(dict(logs)))
    report = task.fit(place / "train.marked", validation_split=0.25, callbacks=[callback], verbose=0, **RECIPE)
    test = toy.read_marked(place / "test.marked")
    texts, counts = [row.text for row in test], [len(row.verbs) for row in test]
    return SimpleNamespace(place=place, task=task, before=before, report=report, seen=seen, texts=texts, counts=counts)


@pytest.fixture(scope="module")
def saved(made):
    """The directory of the fitted task."""
    made.task.save(made.place / "saved")
    return made.place / "saved"


@pytest.fixture(scope="module")
def artifact(made):
    """The file of the fitted task."""
    return export.convert(made.task, made.place / "verbs.tflite")


# === The file ===


def test_it_needs_public_names_alone():
    tree = ast.parse(FILE.read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported == {"export", "keras", "keras_bert", "numpy", "tensorflow"}
    taken = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert taken == {"collections.abc", "dataclasses", "pathlib"}
    public = {"keras_bert": keras_bert, "export": export}
    used = [
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in public
    ]
    assert len(used) > 10 and all(name in public[package].__all__ for package, name in used)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    private = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.startswith("_")}
    assert private <= own | {"__init__"}


def test_marked_texts(toy):
    assert toy.mark("*eat* a dog and *sings*") == toy.MarkedText("eat a dog and sings", (0, 14))
    with pytest.raises(ValueError, match="asterisk without its second"):
        toy.mark("the dog *barks")


# === Keras ===


def test_it_learns(made):
    assert made.before < 0.5 and made.report.score == 1.0
    assert made.task.evaluate(made.place / "test.marked").accuracy == 1.0
    assert made.task.predict(made.texts) == made.counts and len(set(made.counts)) > 3
    assert made.task.predict("it sings") == 1 and made.task.predict([]) == []


def test_callbacks_see_the_metric(made):
    assert len(made.seen) == len(made.report.history["val_accuracy"]) > 1
    assert [logs["val_accuracy"] for logs in made.seen] == made.report.history["val_accuracy"]
    assert made.seen[-1]["val_loss"] < made.seen[0]["val_loss"]


def test_a_share_is_held_out(made):
    assert made.report.metric == "accuracy"  # and not that of the training data
    train, validation = made.task.prepare(made.place / "train.marked", None).split(0.25)
    assert (train.num_examples, validation.num_examples) == (48, 16)


def test_its_metrics(made):
    data = made.task.prepare(["the dog barks", "it sings and jumps"], [(), (3, 13)])  # the first label is wrong
    outputs = made.task.outputs(data.tokenized)
    assert made.task.score(outputs, data, "accuracy").value == 0.5
    assert made.task.score(outputs, data, "negative_mean_absolute_error").value == -0.5
    with pytest.raises(ValueError, match="'f1' is unknown for counts"):
        made.task.fit(made.place / "train.marked", metric="f1", verbose=0)


def test_saved_and_loaded(made, saved, toy):
    again = keras_bert.load_task(saved)
    assert type(again) is toy.VerbCounter and (again.threshold, again.sequence_length) == (0.4, 32)
    assert again.predict(made.texts) == made.counts
    assert again.find(["the dog barks and it sings"]) == [(8, 21)]


# === The command line ===


def test_commands(made, capsys):
    place, model = made.place, made.place / "by_command"
    flags = ["--model", place / "bert", "--epochs", 8, "--learning-rate", 0.01, "--batch-size", 16, "--threshold", 0.6]
    assert _run("finetune", place / "train.marked", model, "--task", "verbs", *flags) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["examples"] == 58 and done["accuracy"] > 0.5  # without --validation a tenth is held out
    assert keras_bert.load_task(model).threshold == 0.6
    assert _run("evaluate", model, place / "test.marked") == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["count"] == 64 and numbers["accuracy"] > 0.9 and numbers["mean_absolute_error"] < 0.1
    assert _run("finetune", place / "train.marked", place / "other", "--task", "verbs", "--head", "crf") == 1
    assert "--head is for --task tagging, not for verbs" in capsys.readouterr().err


def _run(*words):
    return main([*map(str, words), "--json"])


@pytest.mark.slow
def test_a_command_that_imports_the_file(made, saved):
    command = [sys.executable, "-m", "keras_bert.cli", "--import", FILE, "predict", saved, "the dog barks and it sings"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("  ")[-1].strip() == "2 verbs"


# === Files ===


def test_the_file_gives_the_same_answers(made, artifact):
    count = export.load(artifact.path)
    assert artifact.lengths == (32,)
    assert count(made.texts) == made.counts and count("it sings") == 1
    assert count(LONG) == made.task.predict(LONG) == made.task.predict(LONG[: len(LONG) // 2]) > 5
    metadata = export.read_metadata(artifact.path)
    assert metadata.task == "verbs" and metadata.outputs == ("verb_logits",) and metadata.settings["threshold"] == 0.4


def test_the_file_is_verified(made, artifact, toy):
    report = export.verify(made.task, artifact, made.place / "test.marked").check()
    assert (report.metric, report.keras_score, report.file_score, report.agreement) == ("accuracy", 1.0, 1.0, 1.0)
    assert report.tokens_differ == 0 and 0 < report.relative_error < 0.05
    wrong = [toy.MarkedText(text, ()) for text in made.texts]
    assert export.verify(made.task, artifact, wrong).file_score == np.mean(np.array(made.counts) == 0)
    other = toy.VerbCounter(made.task.model, made.task.tokenizer, sequence_length=32, threshold=0.5)
    with pytest.raises(ValueError, match="has another threshold than the task"):
        export.verify(other, artifact, made.texts)


def test_settings_of_a_file_are_checked(made):
    broken = made.task.on_encoder(CONFIG)
    broken.threshold = 2.0
    with pytest.raises(ValueError, match=r"threshold=2\.0; expected between 0 and 1"):
        export.convert(broken, made.place / "broken.tflite")
    assert not (made.place / "broken.tflite").exists()


# === Servers ===


def test_the_saved_model_counts(made):
    import tensorflow as tf

    served = export.save_serving(made.task, made.place / "serving")
    loaded = tf.saved_model.load(str(served.path))
    answers = loaded.signatures["serving_default"](text=tf.constant([*made.texts, LONG]))
    assert answers["verbs"].numpy().tolist() == [*made.counts, made.task.predict(LONG)]
    assert answers["truncated"].numpy().tolist() == [False] * 64 + [True]
    report = export.verify(made.task, served.path, made.texts).check()
    assert report.recipe == "saved_model" and report.agreement == 1.0
    assert "`verbs` counts." in (served.path / "README.md").read_text(encoding="utf-8")


# === Smaller ===


@pytest.mark.slow
def test_a_student_learns_from_texts_without_labels(made):
    student = made.task.on_encoder(CONFIG.replace(initializer_range=0.2), seed=5)
    before = student.evaluate(made.place / "test.marked").accuracy
    texts = [line.replace("*", "") for line in marked_lines(64, seed=4)]
    export.distill(made.task, student, texts, label_weight=0, verbose=0, **RECIPE)
    assert before < 0.5 < 0.9 < student.evaluate(made.place / "test.marked").accuracy


@pytest.mark.slow
def test_it_is_deployed(made):
    fewer = export.ModelPlan(name="fewer tokens", stage="trim", trim=1)
    candidates = [export.Candidate(recipe="dynamic_int8"), export.Candidate(recipe="dynamic_int8", model=fewer)]
    data = [made.place / f"{name}.marked" for name in ("train", "test")]
    result = export.deploy(made.task, made.place / "out", *data, 0.1, candidates=candidates, verbose=0)
    assert result.is_kept and result.metric == "accuracy" and result.teacher_score == 1.0
    assert [trial.score for trial in result.trials] == [1.0, 1.0]
    assert result.chosen.model == "fewer tokens" and result.interval.difference == 0.0
    assert export.load(result.directory)(made.texts) == made.counts
    assert keras_bert.load_task(result.directory / "keras").predict(made.texts) == made.counts
    report = html.unescape((result.directory / "report.html").read_text(encoding="utf-8"))
    for words in (
        "import toy_task  # which registers the task 'verbs'",
        'answer("the dog barks")',
        'VerbCounter.load("keras")',
    ):
        assert words in report, words
    assert (result.directory / "saved_model").is_dir() and (result.directory / "golden.json").is_file()
