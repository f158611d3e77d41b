"""A context and choices in, the choice out: a toy problem, groups of different sizes, files, and bad input."""

import csv
import functools
import json
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.checkpoint import load_model, save_pretrained
from keras_bert.decoding.labels import Choice, rank_choices
from keras_bert.finetuning.recipes import RECIPES
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.heads import bert_model
from keras_bert.tasks.base.fitting import fresh_model, task_batches
from keras_bert.tasks.base.saved_tasks import load_task
from keras_bert.tasks.multiple_choice.files import ChoiceQuestion, as_choices, read_choices
from keras_bert.tasks.multiple_choice.task import ChoiceLoss, MultipleChoice
from keras_bert.text.tokenizer import BertTokenizer

FIT, UNFIT = ["barks", "mews"], ["moos", "hoots", "sings"]
WORDS = ["the", "a", "old", "small", "here", "it", "now", "dog", "cat", *FIT, *UNFIT]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY),
    num_layers=1,
    num_heads=2,
    hidden_dim=32,
    intermediate_dim=64,
    max_sequence_length=24,
    initializer_range=0.1,
)
FAST = {"learning_rate": 3e-3, "batch_size": 16, "patience": None, "evaluations": 1, "verbose": 0}


@functools.cache
def pretrained_directory():
    directory = Path(tempfile.mkdtemp(prefix="tiny-choices-")) / "model"
    save_pretrained(bert_encoder(CONFIG, seed=3), directory, tokenizer=BertTokenizer(VOCABULARY))
    return directory


def toys(count, *, seed, sizes=(4,)):
    """Choices of which one has a word that fits, in any order, and as many as `sizes` says."""
    random = np.random.default_rng(seed)
    questions, labels = [], []
    for number in range(count):
        words = [str(word) for word in random.choice(WORDS[:9], random.integers(1, 6))]
        choices = [f"it {random.choice(UNFIT)} {random.choice(WORDS[:7])}" for _ in range(sizes[number % len(sizes)])]
        labels.append(int(random.integers(len(choices))))
        choices[labels[-1]] = f"it {random.choice(FIT)} {random.choice(WORDS[:7])}"
        questions.append((" ".join(words), choices))
    return questions, labels


def new_chooser(**options):
    return MultipleChoice.from_pretrained(pretrained_directory(), **options)


@pytest.fixture(scope="module")
def trained():
    chooser = new_chooser()
    data, check = toys(240, seed=1, sizes=(4, 3, 2)), toys(60, seed=2)
    return chooser, chooser.fit(*data, validation_data=check, epochs=3, **FAST)


# === Learning ===


def test_it_learns_from_questions_of_different_sizes(trained):
    chooser, report = trained
    assert report.metric == "accuracy" and report.best.score > 0.9
    questions, labels = toys(60, seed=3, sizes=(2, 4, 3))
    found = chooser.predict(questions)
    assert [len(answers) for answers in found] == [len(choices) for _, choices in questions]
    right = np.mean([answers[0].index == label for answers, label in zip(found, labels, strict=True)])
    measured = chooser.evaluate(questions, labels)
    assert right > 0.9 and measured.accuracy == pytest.approx(right)
    assert measured.chance == pytest.approx((1 / 2 + 1 / 4 + 1 / 3) / 3) and measured.loss < 0.5
    assert "by chance 0.3611" in str(measured) and measured.to_dict()["count"] == 60


def test_answers_are_the_models_own(trained):
    chooser, _ = trained
    (context, choices), _ = (part[0] for part in toys(1, seed=4))
    tokenized = chooser.read([(context, choice) for choice in choices], as_choices([(context, choices)]))[0]
    logits = chooser.outputs(tokenized)["class_logits"][:, 0].astype("float64")
    expected = np.exp(logits) / np.exp(logits).sum()
    answers = chooser.predict(context, choices)
    assert [answer.index for answer in answers] == np.argsort(-expected).tolist()
    assert [answer.probability for answer in answers] == pytest.approx(np.sort(expected)[::-1].tolist())
    assert answers[0].text == choices[answers[0].index] and chooser.predict((context, choices)) == answers
    assert chooser.predict([]) == []


def test_a_step_learns_what_the_definition_says():
    """The loss over packed groups, some of them with fewer choices, equals that of the plain model's numbers."""
    chooser = new_chooser()
    chooser.model.get_layer("classifier").kernel.assign_add(np.full((32, 1), 0.5) * np.arange(32)[:, None] / 32)
    questions, labels = toys(9, seed=5, sizes=(4, 2, 3))
    data = chooser.prepare(questions, labels)
    assert data.texts_per_example == 4 and len(data.tokenized) == 36
    expected = chooser.report(chooser.outputs(data.tokenized), data).loss
    chooser.texts_per_example, chooser.fresh_heads = data.texts_per_example, False
    model = fresh_model(chooser, RECIPES["standard"], 0, None)
    batches, steps = task_batches(chooser, data, 16, packed=True)
    ((inputs, targets, weights),) = batches(0, 0, 1)
    assert steps == 1 and weights.shape == (16,) and float(tf.reduce_sum(weights)) == 9
    found = ChoiceLoss()(targets["choice_logits"], model(inputs, training=False)["choice_logits"], weights)
    assert float(found) == pytest.approx(expected, abs=1e-5)


