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


def make(kind, names, length):
    """A task with these names, or a reason why there is none."""
    options = {"sequence_length": length, "seed": 1}
    if kind is keras_bert.IntentSlots:
        return kind.from_pretrained(pretrained_directory(), intents=names, slots=names[:1], **options)
    return kind.from_pretrained(pretrained_directory(), labels=names, **options)


def save(kind, names, length, place):
    """The task and what was saved of it, or the words by which it was refused."""
    try:
        task = make(kind, names, length)
        task.save(place)
    except ValueError as error:
        return str(error)
    return task, keras_bert.load_task(place)


def check(kind, names, length):
    with tempfile.TemporaryDirectory() as place:
        found = save(kind, names, length, Path(place) / "saved")
        if isinstance(found, str):
            assert len(found) > 20 and not (Path(place) / "saved").exists()
            return False
    task, opened = found
    assert type(opened) is type(task) and list(opened.labels) == list(task.labels)
    assert opened.settings() == task.settings() and opened.sequence_length == task.sequence_length
    tokenized, *_ = task.tokenize(TEXTS)
    before, after = task.outputs(tokenized), opened.outputs(opened.tokenize(TEXTS)[0])
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])
    return True


@rounds(5)
@given(NAMES, LENGTHS)
def test_classifiers(names, length):
    check(keras_bert.TextClassifier, names, length)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        keras_bert.TextClassifier,
        keras_bert.EntityTagger,
        keras_bert.IntentSlots,
        keras_bert.AspectClassifier,
    ],
)
def test_every_task_with_labels(kind):
    kept = []

    @rounds(10)
    @given(NAMES, LENGTHS)
    def holds(names, length):
        kept.append(check(kind, names, length))

    holds()
    assert sum(kept) > 3, "nearly all names were refused"
