"""Aspects: SemEval's XML is read with its offsets, nothing dangerous in it; each aspect has its answer."""

import functools
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoint import save_pretrained
from keras_bert.cli import main, make_parser
from keras_bert.decoding.labels import AspectPolarity
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder
from keras_bert.tasks.base.registry import find_task
from keras_bert.tasks.classification.aspect import AspectClassifier
from keras_bert.tasks.classification.aspect_files import read_aspects
from keras_bert.text.tokenizer import BertTokenizer

ASPECTS = ["food", "staff"]
POLARITIES = ["negative", "neutral", "positive"]
SAID = {"food": ["stale", "hot", "tasty"], "staff": ["rude", "tall", "kind"]}
VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *ASPECTS,
    *SAID["food"],
    *SAID["staff"],
    "the",
    "was",
    "and",
    ".",
]
CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY),
    num_layers=2,
    num_heads=2,
    hidden_dim=48,
    intermediate_dim=64,
    max_sequence_length=32,
    initializer_range=0.1,
)
FAST = {"learning_rate": 3e-3, "epochs": 10, "batch_size": 16, "patience": None, "evaluations": 1, "verbose": 0}

XML = """<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<sentences>
  <sentence id="1">
    <text>The "caf\u00e9" food was great, the staff &amp; all.</text>
    <aspectTerms>
      <aspectTerm term="&quot;caf\u00e9&quot; food" polarity="positive" from="4" to="15"/>
      <aspectTerm term="staff" polarity="conflict" from="31" to="36"/>
      <aspectTerm term="all" polarity="neutral" from="38" to="41"/>
      <aspectTerm term="all" polarity="neutral" from="39" to="42"/>
      <aspectTerm term="food" polarity="neutral" from="x" to="42"/>
      <aspectTerm term=" " polarity="neutral" from="3" to="4"/>
      <aspectTerm term="was" from="16" to="19"/>
    </aspectTerms>
    <aspectCategories>
      <aspectCategory category="food" polarity="positive"/>
      <aspectCategory category="anecdotes/miscellaneous" polarity="neutral"/>
    </aspectCategories>
  </sentence>
  <sentence id="2"><text>Nothing here.</text></sentence>
  <sentence id="3">
    <text> </text>
    <aspectTerms><aspectTerm term="x" polarity="neutral" from="0" to="1"/></aspectTerms>
  </sentence>
</sentences>
"""


@functools.cache
def pretrained_directory():
    directory = Path(tempfile.mkdtemp(prefix="tiny-aspects-")) / "model"
    save_pretrained(bert_encoder(CONFIG, seed=3), directory, tokenizer=BertTokenizer(VOCABULARY))
    return directory


def sentences(count, *, seed):
    """`the staff was rude and the food was tasty .`: what holds depends on the aspect that is asked for."""
    random = np.random.default_rng(seed)
    pairs, labels = [], []
    for _ in range(count):
        chosen = {aspect: int(random.integers(3)) for aspect in ASPECTS}
        parts = [f"the {aspect} was {SAID[aspect][index]}" for aspect, index in chosen.items()]
        text = " and ".join(parts[:: random.choice([-1, 1])]) + " ."
        asked = ASPECTS[random.integers(2)]
        pairs.append((text, asked))
        labels.append(POLARITIES[chosen[asked]])
    return pairs, labels


@pytest.fixture(scope="module")
def trained():
    classifier = AspectClassifier.from_pretrained(pretrained_directory())
    report = classifier.fit(*sentences(400, seed=1), validation_data=sentences(40, seed=2), **FAST)
    return classifier, report


# === Files ===


@pytest.fixture
def xml(tmp_path):
    path = tmp_path / "train.xml"
    path.write_text(XML, encoding="utf-8")
    return path


def test_terms_with_their_offsets(xml):
    rows = read_aspects(xml)
    assert [(row.pair, row.label, row.row) for row in rows] == [
        ('"caf\u00e9" food', "positive", 6),
        ("all", "neutral", 9),
    ]
    assert all(row.text[row.start : row.end] == row.pair for row in rows)
    assert rows[0].text == 'The "caf\u00e9" food was great, the staff & all.'
    assert rows.report.read == 8 and rows.report.reasons == {
        "conflict": 1,
        "aspect is not at its offset": 1,
        "offset is no number": 1,
        "empty aspect": 1,
        "missing label": 1,
        "empty text": 1,
    }
    assert {drop.reason: drop.line for drop in rows.report.dropped}["aspect is not at its offset"] == 8
    assert [row.label for row in read_aspects(xml, conflict="keep")] == ["positive", "conflict", "neutral"]
    assert [row.pair for row in read_aspects(xml, label=None)][-1] == "was"
    with pytest.raises(ValueError, match="line 8: aspect is not at its offset; fix the row"):
        read_aspects(xml, strict=True)


