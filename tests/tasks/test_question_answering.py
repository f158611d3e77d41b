"""A question and a text in, a part of the text out: a toy problem, long contexts, no answer, and bad input."""

import functools
import itertools
import json
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_bert.checkpoint import save_pretrained
from keras_bert.decoding.spans import find_answers
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder
from keras_bert.model.heads import bert_model
from keras_bert.tasks.question_answering.files import as_questions
from keras_bert.tasks.question_answering.rows import prepare_questions
from keras_bert.tasks.question_answering.task import QuestionAnswerer, SpanLoss
from keras_bert.text.packing import pack
from keras_bert.text.tokenizer import BertTokenizer

FILLER = ["a", "the", "box", "lid", "is", "was", "of", "and", "it", "here", "there", "left"]
COLOURS, NUMBERS = ["red", "blue", "green"], ["one", "two", "three"]
WORDS = [*FILLER, "which", "colour", "number", "dark", *COLOURS, *NUMBERS, "##s"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY),
    num_layers=1,
    num_heads=2,
    hidden_dim=32,
    intermediate_dim=64,
    max_sequence_length=48,
    initializer_range=0.1,
)
FAST = {"learning_rate": 3e-3, "epochs": 7, "batch_size": 16, "patience": None, "evaluations": 2, "verbose": 0}


@functools.cache
def pretrained_directory():
    directory = Path(tempfile.mkdtemp(prefix="tiny-answers-")) / "model"
    save_pretrained(bert_encoder(CONFIG, seed=3), directory, tokenizer=BertTokenizer(VOCABULARY))
    return directory


def toys(count, *, seed, words=(8, 18), impossible=0.0):
    """Contexts with a colour, perhaps a dark one, and a number; a question asks for one of them."""
    random = np.random.default_rng(seed)
    pairs, answers = [], []
    for _ in range(count):
        dark = ["dark"] if random.random() < 0.5 else []
        phrases = {"colour": [*dark, str(random.choice(COLOURS))], "number": [str(random.choice(NUMBERS))]}
        asked = str(random.choice(list(phrases)))
        context = [[str(word)] for word in random.choice(FILLER, random.integers(*words))]
        absent = random.random() < impossible
        for kind, phrase in phrases.items():
            if not (absent and kind == asked):
                context.insert(int(random.integers(len(context) + 1)), phrase)
        before = [word for part in context[: context.index(phrases[asked])] for word in part] if not absent else []
        text = " ".join(phrases[asked])
        pairs.append((f"which {asked}", " ".join(" ".join(part) for part in context)))
        answers.append(None if absent else (text, len(" ".join([*before, ""]))))
    return pairs, answers


def new_answerer(**options):
    return QuestionAnswerer.from_pretrained(pretrained_directory(), **{"sequence_length": 24, **options})


def without_refusal(answerer):
    return QuestionAnswerer(answerer.model, answerer.tokenizer, sequence_length=24)


@pytest.fixture(scope="module")
def trained():
    answerer = new_answerer(unanswerable=True)
    data, check = (toys(count, seed=seed, impossible=0.3) for count, seed in ((320, 1), (80, 2)))
    report = answerer.fit(*data, validation_data=check, **FAST)
    return answerer, report


# === Learning ===


def test_it_learns_and_refuses(trained):
    answerer, report = trained
    pairs, answers = toys(80, seed=3, impossible=0.3)
    gold = ["" if answer is None else answer[0] for answer in answers]
    found = answerer.predict(pairs)
    assert np.mean([answer.text == text for answer, text in zip(found, gold, strict=True)]) > 0.8
    assert all(
        answer.text == context[answer.start : answer.end] for answer, (_, context) in zip(found, pairs, strict=True)
    )
    assert report.metric == "f1" and report.best.score > 0.8
    measured = answerer.evaluate(pairs, answers)
    assert measured.exact_match == pytest.approx(np.mean([a.text == text for a, text in zip(found, gold, strict=True)]))
    assert measured.no_answer.count == sum(answer is None for answer in answers)
    assert measured.threshold == answerer.no_answer_threshold and "no answer" in str(measured)


def test_the_threshold_is_that_of_the_kept_weights(trained):
    answerer, report = trained
    best = max(report.measurements, key=lambda row: row["val_f1"])
    assert answerer.no_answer_threshold == best["no_answer_threshold"] and best["val_f1"] == report.best.score
    check = toys(80, seed=2, impossible=0.3)
    assert answerer.evaluate(*check).f1 == pytest.approx(report.best.score)
    twin = QuestionAnswerer(answerer.model, answerer.tokenizer, sequence_length=24, unanswerable=True)
    assert twin.choose_threshold(*check) == pytest.approx(answerer.no_answer_threshold, abs=1e-3)
    with pytest.raises(ValueError, match="needs unanswerable=True"):
        without_refusal(answerer).choose_threshold(*check)


