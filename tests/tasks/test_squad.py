"""Questions from files that nobody vouches for, and the scores that the world compares."""

import gzip
import json

import numpy as np
import pytest

from keras_bert.tasks.question_answering.files import GoldAnswer, Question, as_questions, check_pairs, read_squad
from keras_bert.tasks.question_answering.metrics import (
    answer_f1,
    answer_report,
    best_threshold,
    exact_match,
    normalize_answer,
)

CONTEXT = "Über 40 Züge 🚆 nach Malmö; 東京 is far, Malmö is near."
LAST = CONTEXT.rindex("Malmö")


def document(*entries, context=CONTEXT):
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(entries)}]}]}


def write(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def entry(text="Malmö", start=None, **more):
    start = CONTEXT.index(text) if start is None else start
    return {"id": "q1", "question": "Where?", "answers": [{"text": text, "answer_start": start}], **more}


# === Reading ===


def test_both_versions_are_read(tmp_path):
    second = {"id": "q2", "question": "Why?", "answers": [], "is_impossible": True, "plausible_answers": [{}]}
    path = write(tmp_path / "dev.json", document(entry(is_impossible=False), second, entry("東京")))
    questions = read_squad(path)
    assert questions[0] == Question("Where?", CONTEXT, (GoldAnswer("Malmö", 20),), "q1")
    assert CONTEXT[20:25] == "Malmö" and questions[2].answers[0].end == 29
    assert questions[1].answers == () and len(questions) == 3
    assert str(questions.report) == "3 questions read, 3 kept, 0 dropped; 1 have no answer"
    assert questions.report.to_dict()["unanswerable"] == 1


def test_the_report_names_reasons_and_places(tmp_path):
    broken = [entry(question="  ") for _ in range(6)]
    questions = read_squad(write(tmp_path / "dev.json", document(entry(), *broken, entry(question=3))), strict=False)
    top, *reasons = str(questions.report).splitlines()
    assert top == "8 questions read, 1 kept, 7 dropped"
    empty = next(line for line in reasons if "empty question" in line)
    assert "empty question: 6 (" in empty and empty.count("qas[") == 5 and empty.endswith(" and 1 more)")
    assert "qas[7]" in next(line for line in reasons if "question is no string" in line) and len(reasons) == 2


def test_lines_of_json_in_every_form(tmp_path):
    forms = [
        {"answers": [{"text": "Malmö", "answer_start": LAST}]},
        {"answers": {"text": ["Malmö"], "answer_start": [20]}},
        {"answers": {"text": [], "answer_start": []}},
        {"answers": ["Malmö", "東京"]},
        {"answer": "Malmö"},
        {"is_impossible": True},
    ]
    lines = [json.dumps({"question": "Where?", "context": CONTEXT, **form}) for form in forms]
    (tmp_path / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with gzip.open(tmp_path / "train.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(lines))
    for name in ("train.jsonl", "train.jsonl.gz"):
        answers = [question.answers for question in read_squad(tmp_path / name)]
        assert [[answer.start for answer in golds] for golds in answers] == [[LAST], [20], [], [20, 27], [20], []]


BAD = {
    "no key 'question'": {"answers": []},
    "question is no string": entry(question=3),
    "empty question": entry(question="  "),
    "question is no valid UTF-8": entry(question="\ud800"),
    "no key 'answers'": {"question": "Where?"},
    "answer has no text": entry(answers=[{"answer_start": 3}]),
    "answer is not at answer_start; it is elsewhere in the context": entry(start=21),
    "answer is not at answer_start; it is not in the context": entry("Rome", start=3),
    "answer is not in the context": entry(answers=["Rome"]),
    "answer_start is not a character offset from 0": entry(start=-5),
    "answer_start is not a character offset from 0 ": entry(answers=[{"text": "Malmö", "answer_start": 20.0}]),
    "answer is neither a text nor a text with its start": entry(answers=[7]),
    "answers has different numbers of 'answer_start' and 'text'": entry(
        answers={"text": ["Malmö"], "answer_start": []}
    ),
    "is_impossible, yet it has answers": entry(is_impossible=True),
    "is not is_impossible, yet it has no answers": entry(answers=[], is_impossible=False),
    "is_impossible is neither true nor false": entry(is_impossible="no"),
    "not a JSON object": "hello",
}


@pytest.mark.parametrize("reason", BAD)
def test_bad_entries_are_dropped_and_named(reason, tmp_path):
    path = write(tmp_path / "dev.json", document(entry(), BAD[reason], entry()))
    report = read_squad(path).report
    assert (report.read, report.kept) == (3, 2)
    (dropped,) = report.dropped
    assert dropped.reason == reason.strip() and dropped.place.startswith("data[0].paragraphs[0].qas[1]")
    assert f"{reason.strip()}: 1 (data[0]" in str(report)
    with pytest.raises(ValueError, match="strict=False"):
        read_squad(path, strict=True)


def test_broken_structure_is_named_too(tmp_path):
    content = document(entry())
    content["data"] += [3, {"paragraphs": "none"}, {"paragraphs": ["x", {"context": CONTEXT}, {"qas": [entry()]}]}]
    report = read_squad(write(tmp_path / "dev.json", content)).report
    assert [(drop.place, drop.reason) for drop in report.dropped] == [
        ("data[1]", "no list 'paragraphs'"),
        ("data[2]", "no list 'paragraphs'"),
        ("data[3].paragraphs[0]", "no list 'qas'"),
        ("data[3].paragraphs[1]", "no list 'qas'"),
        ("data[3].paragraphs[2].qas[0] (id 'q1')", "no key 'context'"),
    ]


def test_files_that_are_no_data(tmp_path):
    (tmp_path / "a.json").write_text("{", encoding="utf-8")
    (tmp_path / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    (tmp_path / "b.json.gz").write_bytes(b"no gzip")
    cases = [
        (tmp_path / "a.json", "not a JSON document"),
        (tmp_path / "deep.json", "not a JSON document"),
        (tmp_path / "b.json.gz", "not a complete gzip"),
        (write(tmp_path / "c.json", [1]), "not a SQuAD file"),
        (write(tmp_path / "d.json", document({})), "(?s)No usable question.*no key 'question'"),
        ([], "no file to read"),
    ]
    for path, words in cases:
        with pytest.raises(ValueError, match=words):
            read_squad(path)
    both = read_squad(
        [write(tmp_path / "e.json", document(entry(), {})), write(tmp_path / "f.json", document(entry()))]
    )
    assert len(both) == 2 and "e.json: data[0]" in both.report.dropped[0].place


def test_questions_from_values(tmp_path):
    pairs = [("Where?", CONTEXT)] * 4
    questions = as_questions(pairs, ["Malmö", ("Malmö", LAST), None, ["東京", ("Malmö", LAST)]])
    assert [[answer.start for answer in question.answers] for question in questions] == [[20], [LAST], [], [27, LAST]]
    assert as_questions(questions) is questions and as_questions(list(questions)).questions == questions.questions
    assert len(as_questions(write(tmp_path / "dev.json", document(entry())))) == 1
    with pytest.raises(ValueError, match="Question 1 .*not in the context"):
        as_questions(pairs[:2], ["Malmö", "Rome"])
    with pytest.raises(ValueError, match="4 questions and 1 answers"):
        as_questions(pairs, ["Malmö"])
    with pytest.raises(ValueError, match="Pair 0: empty context"):
        check_pairs([("Where?", " ")])
    with pytest.raises(TypeError, match=r"Question 1 is .*\(question, context\)"):
        check_pairs([("Where?", "In Rome."), "Where?"])


# === Scores ===


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        (" The  U.S.\tarmy!", "us army"),
        ("An apple, a day", "apple day"),
        ("the-end", "theend"),  # punctuation goes first, and glues
        ("a—b", "—b"),  # a dash that is not ASCII stays, and bounds the article
        ("“The end”", "“ end”"),
        ("Theatre and another", "theatre and another"),
        ("a_b", "ab"),
        ("l’été 東京。", "l’été 東京。"),
        ("one\u00a0two", "one two"),
        ("the", ""),
        ("$5.00", "500"),
    ],
)
def test_normalization_is_the_official_one(text, normal):
    assert normalize_answer(text) == normal


@pytest.mark.parametrize(
    ("answer", "gold", "exact", "f1"),
    [
        ("the Rhine", ["Rhine"], 1, 1),
        ("Rhine river", ["Elbe", "the river Rhine"], 0, 1),  # the order of words is not looked at
        ("rose is a rose", ["rose rose rose"], 0, 2 / 3),  # a word counts as often as both have it
        ("in the river Rhine", ["Rhine", "river Rhine"], 0, 0.8),  # the best gold answer
        ("Elbe", ["Rhine"], 0, 0),
        ("", ["Rhine"], 0, 0),
        ("Rhine", [], 0, 0),
        ("", [], 1, 1),
        ("the", [], 1, 1),  # nothing is left of it
        ("", ["the"], 1, 1),  # nor of the gold answer, which then is none
        ("a", ["the", "Rhine"], 0, 0),  # gold answers of which nothing is left do not count
        ("«Rhine»", ["Rhine"], 0, 0),  # only ASCII punctuation is removed
    ],
)
def test_scores_by_hand(answer, gold, exact, f1):
    assert exact_match(answer, gold) == exact
    assert answer_f1(answer, gold) == pytest.approx(f1)


@pytest.mark.parametrize("seed", range(20))
def test_the_best_threshold_equals_brute_force(seed):
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 30))
    answerable = random.random(count) < 0.6
    scores = np.where(answerable, random.random(count).round(1), 0.0)
    margins = random.normal(size=count).round(int(random.integers(0, 3)))  # with ties
    threshold, score = best_threshold(scores, answerable, margins)

    def mean_score(at):
        return np.mean(np.where(margins > at, ~answerable, scores))

    tried = [mean_score(at) for at in (-100, *margins, *(margins + 1e-3), 100)]
    assert score == pytest.approx(max(tried)) == pytest.approx(mean_score(threshold))
    with pytest.raises(ValueError, match="no questions"):
        best_threshold([], [], [])