def test_loss_looks_at_the_choices_that_are_there():
    logits = np.array([[[1.0], [2.0], [9.0]], [[0.0], [1.0], [3.0]]])
    loss = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(ChoiceLoss()))
    expected = [np.log(np.exp([1, 2]).sum()) - 1, np.log(np.exp([0, 1, 3]).sum()) - 3]
    assert float(loss(np.array([[0, 2], [2, 3]]), logits)) == pytest.approx(np.mean(expected), abs=1e-5)
    assert float(loss(np.array([[0, 2], [2, 3]]), logits, np.array([1.0, 0.0]))) == pytest.approx(expected[0], abs=1e-5)


def test_saved_and_loaded_it_chooses_the_same(trained, tmp_path):
    chooser, _ = trained
    chooser.save(tmp_path / "model")
    questions, _ = toys(10, seed=6)
    loaded = load_task(tmp_path / "model")
    assert isinstance(loaded, MultipleChoice) and loaded.predict(questions) == chooser.predict(questions)
    settings = json.loads((tmp_path / "model/config.json").read_text())
    assert settings["architectures"] == ["BertForMultipleChoice"]
    again = MultipleChoice.from_pretrained(tmp_path / "model")  # the head comes along
    assert not again.fresh_heads and again.predict(questions) == chooser.predict(questions)


def test_it_is_transformers_model(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    settings = transformers.BertConfig(
        vocab_size=len(VOCABULARY), num_hidden_layers=2, num_attention_heads=2, hidden_size=32, intermediate_size=64
    )
    torch.manual_seed(0)
    reference = transformers.BertForMultipleChoice(settings).eval()
    reference.save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs/vocab.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    chooser = MultipleChoice.from_pretrained(tmp_path / "theirs")
    chooser.save(tmp_path / "ours")
    questions, _ = toys(3, seed=7)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")

    def theirs(model, context, choices):
        batch = tokenizer([context] * len(choices), choices, padding=True, return_tensors="pt")
        with torch.no_grad():
            logits = model(**{name: value[None] for name, value in batch.items()}).logits[0]
        return torch.softmax(logits.double(), -1).numpy()

    def ours(chooser, context, choices):
        found = chooser.predict(context, choices)
        return np.array([answer.probability for answer in sorted(found, key=lambda answer: answer.index)])

    for question in questions:
        np.testing.assert_allclose(ours(chooser, *question), theirs(reference, *question), atol=1e-5)
    opened, report = transformers.BertForMultipleChoice.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    np.testing.assert_allclose(theirs(opened.eval(), *questions[0]), ours(chooser, *questions[0]), atol=1e-5)


# === Long contexts ===


def test_contexts_are_cut_and_choices_never():
    chooser = new_chooser(sequence_length=9)
    questions = [("the old dog here now", ["it barks", "it mews now"]), ("a cat", ["it mews", "it moos"])]
    rows = as_choices(questions, [0, 0])
    data = chooser.prepare(rows, None)
    assert data.notes == ("the contexts of 2 of 4 choices were cut, to 9 tokens together",)
    ids, splits, _ = data.tokenized.packed()
    words = [[VOCABULARY[number] for number in ids[splits[row] : splits[row + 1]]] for row in range(2)]
    assert words[0] == ["[CLS]", "the", "old", "dog", "here", "[SEP]", "it", "barks", "[SEP]"]
    assert words[1] == ["[CLS]", "the", "old", "dog", "[SEP]", "it", "mews", "now", "[SEP]"]
    with pytest.warns(UserWarning, match="the contexts of 2 of 4 choices were cut"):
        chooser.predict(questions)
    with pytest.raises(ValueError, match="The choice 'it barks it barks.*has 8 tokens, and is never cut"):
        chooser.predict("a dog", ["it barks " * 4, "it mews"])


# === Data ===


def test_swag_and_other_files(tmp_path):
    columns = ["", "video-id", "startphrase", "sent1", "sent2", *(f"ending{n}" for n in range(4)), "label"]
    lines = [
        [0, "v", "A dog is here. It", "A dog is here.", "It", "barks, now.", "mews.", "moos.", "hoots.", 0],
        [1, "v", "A cat. It", "A cat.", "It", "barks.", "mews.", "", "", 1],
        [2, "v", "A cow. It", "A cow.", "It", "barks.", "mews.", "", "", 3],
        [3, "v", "An owl. It", "", "It", "barks.", "mews.", "moos.", "hoots.", 3],
        [4, "v", "An owl. It", "An owl.", "It", "barks.", "", "", "", 0],
        [5, "v", "An owl. It", "An owl.", "It", "barks.", "", "moos.", "hoots.", 0],
        [6, "v", "An owl. It", "An owl.", "It", "barks.", "mews.", "moos.", "hoots.", ""],
    ]
    with open(tmp_path / "swag.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *lines])
    rows = read_choices(tmp_path / "swag.csv")
    assert rows[0] == ChoiceQuestion(
        "A dog is here.", ("It barks, now.", "It mews.", "It moos.", "It hoots."), 0, row=2
    )
    assert rows[1].choices == ("It barks.", "It mews.") and rows[1].label == 1 and len(rows) == 2
    assert rows.report.reasons == {
        "label is not the number of a choice": 1,
        "empty context": 1,
        "fewer than two choices": 1,
        "empty choice 1": 1,
        "missing label": 1,
    }
    objects = [
        {"context": "A dog.", "choices": ["barks", "mews"], "label": "mews"},
        {"context": "A dog.", "choices": ["barks", "mews"], "label": 0},
        {"context": "A dog.", "choices": "barks", "label": 0},
        {"context": "A dog.", "choices": ["barks", "barks"], "label": "barks"},
        {"choices": ["barks", "mews"], "label": 0},
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, objects)), encoding="utf-8")
    rows = read_choices(tmp_path / "rows.jsonl")
    assert [question.label for question in rows] == [1, 0] and len(rows.report.dropped) == 3
    assert read_choices(tmp_path / "rows.jsonl", label=None)[0].label is None
    with pytest.raises(ValueError, match="no column 'right'; it has 'choices', 'context', 'label'"):
        read_choices(tmp_path / "rows.jsonl", label="right")