def test_the_threshold_of_averaged_weights_is_their_own(monkeypatch):
    def average_all(model, runs, measure):
        mean = [np.mean(values, axis=0) for values in zip(*(run.weights for run in runs), strict=True)]
        for variable, value in zip(model.trainable_variables, mean, strict=True):
            variable.assign(value)
        return tuple(run.seed for run in runs), measure(model).value

    monkeypatch.setattr("keras_bert.finetuning.run.average_runs", average_all)
    answerer, check = new_answerer(unanswerable=True), toys(60, seed=2, impossible=0.4)
    options = {**FAST, "epochs": 4, "learning_rate": 2e-3, "seeds": (0, 1), "average": True, "restarts": 0}
    report = answerer.fit(*toys(120, seed=1, impossible=0.4), validation_data=check, **options)
    assert len(report.averaged) == 2
    measured = answerer.evaluate(*check)
    assert answerer.no_answer_threshold == pytest.approx(measured.best_f1_threshold)
    assert measured.f1 == pytest.approx(report.score)


def scored(answerer, data, move):
    """The score of the right answers' logits, moved."""
    return answerer.score({"span_logits": move(perfect_logits(data))}, data, "f1")


def test_answers_are_judged_after_the_threshold():
    """That [CLS] is above all other tokens is no collapse: the threshold is what decides."""
    answerer = new_answerer(unanswerable=True)
    data = answerer.prepare(*toys(30, seed=1, impossible=0.4))

    def prefer_nothing(rows):
        rows[:, 0] += 50.0
        return rows

    def prefer_the_question(rows):  # which no loss forbids, and no answer comes from
        rows[:, 1] += 50.0
        return rows

    for move in (prefer_nothing, prefer_the_question):
        good = scored(answerer, data, move)
        assert good.value == 1.0 and not good.degenerate
    assert scored(answerer, data, lambda rows: prefer_nothing(np.zeros_like(rows))).degenerate  # it never answers


def test_always_the_same_place_is_degenerate():
    answerer, (pairs, answers) = new_answerer(), toys(30, seed=1)
    asked = [("it is " * (number % 2) + question, context) for number, (question, context) in enumerate(pairs)]
    data = answerer.prepare(asked, answers)

    def at(place, where):
        logits = np.zeros((len(data.tokenized), 24, 2), np.float32)
        logits[np.arange(len(logits)), where + place] = 9.0
        return answerer.score({"span_logits": logits}, data, "f1").degenerate

    assert at(8, np.zeros(len(data.tokenized), int))  # of the row
    assert at(2, data.labels[:, 2])  # of the context
    assert not at(np.arange(len(data.tokenized)) % 3, data.labels[:, 2])
    one = answerer.prepare(*toys(1, seed=4, words=(60, 90)))  # one question in several windows has nothing to vary
    assert len(one.tokenized) > 1 and not scored(answerer, one, lambda rows: rows).degenerate


def test_long_contexts_are_read_in_windows(trained):
    answerer = without_refusal(trained[0])
    pairs, answers = toys(40, seed=4, words=(60, 90))
    found = answerer.predict(pairs)
    assert np.mean([(answer.text, answer.start) == gold for answer, gold in zip(found, answers, strict=True)]) > 0.8


def test_answers_are_the_models_own(trained):
    answerer = without_refusal(trained[0])
    pairs, _ = toys(12, seed=5, words=(6, 10))
    found = answerer.predict(pairs, n_best=3)
    packed = pack(answerer.tokenizer, [pair[0] for pair in pairs], [pair[1] for pair in pairs])
    logits = answerer.model.predict(packed, verbose=0)["span_logits"]
    for answers, (question, context), row in zip(found, pairs, logits, strict=True):
        words, first = context.split(), 2 + len(question.split())
        spans = [(i, j) for i in range(len(words)) for j in range(i, len(words))]
        spans.sort(key=lambda span: -(row[first + span[0], 0] + row[first + span[1], 1]))
        assert [answer.text for answer in answers] == [" ".join(words[i : j + 1]) for i, j in spans[:3]]
        i, j = spans[0]
        assert answers[0].score == pytest.approx(row[first + i, 0] + row[first + j, 1], abs=1e-4)
    assert answerer.predict(*pairs[0]) == answerer.predict(pairs[0]) == answerer.predict(pairs[:1])[0]
    assert answerer.predict([]) == []


