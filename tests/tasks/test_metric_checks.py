"""A metric that cannot be measured is an error before anything trains, whichever the task."""

import sys

import keras
import numpy as np
import pytest
from tiny_tasks import pretrained_directory, reviews

from keras_bert.tasks.classification.aspect import AspectClassifier
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.tasks.generation.task import Seq2Seq
from keras_bert.tasks.intent_slots.task import IntentSlots
from keras_bert.tasks.multiple_choice.task import MultipleChoice
from keras_bert.tasks.question_answering.task import QuestionAnswerer
from keras_bert.tasks.relation.task import RelationClassifier
from keras_bert.tasks.similarity.task import SentenceEmbedder
from keras_bert.tasks.tagging.task import EntityTagger

TEXTS, CLASSES = reviews(8, seed=1)
PAIRS = [(text, "the plot") for text in TEXTS]
WORDS = [["good", "film"], ["the", "bad", "plot"]] * 4
TAGS = [["B-MOOD", "O"], ["O", "B-MOOD", "O"]] * 4
# The settings of each task, and data that it learns from.
TASKS = {
    "classes": (TextClassifier, {"labels": ["bad", "good"]}, (TEXTS, CLASSES)),
    "three classes": (TextClassifier, {"labels": ["bad", "good", "fair"]}, (TEXTS, CLASSES)),
    "several labels": (TextClassifier, {"labels": ["bad", "good"], "kind": "multi_label"}, (TEXTS, CLASSES)),
    "numbers": (TextClassifier, {"kind": "regression"}, (TEXTS, [float(len(text)) for text in TEXTS])),
    "aspects": (AspectClassifier, {}, (PAIRS, ["negative", "positive"] * 4)),
    "entities": (EntityTagger, {"labels": ["MOOD"]}, (WORDS, TAGS)),
    "chains": (EntityTagger, {"labels": ["MOOD"], "head": "crf"}, (WORDS, TAGS)),
    "answers": (QuestionAnswerer, {}, ([("which", "the good film")] * 8, ["good", "film"] * 4)),
    "commands": (
        IntentSlots,
        {"intents": ["ask", "tell"], "slots": ["MOOD"]},
        (WORDS, list(zip(["ask", "tell"] * 4, TAGS, strict=True))),
    ),
    "relations": (
        RelationClassifier,
        {"labels": ["a", "b"], "markers": ["it", "is", "very", "and"]},
        (["the <e1>film</e1> was <e2>good</e2>", "the <e1>plot</e1> was <e2>bad</e2>"] * 4, ["a", "b"] * 4),
    ),
    "choices": (MultipleChoice, {}, ([("the film was", ["good", "bad"])] * 8, [0, 1] * 4)),
    "cosines": (SentenceEmbedder, {}, (PAIRS, np.linspace(0, 1, 8))),
    "texts": (Seq2Seq, {"target_length": 8}, (TEXTS, ["good film", "bad plot"] * 4)),
}


def new_task(name):
    kind, options, data = TASKS[name]
    return kind.from_pretrained(pretrained_directory(), **options), data


@pytest.fixture
def no_training(monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("it trains")

    monkeypatch.setattr(keras.Model, "fit", fail)


@pytest.mark.parametrize("name", TASKS)
def test_an_unknown_metric(name, no_training):
    task, data = new_task(name)
    names = {"three classes": "f1", "several labels": "f1", "numbers": "mse"}
    for given in ({"validation_data": data}, {}):
        with pytest.raises(ValueError, match=f"metric='{names.get(name, 'beauty')}'"):
            task.fit(*data, metric=names.get(name, "beauty"), verbose=0, **given)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.slow
def test_a_known_metric_trains(name, no_training):
    task, data = new_task(name)
    with pytest.raises(AssertionError, match="it trains"):
        task.fit(*data, validation_data=data, verbose=0)


@pytest.mark.parametrize(
    ("name", "metric", "package"),
    [
        ("numbers", None, "scipy.stats"),
        ("cosines", None, "scipy.stats"),
        ("several labels", None, "sklearn.metrics"),
        ("classes", "f1", "sklearn.metrics"),
        ("aspects", "macro_f1", "sklearn.metrics"),
    ],
)
def test_a_missing_package(name, metric, package, no_training, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    task, data = new_task(name)
    with pytest.raises(ImportError, match=rf"{package}; install it: pip install .*\[evaluate\]"):
        task.fit(*data, validation_data=data, metric=metric, verbose=0)