def test_a_table_s_numbers_are_places_even_where_choices_are_numbers(tmp_path):
    def labels(*rows):
        path = tmp_path / "rows.csv"
        path.write_text("\n".join(["context,ending0,ending1,ending2,label", *rows]) + "\n", encoding="utf-8")
        read = read_choices(path)
        return [question.label for question in read], read.report.reasons

    assert labels("1+1?,1,2,3,1", "1+2?,1,2,3,2") == ([1, 2], {})
    (tmp_path / "rows.jsonl").write_text('{"context": "1+1?", "choices": ["1", "2", "3"], "label": 1}')
    assert read_choices(tmp_path / "rows.jsonl")[0].label == 1
    assert labels("3*5?,12,15,18,15", "2*9?,12,15,18,18") == ([1, 2], {})  # none is a place: these are texts
    assert labels("1+1?,1,2,3,2", "a dog?,it barks,it mews,2,it barks") == ([1, 0], {})  # some is a text, so all are
    ambiguous = {
        "label is the number of one choice and the text of another": 1,
        "label is not the number of a choice": 1,
    }
    assert labels("1+1?,1,2,3,1", "1+2?,7,8,9,1", "1+2?,1,2,3,5") == ([1], ambiguous)


def test_what_is_refused():
    chooser, (questions, labels) = new_chooser(), toys(4, seed=1)
    with pytest.raises(ValueError, match="Question 1 has no right choice"):
        chooser.fit(questions)
    with pytest.raises(ValueError, match="Question 2.*label is not the number of a choice"):
        chooser.fit(questions, [labels[0], 7, *labels[2:]])
    with pytest.raises(TypeError, match="Question 1 is 'a dog'; expected \\(context, \\[choice"):
        chooser.fit(["a dog"], [0])
    with pytest.raises(ValueError, match="4 questions and 1 answers"):
        chooser.fit(questions, [0])
    with pytest.raises(ValueError, match="metric='f1'"):
        chooser.fit(questions, labels, metric="f1", **FAST)
    with pytest.raises(ValueError, match="leave compile\\(\\) out"):
        chooser.compile("sgd")
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope(), pytest.raises(ValueError, match="on one device"):
        chooser.fit(questions, labels)
    with pytest.raises(TypeError, match="There are no choices"):
        chooser.predict("a dog")
    with pytest.raises(ValueError, match="fewer than two choices"):
        chooser.predict("a dog", ["it barks"])
    model = bert_model(CONFIG, "classification", num_classes=2)
    with pytest.raises(ValueError, match="gives 2 class_logits; expected one number"):
        MultipleChoice(model, BertTokenizer(VOCABULARY))


def test_ranked_choices():
    assert rank_choices(np.array([0.0, 0.0]), ["a", "b"]) == [Choice("a", 0, 0.5), Choice("b", 1, 0.5)]
    with pytest.raises(ValueError, match="expected one for each"):
        rank_choices(np.array([0.0]), ["a", "b"])


def test_an_ordinary_classifier_is_still_saved_as_one(tmp_path):
    save_pretrained(bert_model(CONFIG, "classification", num_classes=1), tmp_path / "model")
    settings = json.loads((tmp_path / "model/config.json").read_text())
    assert settings["architectures"] == ["BertForSequenceClassification"]
    assert load_model(tmp_path / "model")[0].output["class_logits"].shape[-1] == 1
