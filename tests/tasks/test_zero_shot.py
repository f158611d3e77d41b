"""Labels that no model was trained for: by entailment beside transformers' own pipeline, and by similarity."""

import json

import numpy as np
import pytest
from tiny_tasks import pretrained_directory

from keras_bert.checkpoint import load_encoder
from keras_bert.model.heads import bert_model
from keras_bert.tasks.base.saved_tasks import load_task
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.tasks.similarity.task import SentenceEmbedder
from keras_bert.tasks.zero_shot.task import ZeroShotClassifier

THREE = ["contradiction", "neutral", "ENTAILMENT"]
TEXTS = ["the film was good and fine", "a dull plot"]
LABELS = ["film", "plot", "cast"]
TEMPLATE = "it is the {}"


def nli(labels):
    """A classifier of pairs with random weights that are large enough to tell texts apart."""
    encoder, tokenizer = load_encoder(pretrained_directory())
    model = bert_model(None, "classification", num_classes=len(labels), encoder=encoder, seed=0)
    kernel = model.get_layer("classifier").kernel
    kernel.assign(np.random.default_rng(0).normal(size=kernel.shape))
    return TextClassifier(model, tokenizer, labels=labels)


def by_name(answer):
    return {label.name: label.probability for label in answer}


def test_entailment_is_transformers_pipeline(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    classifier = ZeroShotClassifier(nli(THREE), labels=LABELS, template=TEMPLATE)
    assert classifier.method == "entailment"
    classifier.save(tmp_path / "model")
    reference = transformers.pipeline("zero-shot-classification", model=str(tmp_path / "model"), device="cpu")
    for multi_label in (False, True):
        wanted = reference(TEXTS, LABELS, hypothesis_template=TEMPLATE, multi_label=multi_label)
        for ours, theirs in zip(classifier.predict(TEXTS, multi_label=multi_label), wanted, strict=True):
            assert [label.name for label in ours] == theirs["labels"]
            np.testing.assert_allclose([label.probability for label in ours], theirs["scores"], atol=1e-5)


def test_of_two_classes_the_difference_counts():
    classifier = ZeroShotClassifier(nli(["entailment", "not_entailment"]), labels=LABELS, template=TEMPLATE)
    logits = classifier.task.logits([(TEXTS[0], TEMPLATE.format(label)) for label in LABELS]).astype("float64")
    odds = np.exp(logits[:, 0] - logits[:, 1])
    assert by_name(classifier.predict(TEXTS[0])) == pytest.approx(dict(zip(LABELS, odds / odds.sum(), strict=True)))
    each = by_name(classifier.predict(TEXTS[0], multi_label=True))
    assert each == pytest.approx(dict(zip(LABELS, odds / (1 + odds), strict=True)))


@pytest.mark.parametrize("name", ["entail", "Entailment", "ENTAILED", "entails "])
def test_entailment_in_any_spelling(name):
    assert ZeroShotClassifier(nli(["no", name]))._entailment == 1


def test_similarity_is_a_softmax_of_cosines():
    embedder = SentenceEmbedder.from_pretrained(pretrained_directory())
    classifier = ZeroShotClassifier(embedder, labels=LABELS, template=TEMPLATE, temperature=0.1)
    cosines = embedder.similarity(TEXTS, [TEMPLATE.format(label) for label in LABELS])
    expected = np.exp(cosines / 0.1) / np.exp(cosines / 0.1).sum(axis=1, keepdims=True)
    for answer, row in zip(classifier.predict(TEXTS), expected, strict=True):
        assert by_name(answer) == pytest.approx(dict(zip(LABELS, row, strict=True)), abs=1e-5)
        assert answer == sorted(answer, key=lambda label: -label.probability)
    nothing = embedder.similarity(TEXTS, [TEMPLATE.format("")])
    each = by_name(classifier.predict(TEXTS[1], multi_label=True))
    wanted = 1 / (1 + np.exp((nothing[1] - cosines[1]) / 0.1))
    assert each == pytest.approx(dict(zip(LABELS, wanted, strict=True)), abs=1e-5)
    words = {"movie": "film", "story": "plot"}
    assert set(by_name(classifier.predict(TEXTS[0], words))) == set(words)
    other = classifier.predict(TEXTS[0], ["film", "plot"], template="the {}")
    assert by_name(other) != by_name(classifier.predict(TEXTS[0], ["film", "plot"]))
    assert classifier.predict([]) == []


def test_minilm_knows_what_texts_are_about(minilm_dir):
    classifier = ZeroShotClassifier.from_pretrained(minilm_dir)
    assert classifier.method == "similarity"
    texts = ["The striker scored twice in the second half.", "Parliament passed the budget.", "Boil the pasta first."]
    topics = ["sport", "politics", "cooking"]
    found = classifier.predict(texts, labels=topics)
    assert [answer[0].name for answer in found] == topics and all(answer[0].probability > 0.5 for answer in found)
    report = classifier.evaluate(texts, topics)
    assert report.accuracy == 1.0 and report.macro.f1 == 1.0
    assert classifier.evaluate(texts, topics, labels=[*topics, "music"]).names == (*topics, "music")


@pytest.mark.parametrize("method", ["entailment", "similarity"])
def test_saved_and_loaded_it_answers_the_same(tmp_path, method):
    task = nli(THREE) if method == "entailment" else SentenceEmbedder.from_pretrained(pretrained_directory())
    task.save(tmp_path / "task")
    classifier = ZeroShotClassifier.from_pretrained(tmp_path / "task", labels=LABELS, template=TEMPLATE)
    assert classifier.method == method
    classifier.save(tmp_path / "model")
    expected = classifier.predict(TEXTS)
    loaded = load_task(tmp_path / "model")
    assert isinstance(loaded, ZeroShotClassifier) and loaded.predict(TEXTS) == expected
    again = ZeroShotClassifier.from_pretrained(tmp_path / "model", labels=["cast", "film"])
    assert again.labels == ["cast", "film"] and again.template == TEMPLATE
    other = {"entailment": "similarity", "similarity": "entailment"}[method]
    with pytest.raises(ValueError, match=f"by {method}, not by {other}"):
        ZeroShotClassifier.from_pretrained(tmp_path / "model", method=other)
    with pytest.raises(ValueError, match="another task"):
        ZeroShotClassifier.load(tmp_path / "task")
    path = tmp_path / "model" / "keras_bert_task.json"
    good = json.loads(path.read_text("utf-8"))
    for changes in (
        {"wraps": None},
        {"wraps": {}},
        {"temperature": "hot"},
        {"labels": 3},
        {"template": "{:>99999}"},
    ):
        path.write_text(json.dumps({**good, **changes}), encoding="utf-8")
        with pytest.raises(ValueError, match="expected a sentence|ZeroShotClassifier cannot use"):
            load_task(tmp_path / "model")


@pytest.mark.slow
def test_fit_tunes_what_is_wrapped(tmp_path):
    classifier = ZeroShotClassifier(
        TextClassifier.from_pretrained(pretrained_directory(), labels=["entailment", "neutral"]), labels=LABELS
    )
    pairs, labels = [("the film was good", "film"), ("a dull plot", "cast")] * 16, ["entailment", "neutral"] * 16
    options = {"epochs": 12, "learning_rate": 3e-3, "batch_size": 16, "verbose": 0}
    report = classifier.fit(pairs, labels, **options)
    assert report.metric == "training_accuracy" and report.best.score == 1.0
    found = by_name(classifier.predict("the film was good", ["film", "cast"], template="{}", multi_label=True))
    assert found["film"] > 0.8
    embedder = ZeroShotClassifier(SentenceEmbedder.from_pretrained(pretrained_directory()))
    assert embedder.fit(pairs[:2] * 2, epochs=1, verbose=0).metric.endswith("@1")


def test_what_is_refused(tmp_path):
    classifier = ZeroShotClassifier(SentenceEmbedder.from_pretrained(pretrained_directory()))
    with pytest.raises(ValueError, match="no labels to choose from"):
        classifier.predict("a film")
    for template in ("no place", "{a}", "{} {}", "{", "{:>1000000000}", "{0.__class__}", "{!r}"):
        with pytest.raises(ValueError, match="expected a sentence with {}"):
            classifier.predict("a film", LABELS, template=template)
    with pytest.raises(ValueError, match="there is nothing to decide"):
        classifier.predict("a film", ["film"])
    with pytest.raises(ValueError, match="Row 1 has a second text, or not exactly one label"):
        classifier.evaluate([("a", "b")], ["x"])
    with pytest.raises(ValueError, match="None of the classes.*not_entailment.*method='similarity'"):
        ZeroShotClassifier(nli(["yes", "not_entailment"]))
    with pytest.raises(TypeError, match="expected a TextClassifier or a SentenceEmbedder"):
        ZeroShotClassifier("bert")
    with pytest.raises(ValueError, match="method='magic'"):
        ZeroShotClassifier.from_pretrained(pretrained_directory(), method="magic")
    with pytest.raises(ValueError, match="no named classes"):
        ZeroShotClassifier.from_pretrained(pretrained_directory(), method="entailment")
