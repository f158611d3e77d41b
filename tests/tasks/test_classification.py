"""Text in, labels out: the same face for one label, several, pairs and numbers, and the same answers after saving."""

import json

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import f1_score
from tiny_tasks import VOCABULARY, pretrained_directory, reviews

import keras_bert
from keras_bert.data.examples import Example
from keras_bert.data.inputs import as_rows
from keras_bert.tasks.base.class_labels import find_class
from keras_bert.tasks.base.fitting import packs_rows
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.text.packing import pack

FAST = {"learning_rate": 2e-3, "epochs": 12, "batch_size": 16, "patience": None, "evaluations": 3, "verbose": 0}
LABELS = ["bad", "good"]


def new_classifier(**options):
    options = {"labels": LABELS, **options}
    return TextClassifier.from_pretrained(pretrained_directory(), **options)


@pytest.fixture(scope="module")
def trained():
    classifier = new_classifier()
    report = classifier.fit(*reviews(192, seed=1), validation_data=reviews(64, seed=2), **FAST)
    return classifier, report


# === Learning ===


def test_it_learns(trained):
    classifier, report = trained
    texts, labels = reviews(64, seed=3)
    answers = [answer[0].name for answer in classifier.predict(texts)]
    assert np.mean(np.array(answers) == labels) > 0.9
    assert report.best.score > 0.9 and "accuracy" in str(report)
    assert classifier.evaluate(texts, labels).accuracy == pytest.approx(np.mean(np.array(answers) == labels))


def test_answers_are_the_models_own(trained):
    classifier, _ = trained
    texts, _ = reviews(20, seed=4)
    logits = classifier.model.predict(pack(classifier.tokenizer, texts), verbose=0)["class_logits"]
    np.testing.assert_allclose(classifier.logits(texts), logits, atol=1e-5)
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    for answer, row in zip(classifier.predict(texts), expected, strict=True):
        assert {label.name: label.probability for label in answer} == pytest.approx(
            dict(zip(LABELS, row, strict=True)), abs=1e-5
        )
        assert answer[0].probability >= answer[1].probability
    assert classifier.predict(texts[0]) == classifier.predict(texts[:1])[0]
    assert classifier.predict([]) == []


def test_saved_and_loaded_it_answers_the_same(trained, tmp_path):
    classifier, _ = trained
    classifier.save(tmp_path / "model")
    texts, _ = reviews(10, seed=5)
    for loaded in (TextClassifier.load(tmp_path / "model"), keras_bert.load_task(tmp_path / "model")):
        assert isinstance(loaded, TextClassifier) and loaded.labels == LABELS
        np.testing.assert_array_equal(loaded.logits(texts), classifier.logits(texts))
    plain, _ = keras_bert.load_model(tmp_path / "model")  # and it is an ordinary model directory
    assert plain.output["class_logits"].shape[-1] == 2


def test_on_several_devices_each_gets_whole_rows():
    """Packed rows cannot be shared out between devices, so they are not packed there."""
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        classifier = new_classifier()
        assert classifier.trains_packed and not packs_rows(classifier)
        report = classifier.fit(*reviews(48, seed=1), epochs=1, batch_size=16, verbose=0)
    assert report.best.steps == 3 and packs_rows(classifier)


