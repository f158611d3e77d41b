"""Texts without labels → examples that carry the teacher's answers as labels.

Takes whatever a task's `predict` takes (plain strings for a classifier); gives what its `fit` takes. With labels by the
teacher, text that nobody labelled goes the same way as text that somebody did, and a score says how often the student
agrees with its teacher. A room of its own because every task writes an answer and a label differently: a new task is a
row in `_LABELS`.
"""

from typing import Any

import numpy as np

from export.tasks.examples import read_examples
from keras_bert.decoding.similarity import normalize_vectors
from keras_bert.decoding.tags import OUTSIDE
from keras_bert.tasks.base.task import Task
from keras_bert.text.words import locate_words


def label_texts(teacher: Task, x: Any, y: Any = None, **columns) -> tuple[Any, Any, dict]:
    """Data as it is where it has labels; else with the teacher's answers.

    Args:
        teacher: A trained task.
        x, y: Labelled data in any form that `teacher.fit` takes; or inputs of `teacher.predict`.
        columns: Columns of a file.

    Returns:
        x, y and columns for `fit`.

    Example:
        ```python
        x, y, columns = label_texts(classifier, ["a fine film", "what a bore"])  # y: ["positive", "negative"]
        ```
    """
    examples = read_examples(teacher, x, y, **columns)
    if examples.labelled is not None:
        return x, y, columns
    if not examples.inputs:
        raise ValueError("There are no texts; expected some for the teacher to label.")
    return *_LABELS[teacher.name](teacher, examples.inputs), {}


def _classes(teacher, texts):
    answers = teacher.predict(texts)
    if teacher.kind == "regression":
        return texts, answers
    if teacher.kind == "multi_label":
        return texts, [tuple(label.name for label in labels) for labels in answers]
    return texts, [labels[0].name for labels in answers]


def _aspects(teacher, pairs):
    return pairs, [answer.label for answer in teacher.predict(pairs)]


def _relations(teacher, texts):
    return texts, [labels[0].name for labels in teacher.predict(texts)]


def _entities(teacher, texts):
    return texts, [_spans(text, found) for text, found in zip(texts, teacher.predict(texts), strict=True)]


def _commands(teacher, texts):
    answers = teacher.predict(texts)
    return texts, [(answer.intent, _spans(text, answer.slots)) for text, answer in zip(texts, answers, strict=True)]


def _spans(text, entities):
    """Entities as labels of a string; of a list of words as tags, for it has no places."""
    if isinstance(text, str):
        return [(entity.start, entity.end, entity.label) for entity in entities]
    tags = []
    for _, start, _ in locate_words(text)[1]:
        inside = next((entity for entity in entities if entity.start <= start < entity.end), None)
        tags.append(OUTSIDE if inside is None else f"{'B' if start == inside.start else 'I'}-{inside.label}")
    return tags


def _answers(teacher, pairs):
    answers = teacher.predict(pairs)
    return pairs, [(answer.text, answer.start) if answer.text else None for answer in answers]


def _choices(teacher, questions):
    return questions, [ranked[0].index for ranked in teacher.predict(questions)]


def _pairs(teacher, texts):
    """Each text with the next one, and the cosine between them on the scale of the task's scores."""
    vectors = normalize_vectors(teacher.predict(texts))
    first = np.arange(0, len(texts), 2)
    second = (first + 1) % len(texts)
    cosines = np.sum(vectors[first] * vectors[second], axis=-1)
    if teacher.score_range is not None:
        low, high = teacher.score_range
        share = (cosines + 1) / 2 if low < 0 else np.clip(cosines, 0, 1)
        cosines = low + share * (high - low)
    cosines = np.clip(cosines, *(teacher.score_range or (-1, 1)))
    return [(texts[one], texts[other]) for one, other in zip(first, second, strict=True)], cosines.tolist()


_LABELS = {
    "aspect": _aspects,
    "classification": _classes,
    "intent_slots": _commands,
    "multiple_choice": _choices,
    "question_answering": _answers,
    "relation": _relations,
    "similarity": _pairs,
    "tagging": _entities,
}