def test_categories(xml):
    rows = read_aspects(xml, kind="categories")
    assert [(row.pair, row.label, row.start) for row in rows] == [
        ("food", "positive", None),
        ("anecdotes/miscellaneous", "neutral", None),
    ]


OPINIONS = """<Reviews><Review rid="1"><sentences><sentence id="1:0">
<text>The pizza was great, and cheap.</text>
<Opinions>
<Opinion target="pizza" category="FOOD#QUALITY" polarity="positive" from="4" to="9"/>
<Opinion target="pizza" category="FOOD#PRICES" polarity="positive" from="4" to="9"/>
<Opinion target="NULL" category="FOOD#PRICES" polarity="positive" from="0" to="0"/>
<Opinion target="NULL" category="SERVICE#GENERAL" polarity="negative" from="0" to="0"/>
<Opinion target="pizza" category="FOOD#QUALITY" polarity="positive" from="5" to="9"/>
<Opinion target="pizza" category="FOOD#STYLE" from="4" to="9"/>
</Opinions></sentence></sentences></Review></Reviews>
"""


def test_opinions_of_2015_and_2016(tmp_path):
    path = tmp_path / "ABSA16.xml"
    path.write_text(OPINIONS, encoding="utf-8")
    rows = read_aspects(path)
    assert [(row.pair, row.label, row.start, row.end, row.row) for row in rows] == [("pizza", "positive", 4, 9, 4)]
    assert rows.report.reasons == {
        "opinion without a term (target NULL)": 2,
        "the same once more": 1,
        "aspect is not at its offset": 1,
        "missing label": 1,
    }
    rows = read_aspects(path, kind="categories")
    expected = ["FOOD#QUALITY", "FOOD#PRICES", "SERVICE#GENERAL"]
    assert [row.pair for row in rows] == expected and rows[0].start is None
    assert rows.report.reasons == {"the same once more": 2, "missing label": 1}
    arguments = make_parser().parse_args(["finetune", str(path), "out", "--task", "aspect", "--aspects", "categories"])
    assert find_task("aspect").read(arguments, str(path), "train").examples == rows.examples
    path.write_text(
        "<Reviews><Review><sentences><sentence><text>a</text></sentence></sentences><Opinions>"
        '<Opinion category="FOOD" polarity="positive"/></Opinions></Review></Reviews>'
    )
    with pytest.raises(ValueError, match="opinion of a whole review: 1"):
        read_aspects(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('<!DOCTYPE sentences [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><sentences>&b;</sentences>', "has a DOCTYPE"),
        ('<!DOCTYPE s SYSTEM "file:///etc/passwd"><sentences/>', "has a DOCTYPE"),
        ("<sentences><sentence></sentences>", "not a complete XML document: mismatched tag"),
        ("<sentences>&undefined;</sentences>", "not a complete XML document: undefined entity"),
        ("", "not a complete XML document: no element found"),
        ('<?xml version="1.0" encoding="qtf-8"?><sentences/>', "not a complete XML document: unknown encoding: qtf-8"),
        ("<sentences/>", "No usable row"),
    ],
)
def test_what_is_no_plain_xml_is_refused(tmp_path, content, words):
    path = tmp_path / "bad.xml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        read_aspects(path)


def test_tables(tmp_path):
    path = tmp_path / "data.tsv"
    path.write_text("text\taspect\tlabel\na\tb\tpositive\na\t\tneutral\na\tc\tconflict\n", encoding="utf-8")
    rows = read_aspects(path)
    assert rows.inputs == [("a", "b")] and rows.report.reasons == {"empty pair": 1, "conflict": 1}
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps({"text": "a", "target": "b", "label": "positive"}), encoding="utf-8")
    assert read_aspects(path, pair="target").inputs == [("a", "b")]
    for options in ({"kind": "words"}, {"conflict": "merge"}):
        with pytest.raises(ValueError, match="expected one of"):
            read_aspects(path, **options)


# === Answers ===