def test_report_of_questions_without_answers():
    answers, gold = ["the Rhine", "Elbe", "Rome", "Oslo"], [["Rhine"], ["Elbe river"], [], []]
    margins = [-2.0, -1.0, 1.0, -1.5]
    report = answer_report(answers, gold, margins=margins, threshold=0.0, notes=["one was cut"])
    assert report.exact_match == 0.5 and report.f1 == pytest.approx((1 + 2 / 3 + 1 + 0) / 4)
    assert report.has_answer.exact_match == 0.5 and report.no_answer.f1 == 0.5 and report.no_answer.count == 2
    assert (report.best_f1, report.best_f1_threshold) == (0.75, -1.75)  # refuses all but the first
    assert json.loads(json.dumps(report.to_dict())) == report.to_dict()
    assert "no answer" in str(report) and "threshold 0.000" in str(report) and "note: one was cut" in str(report)
    plain = answer_report(answers[:2], gold[:2])
    assert plain.no_answer is None and plain.best_f1 is None
    assert str(plain) == "exact match 0.5000 · F1 0.8333 · 2 questions"


def test_reports_that_cannot_be():
    with pytest.raises(ValueError, match="1 answers to 2 questions"):
        answer_report(["a"], [["a"], []])
    with pytest.raises(ValueError, match="no questions"):
        answer_report([], [])
    with pytest.raises(ValueError, match="compared with margins"):
        answer_report(["a"], [["a"]], threshold=0.0)