def test_n_best_has_no_answer_among_them(trained):
    answerer, _ = trained
    pairs, _ = toys(20, seed=6, impossible=0.5)
    for best, ranked in zip(answerer.predict(pairs), answerer.predict(pairs, n_best=60), strict=True):
        assert ranked[0].text == best.text and ranked[0].start == best.start
        assert sum(not answer for answer in ranked) == 1
        assert sum(answer.probability for answer in ranked) <= 1 + 1e-6


def test_saved_and_loaded_it_answers_the_same(trained, tmp_path):
    answerer, _ = trained
    answerer.save(tmp_path / "model")
    loaded = QuestionAnswerer.load(tmp_path / "model")
    assert loaded.settings() == answerer.settings() and loaded.sequence_length == 24
    pairs, _ = toys(20, seed=7, impossible=0.3)
    assert loaded.predict(pairs, n_best=2) == answerer.predict(pairs, n_best=2)
    head = QuestionAnswerer.from_pretrained(tmp_path / "model", sequence_length=24)  # the head comes along
    assert not head.fresh_heads and not head.unanswerable
    assert head.predict(pairs) == without_refusal(answerer).predict(pairs)


def test_training_on_files_and_plain_keras(tmp_path):
    pairs, answers = toys(24, seed=8)
    lines = [
        {"question": question, "context": context, "answers": [{"text": text, "answer_start": start}]}
        for (question, context), (text, start) in zip(pairs, answers, strict=True)
    ]
    lines[3]["answers"][0]["answer_start"] += 1
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    report = new_answerer().fit(tmp_path / "train.jsonl", epochs=1, verbose=0)
    assert report.metric == "training_f1" and "24 questions read, 23 kept, 1 dropped" in str(report)
    answerer = new_answerer()
    answerer.compile("sgd", jit_compile=False)
    history = answerer.fit(pairs, answers, validation_data=(pairs, answers), epochs=1, batch_size=8, verbose=0)
    assert np.isfinite(history.history["val_loss"]).all()


# === Loss ===


def test_loss_is_the_mean_of_both_cross_entropies():
    random = np.random.default_rng(0)
    logits = random.normal(size=(3, 9, 2)).astype("float32")
    logits[:, 1:4] += 20.0  # the question tempts, and so does the padding
    logits[:, 8:] += 20.0
    targets = np.array([[4, 6, 4, 8], [0, 0, 4, 7], [5, 5, 4, 6]])
    expected = []
    for row, (start, end, begin, stop) in zip(logits.astype("float64"), targets, strict=True):
        places = [0, *range(begin, stop)]
        parts = [np.log(np.exp(row[places, side]).sum()) - row[place, side] for side, place in ((0, start), (1, end))]
        expected.append(np.mean(parts))
    loss = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(SpanLoss()))
    assert float(loss(targets, logits)) == pytest.approx(np.mean(expected), abs=1e-5)
    weighted = float(loss(targets, logits, sample_weight=np.array([1.0, 0.0, 2.0])))
    assert weighted == pytest.approx((expected[0] + 2 * expected[2]) / 3, abs=1e-5)


# === Rows and targets ===

OPTIONS = {"sequence_length": 12, "stride": 3, "max_question_length": 4, "max_answer_length": 3}


def perfect_logits(data):
    """What a model would give that has learned the targets."""
    logits = np.zeros((len(data.labels), 40, 2))
    for side in (0, 1):
        logits[np.arange(len(logits)), data.labels[:, side], side] = 20.0
    return logits


def test_offsets_survive_accents_emoji_and_cjk():
    words = ["Zürich", "😀😀", "東京", "naïve", "cafe\u0301", "Ａ", "red", "İzmir", "한국", "x" * 120, "ﬁn"]
    tokenizer, random = BertTokenizer(VOCABULARY), np.random.default_rng(1)
    pairs, answers = [], []
    for _ in range(60):
        chosen = [str(word) for word in random.choice(words, 14)]
        first = int(random.integers(14))
        last = min(13, first + int(random.integers(2)))
        text = " ".join(chosen[first : last + 1])
        pairs.append(("which", " ".join(chosen)))
        answers.append((text, len(" ".join([*chosen[:first], ""]))))
    data = prepare_questions(tokenizer, as_questions(pairs, answers), **{**OPTIONS, "sequence_length": 20})
    assert data.notes == () or all("max_answer_length" in note for note in data.notes)
    splits = np.searchsorted(data.owners, np.arange(len(pairs) + 1))
    logits = perfect_logits(data)
    for number, (passage, (text, start)) in enumerate(zip(data.passages, answers, strict=True)):
        best = find_answers(logits[splits[number] : splits[number + 1]], passage).spans[0]
        assert (best.text, best.start) == (text, start) and passage.context[best.start : best.end] == text


