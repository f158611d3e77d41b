"""BLEU and ROUGE are those of the reference implementations; keras-hub's agree with them."""

import sys

import keras_hub
import numpy as np
import pytest
import sacrebleu
from rouge_score import rouge_scorer

from keras_bert.tasks.generation import metrics

WRITTEN = ["the cat sat on the mat .", "a small dog runs over the green grass", "he didn't see it, did he?"]
WANTED = ["The cat is on the mat.", "A small dog is running over the grass", "he did not see it, did he?"]


def test_bleu_is_sacrebleu():
    for lowercase in (False, True):
        reference = sacrebleu.corpus_bleu(WRITTEN, [WANTED], lowercase=lowercase).score
        assert metrics.bleu_score(WRITTEN, WANTED, lowercase=lowercase) == pytest.approx(reference)
    assert metrics.bleu_score(["今天天气很好"], ["今天的天气很好"]) == pytest.approx(
        sacrebleu.corpus_bleu(["今天天气很好"], [["今天的天气很好"]], tokenize="zh").score
    )


def test_keras_hub_agrees_on_bleu():
    hub = keras_hub.metrics.Bleu()
    hub.update_state([[text] for text in WANTED], WRITTEN)
    assert 100 * float(hub.result()) == pytest.approx(metrics.bleu_score(WRITTEN, WANTED), abs=1e-3)


def test_rouge_is_rouge_score_and_keras_hub_agrees():
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"])
    scores = [scorer.score(wanted, written) for wanted, written in zip(WANTED, WRITTEN, strict=True)]
    ours = metrics.rouge_scores(WRITTEN, WANTED)
    for name, value in ours.items():
        assert value == pytest.approx(100 * np.mean([score[name].fmeasure for score in scores])), name
    hub = {"rouge2": keras_hub.metrics.RougeN(order=2), "rougeL": keras_hub.metrics.RougeL()}
    for name, metric in hub.items():
        metric.update_state(WANTED, WRITTEN)
        assert 100 * float(metric.result()["f1_score"]) == pytest.approx(ours[name], abs=1e-3)


def test_rouge_of_other_scripts():
    # By characters: 4 of 4 and 4 of 5.
    assert metrics.rouge_scores(["天气很好"], ["天气很好！吗"])["rouge1"] == pytest.approx(100 * 8 / 9)
    assert metrics.rouge_scores(["süßer Hund"], ["süßer Hund"])["rouge2"] == pytest.approx(100)
    assert metrics.is_chinese(["今天 is 天气"]) and not metrics.is_chinese(["today 天"])


def test_distinct_n_grams():
    assert metrics.distinct_share([["a", "b", "a"], ["a", "b"]], 1) == pytest.approx(2 / 5)
    assert metrics.distinct_share([["a", "b", "a"], ["a", "b"]], 2) == pytest.approx(2 / 3)
    assert metrics.distinct_share([["a"]], 2) == 0


def test_the_report():
    report = metrics.generation_report(
        ["ein Hund", "eine Katze "], ["ein Hund", "eine Katze"], loss=1.5, notes=("cut",)
    )
    assert report.exact_match == 1 and report.length == 1 and report.distinct_1 == 1
    lines = str(report).splitlines()
    assert lines[0].split()[:4] == ["BLEU", "ROUGE-1", "ROUGE-2", "ROUGE-L"] and lines[1].split()[-1] == "1.5000"
    assert lines[-1] == "note: cut" and report.to_dict()["notes"] == ["cut"]
    with pytest.raises(ValueError, match="1 generated texts and 2 references"):
        metrics.generation_report(["a"], ["a", "b"])


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ImportError, match=r'pip install "keras-bert-edge\[generate\]"'):
        metrics.bleu_score(["a"], ["a"])