def test_plain_keras_after_compile():
    classifier = new_classifier()
    classifier.compile("sgd", metrics=["accuracy"], jit_compile=False)
    history = classifier.fit(*reviews(40, seed=1), validation_data=reviews(16, seed=2), epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2 and "val_accuracy" in history.history
    with pytest.raises(ValueError, match="belong to recipes"):
        classifier.fit(*reviews(8, seed=1), metric="accuracy")
    with pytest.raises(ValueError, match="compiled"):
        classifier.fit(*reviews(8, seed=1), recipe="standard")


def test_several_labels_for_a_text():
    texts, labels = reviews(160, seed=1)
    many = [(label, "long") if len(text.split()) > 7 else (label,) for text, label in zip(texts, labels, strict=True)]
    classifier = new_classifier(labels=["bad", "good", "long"], kind="multi_label")
    report = classifier.fit(texts[:128], many[:128], validation_data=(texts[128:], many[128:]), **FAST)
    assert report.metric == "micro_f1" and report.best.score > 0.8
    answer = classifier.predict(texts[128:], threshold=0.5)
    assert any(len(labels) == 2 for labels in answer)
    assert all(label.probability >= 0.5 for labels in answer for label in labels)


def test_regression():
    texts, _ = reviews(160, seed=1)
    lengths = [len(text.split()) / 4 for text in texts]
    classifier = new_classifier(labels=None, kind="regression")
    report = classifier.fit(texts[:128], lengths[:128], validation_data=(texts[128:], lengths[128:]), **FAST)
    assert report.metric == "spearman" and report.best.score > 0.8
    assert isinstance(classifier.predict(texts[0]), float)


def test_pairs_are_packed_as_pairs():
    classifier = new_classifier()
    pairs = [("a good film", "the plot"), ("dull", "it was bad")]
    packed = pack(classifier.tokenizer, [a for a, _ in pairs], [b for _, b in pairs])
    np.testing.assert_allclose(classifier.logits(pairs), classifier.model(packed)["class_logits"], atol=1e-5)
    classifier.fit(pairs * 8, ["good", "bad"] * 8, epochs=1, verbose=0)


def pair_rows(count=16):
    pairs = [("a good film", "the plot"), ("dull", "it was bad")] * (count // 2)
    return pairs, LABELS[::-1] * (count // 2)


@pytest.mark.parametrize("kind", ["single_label", pytest.param("regression", marks=pytest.mark.slow)])
def test_a_model_of_pairs_takes_no_single_texts(kind, tmp_path):
    labels = LABELS if kind == "single_label" else None
    pairs, classes = pair_rows()
    targets = classes if labels else [4.5, 1.0] * 8
    classifier = new_classifier(labels=labels, kind=kind)
    assert len(classifier.predict(["a film"])) == len(classifier.predict(pairs[:1])) == 1  # untrained, it takes both
    assert "pairs" not in classifier.settings()
    with pytest.raises(ValueError, match="training data has pairs of texts, the validation data single texts"):
        classifier.fit(pairs, targets, validation_data=(["a good film"], targets[:1]), epochs=1, verbose=0)
    classifier.fit(pairs, targets, epochs=1, verbose=0)
    classifier.save(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "keras_bert_task.json").read_text())["pairs"] is True
    opened = [TextClassifier.load(tmp_path / "model"), TextClassifier.from_pretrained(tmp_path / "model")]
    for model in (classifier, classifier.on_encoder(classifier.config), *opened):
        assert model.kind == kind and len(model.predict(pairs[:2])) == 2
        assert model.evaluate(pairs, targets).count == 16
        for ask in (lambda: model.predict(["a text", "another"]), lambda: model.predict("a text")):  # noqa: B023
            with pytest.raises(ValueError, match=r"single texts.* trained on pairs.*\[\(first, second\), …\]"):
                ask()
        with pytest.raises(ValueError, match="trained on pairs.*columns={'pair': …}"):
            model.evaluate([first for first, _ in pairs], targets)
    fresh = TextClassifier.from_pretrained(tmp_path / "model", labels=["a", "b"])  # with a new head
    assert fresh.pairs is None


def test_a_model_of_single_texts_takes_no_pairs(trained, tmp_path):
    classifier, _ = trained
    with pytest.raises(ValueError, match="pairs of texts.* trained on single texts"):
        classifier.predict([("a good film", "the plot")])
    with pytest.raises(ValueError, match="pairs of texts.* trained on single texts"):
        classifier.evaluate(*pair_rows())
    compiled = new_classifier()
    compiled.compile("sgd", jit_compile=False)
    compiled.fit(*reviews(8, seed=1), verbose=0)
    assert compiled.pairs is False
    classifier.save(tmp_path / "model")
    path = tmp_path / "model" / "keras_bert_task.json"
    settings = json.loads(path.read_text())
    assert settings.pop("pairs") is False
    path.write_text(json.dumps(settings))  # as it was before they were remembered
    assert len(TextClassifier.load(tmp_path / "model").predict([("a good film", "the plot")])) == 1


# === Metrics ===


def test_f1_is_that_of_the_second_class(trained):
    classifier, _ = trained
    texts, labels = reviews(64, seed=6)
    labels[::3] = ["good"] * len(labels[::3])
    data = classifier.prepare(texts, labels)
    found = [answer[0].name for answer in classifier.predict(texts)]
    score = classifier.score(classifier.outputs(data.tokenized), data, "f1")
    assert score.value == pytest.approx(f1_score(labels, found, pos_label="good"))
    assert score.value != pytest.approx(f1_score(labels, found, pos_label="bad"))
    report = new_classifier().fit(texts, labels, validation_data=(texts, labels), metric="f1", epochs=1, verbose=0)
    assert report.metric == "f1" and "val_f1" in report.history


# === Kinds, as transformers says them ===


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("single_label", "single_label_classification"),
        ("multi_label", "multi_label_classification"),
        ("regression", "regression"),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_the_kind_stands_in_the_config(kind, said, own, tmp_path):
    transformers = pytest.importorskip("transformers")
    classifier = new_classifier(labels=None if kind == "regression" else ["a", "b", "c"], kind=kind)
    classifier.save(tmp_path / "model")
    assert transformers.AutoConfig.from_pretrained(tmp_path / "model").problem_type == said
    if not own:
        (tmp_path / "model" / "keras_bert_task.json").unlink()
    opened = TextClassifier.from_pretrained(tmp_path / "model")
    assert opened.kind == kind and opened.labels == classifier.labels and not opened.fresh_heads
    np.testing.assert_array_equal(opened.logits(["a good film"]), classifier.logits(["a good film"]))
    again = TextClassifier.from_pretrained(tmp_path / "model", labels=["x", "y"])  # a new head is another problem
    assert again.kind == "single_label" and again.fresh_heads
    if kind != "regression":
        other = {"single_label": "multi_label", "multi_label": "single_label"}[kind]
        assert TextClassifier.from_pretrained(tmp_path / "model", kind=other).kind == other


@pytest.mark.parametrize("said", ["ranking", 3, ["regression"], None])
def test_an_unknown_kind_in_a_config_is_ignored(said, tmp_path):
    new_classifier(kind="multi_label").save(tmp_path / "model")
    (tmp_path / "model" / "keras_bert_task.json").unlink()
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "problem_type": said}))
    assert TextClassifier.from_pretrained(tmp_path / "model").kind == "single_label"