def test_rows_hold_question_and_window():
    tokenizer = BertTokenizer(VOCABULARY)
    context = "the box is red and the lid is dark blue here"  # 11 tokens, room for 6: begins 0, 3, 6
    pairs = [("which colour of lid", context)]
    data = prepare_questions(tokenizer, as_questions(pairs, ["dark blue"]), **{**OPTIONS, "sequence_length": 13})
    ids, splits, _ = data.tokenized.packed()
    rows = [[tokenizer.id_to_token(number) for number in ids[a:b]] for a, b in itertools.pairwise(splits)]
    question = ["[CLS]", "which", "colour", "of", "lid", "[SEP]"]
    words = context.split()
    assert rows == [[*question, *words[begin : begin + 6], "[SEP]"] for begin in (0, 3, 6)]
    assert data.labels.tolist() == [[0, 0, 6, 12], [0, 0, 6, 12], [8, 9, 6, 11]]
    assert rows[2][8:10] == ["dark", "blue"] and data.owners.tolist() == [0, 0, 0] and data.weights is None


def test_what_cannot_be_learned_as_it_is_is_counted():
    tokenizer = BertTokenizer(VOCABULARY)
    pairs = [
        ("which " * 9, "the reds are here"),  # too long
        ("which", "the box is red here"),
        ("which", "reds here"),
        ("which", "the box " * 20),
        ("which", "here \u200b is"),  # no token has the answer
    ]
    answers = [("red", 4), ("re", 11), ("red", 0), (("the box " * 20).strip(), 0), ("\u200b", 5)]
    data = prepare_questions(tokenizer, as_questions(pairs, answers), **OPTIONS)
    assert data.notes == (
        "1 of 5 questions were cut to 4 tokens",
        "1 of 5 answers begin or end inside a word piece, and the whole piece is learned",
        "1 of 5 answers have more than max_answer_length=3 tokens, so they cannot be given",
        "2 of 5 answers do not fit into any window, and are not learned",
    )
    weights = [float(data.weights[data.owners == number].max()) for number in range(5)]
    assert weights == [1, 1, 1, 0, 0]
    assert data.labels[data.owners == 1].tolist() == [[6, 6, 3, 8]]  # the piece "red" for "re"
    first = data.first_rows(3)
    assert len(first.passages) == len(first.gold) == 3 and first.owners.tolist() == [0, 1, 2]
    assert len(data.first_rows(10).passages) == 3  # the windows of the fourth do not fit


# === Bad input ===


def test_what_fit_refuses():
    pairs, answers = toys(6, seed=1)
    with pytest.raises(ValueError, match="1 of 6 questions have no answer.*unanswerable=True"):
        new_answerer().fit(pairs, [None, *answers[1:]])
    with pytest.raises(ValueError, match="not at answer_start"):
        new_answerer().fit(pairs, [(answers[0][0], answers[0][1] + 1), *answers[1:]])
    with pytest.raises(ValueError, match="no questions"):
        new_answerer().fit([], [])
    with pytest.raises(ValueError, match="metric='accuracy'"):
        new_answerer().fit(pairs, answers, metric="accuracy")
    with pytest.raises(ValueError, match="class_weight and columns"):
        new_answerer().fit(pairs, answers, class_weight="balanced")
    with pytest.raises(ValueError, match="No answer fits"):
        new_answerer().fit([("which", "the box " * 30)], [("the box " * 30).strip()])


def test_what_predict_refuses():
    answerer = new_answerer()
    with pytest.raises(TypeError, match="no context"):
        answerer.predict("which colour")
    with pytest.raises(TypeError, match="context= is for one question"):
        answerer.predict([("which colour", "red")], "red")
    with pytest.raises(ValueError, match="empty question"):
        answerer.predict(" ", "a red box")
    with pytest.raises(ValueError, match="Pair 1: empty context"):
        answerer.predict([("which colour", "red"), ("which colour", "")])
    with pytest.raises(ValueError, match="n_best=0"):
        answerer.predict("which colour", "red", n_best=0)
    with pytest.warns(UserWarning, match="1 of 1 questions were cut to 10 tokens"):
        assert answerer.predict("which colour " * 30, "a red box").text


def test_what_the_constructor_refuses():
    with pytest.raises(ValueError, match="max_question_length=21: of 24 tokens.*expected 1 to 20"):
        new_answerer(max_question_length=21)
    with pytest.raises(ValueError, match="stride=0"):
        new_answerer(stride=0)
    model = bert_model(CONFIG, "classification", num_classes=2)
    with pytest.raises(ValueError, match="gives class_logits; expected span_logits"):
        QuestionAnswerer(model, BertTokenizer(VOCABULARY))
    answerer = new_answerer(sequence_length=None)
    assert (answerer.sequence_length, answerer.max_question_length, answerer.stride) == (48, 22, 11)