@pytest.mark.slow
def test_the_answer_depends_on_the_aspect(trained):
    classifier, report = trained
    assert report.best.score > 0.9
    pairs, labels = sentences(60, seed=3)
    measured = classifier.evaluate(pairs, labels)
    assert measured.accuracy > 0.9 and measured.macro.f1 > 0.9
    answers = classifier.predict("the food was tasty and the staff was rude .", aspects=["food", "staff"])
    assert [(answer.aspect, answer.label) for answer in answers] == [("food", "positive"), ("staff", "negative")]
    assert str(answers[0]).startswith("food: positive (")
    found = classifier.predict(pairs)
    assert [answer.aspect for answer in found] == [aspect for _, aspect in pairs]
    assert np.mean([answer.label == label for answer, label in zip(found, labels, strict=True)]) == measured.accuracy


@pytest.mark.slow
def test_sentences_and_aspects_are_asked_pair_by_pair(trained):
    classifier, _ = trained
    texts = ["the food was stale .", "the staff was kind and the food was hot ."]
    nested = classifier.predict(texts, aspects=ASPECTS)
    assert [len(answers) for answers in nested] == [2, 2]
    flat = classifier.predict([(text, aspect) for text in texts for aspect in ASPECTS])
    for answer, alone in zip([one for answers in nested for one in answers], flat, strict=True):
        assert (answer.aspect, answer.label) == (alone.aspect, alone.label) and isinstance(answer, AspectPolarity)
        assert answer.probability == pytest.approx(alone.probability, abs=1e-5)
    assert classifier.predict([]) == [] and classifier.predict(texts, aspects=[]) == [[], []]


@pytest.mark.slow
def test_saved_and_loaded_it_answers_the_same(trained, tmp_path):
    classifier, _ = trained
    classifier.save(tmp_path / "model")
    loaded = keras_bert.load_task(tmp_path / "model")
    assert isinstance(loaded, AspectClassifier) and loaded.labels == POLARITIES
    pairs, _ = sentences(10, seed=4)
    assert loaded.predict(pairs) == classifier.predict(pairs)
    assert AspectClassifier.from_pretrained(tmp_path / "model", labels=None).predict(pairs) == classifier.predict(pairs)


def test_what_has_no_aspect_is_refused():
    classifier = AspectClassifier.from_pretrained(pretrained_directory())
    with pytest.raises(TypeError, match="There is no aspect for 'the food'"):
        classifier.predict("the food")
    with pytest.raises(TypeError, match="Text 2 is 'the food'; expected a pair"):
        classifier.predict([("the food", "food"), "the food"])
    with pytest.raises(TypeError, match="aspects='food' is one string"):
        classifier.predict("the food", aspects="food")
    with pytest.raises(ValueError, match="Row 1 .*has no aspect"):
        classifier.evaluate(["the food was bad"], ["negative"])
    with pytest.raises(ValueError, match="Row 1 has the unknown label 'conflict'"):
        classifier.evaluate([("the food was bad", "food")], ["conflict"])
    with pytest.raises(ValueError, match="an aspect has one polarity"):
        AspectClassifier.from_pretrained(pretrained_directory(), kind="multi_label")


@pytest.mark.slow
def test_aspects_from_a_file_to_answers(tmp_path, capsys):
    data = tmp_path / "train.tsv"
    lines = ["\t".join((*pair, label)) for pair, label in zip(*sentences(120, seed=1), strict=True)]
    data.write_text("\n".join(["text\taspect\tlabel", *lines]) + "\n", encoding="utf-8")
    model = str(tmp_path / "model")
    command = ["finetune", str(data), model, "--task", "aspect", "--model", str(pretrained_directory())]
    flags = "--epochs 1 --batch-size 16 --sequence-length 32 --json --debug"
    assert main([*command, *flags.split()]) == 0
    capsys.readouterr()
    (tmp_path / "ask.txt").write_text("the food was bad .\tfood\n", encoding="utf-8")
    assert main(["predict", model, "--input", str(tmp_path / "ask.txt"), "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert answer["aspect"] == "food" and answer["label"] in POLARITIES
    assert main(["evaluate", model, str(data), "--json"]) == 0
    expected = keras_bert.load_task(model).evaluate(data)
    assert json.loads(capsys.readouterr().out)["accuracy"] == expected.accuracy and expected.count == 120
    assert main(["predict", model, "the food was bad ."]) == 1
    assert "expected a pair (sentence, aspect)" in capsys.readouterr().err
