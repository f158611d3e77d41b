"""What is saved is what is opened: any task, any names of classes, any settings."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_tasks import pretrained_directory

import keras_bert

NAMES = st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=12), min_size=2, max_size=5)
LENGTHS = st.integers(4, 32)
TEXTS = ["a good film", "the plot was dull and the cast was poor", ""]


def rounds(count):
    return settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


# What a task takes beside its length: names, and settings that follow from numbers.
FORMS = {
    "classifier": (keras_bert.TextClassifier, lambda names, number: {"labels": names}),
    "several labels": (
        keras_bert.TextClassifier,
        lambda names, number: {"labels": names, "kind": "multi_label", "pooling": ("cls", "mean")[number % 2]},
    ),
    "numbers": (
        keras_bert.TextClassifier,
        lambda names, number: {"kind": "regression", "long_texts": ("cut", "windows")[number % 2]},
    ),
    "entities": (
        keras_bert.EntityTagger,
        lambda names, number: {"labels": names, "scheme": ("BIO", "BIOES")[number % 2]},
    ),
    "entities with a CRF": (keras_bert.EntityTagger, lambda names, number: {"labels": names, "head": "crf"}),
    "intents": (keras_bert.IntentSlots, lambda names, number: {"intents": names, "slots": names[:1]}),
    "aspects": (keras_bert.AspectClassifier, lambda names, number: {"labels": names}),
    "relations": (
        keras_bert.RelationClassifier,
        lambda names, number: {"labels": names, "negative_label": (None, names[0])[number % 2]},
    ),
    "questions": (
        keras_bert.QuestionAnswerer,
        lambda names, number: {"unanswerable": bool(number % 2), "no_answer_threshold": number / 7, "stride": 1},
    ),
    "sentences": (
        keras_bert.SentenceEmbedder,
        lambda names, number: {"pooling": ("mean", "cls")[number % 2], "score_range": (-number - 1, number)},
    ),
    "choices": (keras_bert.MultipleChoice, lambda names, number: {}),
    "writing": (keras_bert.Seq2Seq, lambda names, number: {"target_length": 2, "keeps": ("start", "end")[number % 2]}),
}


def make(form, names, length, number):
    """A task with these names and settings, or the error that says why there is none."""
    kind, options = FORMS[form]
    return kind.from_pretrained(pretrained_directory(), sequence_length=length, seed=number, **options(names, number))


def save(place, *choice):
    """The task and what was saved of it, or the words by which it was refused."""
    try:
        task = make(*choice)
        task.save(place)
    except ValueError as error:
        return str(error)
    return task, keras_bert.load_task(place)


def check(*choice):
    with tempfile.TemporaryDirectory() as place:
        found = save(Path(place) / "saved", *choice)
        if isinstance(found, str):
            assert len(found) > 20 and not (Path(place) / "saved").exists()
            return False
    task, opened = found
    assert type(opened) is type(task)
    assert list(getattr(opened, "labels", None) or ()) == list(getattr(task, "labels", None) or ())
    assert opened.all_settings() == task.all_settings() and opened.config == task.config
    assert opened.tokenizer.vocabulary == task.tokenizer.vocabulary
    weights = {weight.path.partition("/")[2]: weight.numpy() for weight in task.model.weights}
    for weight in opened.model.weights:
        np.testing.assert_array_equal(weight.numpy(), weights[weight.path.partition("/")[2]])
    ids = np.array([[2, 7, 8, 3], [2, 9, 3, 0]], "int32")
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": (ids > 0).astype("int32")}
    before, after = task.model(inputs), opened.model(inputs)
    assert before.keys() == after.keys()
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])
    return True


NUMBERS = st.integers(0, 50)


@rounds(5)
@given(NAMES, LENGTHS, NUMBERS)
def test_classifiers(names, length, number):
    check("classifier", names, length, number)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_task(form):
    kept = []

    @rounds(10)
    @given(NAMES, LENGTHS, NUMBERS)
    def holds(names, length, number):
        kept.append(check(form, names, length, number))

    holds()
    assert sum(kept) > 3, "nearly all were refused"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["similarity", "entailment"])
def test_zero_shot_classifiers(method, tmp_path):
    inner = "sentences" if method == "similarity" else "classifier"

    @rounds(5)
    @given(st.lists(st.text("ab{}\\'\"ß中", min_size=1, max_size=5), min_size=1, max_size=3, unique=True), NUMBERS)
    def holds(labels, number):
        task = make(inner, ["entailment", "neutral", "contradiction"], 16, 1)
        task = keras_bert.ZeroShotClassifier(task, labels=labels, template=f"{{}} is {number}", temperature=1 + number)
        place = tmp_path / f"{number} {len(list(tmp_path.iterdir()))}"
        task.save(place)
        opened = keras_bert.load_task(place)
        assert (opened.method, opened.template, opened.temperature) == (method, task.template, task.temperature)
        assert opened.predict(TEXTS[:1]) == task.predict(TEXTS[:1])

    holds()