def test_a_kind_without_a_classifier_is_named(tmp_path):
    encoder, tokenizer = keras_bert.load_encoder(pretrained_directory())
    keras_bert.save_pretrained(encoder, tmp_path / "model", tokenizer=tokenizer)
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "problem_type": "regression"}))
    with pytest.raises(ValueError, match="expected class_logits"):
        TextClassifier.from_pretrained(tmp_path / "model")
    assert TextClassifier.from_pretrained(tmp_path / "model", kind="regression").fresh_heads


def test_class_weights_change_what_is_learned():
    texts, labels = reviews(64, seed=1)
    favoured = new_classifier()
    favoured.fit(texts, labels, class_weight={"bad": 0.0, "good": 1.0}, **{**FAST, "epochs": 2})
    assert {answer[0].name for answer in favoured.predict(texts)} == {"good"}


def test_dropout_of_a_run_leaves_the_model_its_own():
    classifier = new_classifier()
    classifier.fit(*reviews(16, seed=1), dropout=0.3, attention_dropout=0.0, epochs=1, verbose=0)
    assert classifier.config.dropout == 0.0 and classifier.config.attention_dropout == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["few_sample", "frozen", "lora", "bitfit"])
def test_every_recipe_trains(recipe):
    classifier = new_classifier()
    before = classifier.logits(["a good film"])
    options = {"steps": 2, "evaluations": 1, "seeds": (0,), "restarts": 0} if recipe == "few_sample" else {"epochs": 1}
    report = classifier.fit(
        *reviews(32, seed=1), validation_data=reviews(8, seed=2), recipe=recipe, verbose=0, **options
    )
    assert np.abs(classifier.logits(["a good film"]) - before).max() > 1e-5
    assert (report.parameters.trained < report.parameters.total) == (recipe not in ("few_sample",))
    assert not any("lora" in weight.path for weight in classifier.model.weights)


@pytest.mark.slow
def test_few_samples_without_validation_data_give_the_mean_of_all_seeds():
    classifier = new_classifier()
    options = {"steps": 30, "seeds": (0, 1), "learning_rate": 5e-3}
    report = classifier.fit(*reviews(64, seed=1), recipe="few_sample", **options, verbose=0)
    assert len(report.averaged) == 2
    assert set(report.averaged) == {run.seed for run in report.runs if not run.degenerate}
    assert report.metric == "training_accuracy" and "the mean of seeds" in str(report)


# === Long texts ===


@pytest.mark.slow
def test_long_texts_are_cut_and_counted():
    classifier = new_classifier(sequence_length=8)
    report = classifier.fit(["good film " * 10, "bad"] * 4, ["good", "bad"] * 4, epochs=1, verbose=0)
    assert any("4 of 8 texts were cut to 8 tokens" in note for note in report.notes)


@pytest.mark.slow
def test_windows_see_the_whole_text():
    cut, windows = new_classifier(sequence_length=8), new_classifier(sequence_length=8, long_texts="windows")
    tail_a, tail_b = "a the film plot was it is very and it good", "a the film plot was it is very and it bad"
    with pytest.warns(UserWarning, match="2 of 2 texts were cut to 8 tokens"):
        first, second = cut.logits([tail_a, tail_b])
    np.testing.assert_allclose(first, second, atol=1e-6)
    assert not np.allclose(windows.logits([tail_a]), windows.logits([tail_b]))
    words = tail_a.split()
    parts = [" ".join(words[start : start + 6]) for start in (0, 4, 8)]  # 6 words a window, 4 further each
    np.testing.assert_allclose(windows.logits([tail_a])[0], cut.logits(parts).mean(0), atol=1e-5)
    windows.fit([tail_a, tail_b] * 4, ["good", "bad"] * 4, validation_data=([tail_a], ["good"]), epochs=1, verbose=0)


# === What can be handed in ===


def test_forms_of_data_are_the_same_rows(tmp_path):
    texts, labels = reviews(6, seed=1)
    (tmp_path / "data.tsv").write_text(
        "text\tlabel\n" + "".join(f"{t}\t{c}\n" for t, c in zip(texts, labels, strict=True))
    )
    dataset = tf.data.Dataset.from_tensor_slices((texts, labels))
    forms = [
        as_rows(texts, labels),
        as_rows(dataset),
        as_rows(dataset.batch(4)),
        as_rows(tmp_path / "data.tsv"),
        as_rows([Example(text, None, label) for text, label in zip(texts, labels, strict=True)]),
    ]
    for rows in forms:
        assert rows.texts == texts and rows.labels == labels
    pairs = tf.data.Dataset.from_tensor_slices(((texts, texts[::-1]), np.arange(6)))
    assert as_rows(pairs)[0] == Example(texts[0], texts[-1], 0, 1)


def test_numbers_are_classes_where_no_class_has_that_name():
    labels = ["bad", "good"]
    assert find_class(1, labels, "Row 1") == find_class("good", labels, "Row 1") == 1
    assert find_class(1, ["1", "0"], "Row 1") == 0


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (["good"], ["fine"], "unknown label 'fine'"),
        (["good"], [7], "unknown label 7"),
        (["good", "bad"], ["good"], "2 texts and 1 labels"),
        (["good"], None, "no label"),
        (["good", "fine"], ["good", "good"], "All 2 examples are 'good'"),
        (["", " "], ["good", "bad"], "All 2 texts are empty"),
        ([3], ["good"], "Text 1 is 3"),
    ],
)
def test_bad_data_is_named(x, y, words):
    with pytest.raises((ValueError, TypeError), match=words):
        new_classifier().fit(x, y)


def test_empty_texts_are_counted_not_lost():
    report = new_classifier().fit(["good", "", "bad"], ["good", "good", "bad"], epochs=1, verbose=0)
    assert any("1 dropped" in note and "empty text: 1 (line 2)" in note for note in report.notes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": ["one"]}, "at least two"),
        ({"labels": ["a", "a"]}, "more than once"),
        ({"labels": "ab"}, "expected a list"),
        ({"labels": None}, "pass labels"),
        ({"kind": "ranking"}, "'regression'"),
        ({"sequence_length": 64}, "expected 4 to 32"),
        ({"long_texts": "drop"}, "'windows'"),
    ],
)
def test_bad_settings_are_named(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        new_classifier(**options)


def test_mismatched_vocabulary_is_refused():
    classifier = new_classifier()
    with pytest.raises(ValueError, match="22 tokens, the model only 21"):
        TextClassifier(classifier.model, keras_bert.BertTokenizer([*VOCABULARY, "more"]), labels=LABELS)


def test_a_plain_directory_is_no_task(tmp_path):
    with pytest.raises(FileNotFoundError, match="from_pretrained"):
        keras_bert.load_task(pretrained_directory())
