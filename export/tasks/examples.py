"""Whatever a task's `evaluate` takes → inputs that a file can be asked, and what they can be scored with.

Takes data in any form that the task knows, with labels or without; gives `Examples`. A room of its own because the
checks, the packages, the calibration and the commands are handed the same data, and each task has its own forms of it.
A new task is a row in `_READ`.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from export.file.metadata import task_settings
from export.runtime.readers import Reader, find_reader

# What every file is tried with where there is no data: plain words, accents, CJK, emoji, punctuation, a long one.
PROBES = (
    "What a lovely film!",
    "wake me at quarter to six on Monday",
    "Der Kaffee im Café München war naïve 5½ Sterne wert.",
    "今天天气很好，我们去公园吧。",
    "great 👍🏽 … not!",
    "a " * 200,
    "?",
)


@dataclass(frozen=True)
class Examples:
    """Data for a file and its task.

    Args:
        inputs: What `task.predict` and the runtime take, a list.
        labelled: The same with labels, as `task.evaluate` takes it; `None` where there are none.
    """

    inputs: list
    labelled: Any = None


def read_examples(task, x: Any = None, y: Any = None, **columns) -> Examples:
    """Examples of a task.

    Args:
        task: The task.
        x: Inputs of `task.predict`; or labelled data in any form that `task.evaluate` takes; `None` takes a handful of
            texts of several kinds.
        y: The labels, where `x` is inputs.
        columns: Columns of a file, as for `task.evaluate`.

    Example:
        >>> read_examples(classifier, ["a fine film"], ["good"]).inputs  # doctest: +SKIP
        ['a fine film']
    """
    if task.name not in _READ:
        raise ValueError(f"The task {task.name!r} cannot be verified yet; these can: {', '.join(_READ)}.")
    return _READ[task.name](task, x, y, **columns)


def task_reader(task, sequence_length: int) -> Reader:
    """How a task reads in rows of that many tokens: as its file will, with the tokenizer of the graph.

    Example:
        >>> task_reader(classifier, 32).prepare(["a fine film"]).tokenized.lengths  # doctest: +SKIP
        array([5])
    """
    return find_reader(task.name)(
        task.tokenizer,
        sequence_length=sequence_length,
        labels=task.labels,
        kind=getattr(task, "kind", None),
        settings=task_settings(task),
    )


# === Classification ===


def _read_texts(task, x, y, **columns):
    from keras_bert.data.inputs import as_rows

    rows = as_rows(list(PROBES) if x is None else x, y, numeric=task.kind == "regression", **columns)
    return Examples(list(rows.inputs), None if any(label is None for label in rows.labels) else rows)


def _read_aspects(task, x, y, **columns):
    from keras_bert.tasks.classification.aspect_files import read_aspects

    if isinstance(x, str | os.PathLike):
        x, columns = read_aspects(x, **columns), {}
    return _read_texts(task, [(text, "it") for text in PROBES] if x is None else x, y, **columns)


# === Relations ===


def _read_relations(task, x, y, **columns):
    from keras_bert.tasks.relation.files import as_relation_rows

    rows = as_relation_rows(_marked_probes() if x is None else x, y, **columns)
    return Examples(list(rows.texts), None if any(example.label is None for example in rows) else rows)


def _marked_probes():
    """The first and the last part of each text that has two."""
    parts = [text.split() for text in PROBES if " " in text]
    return [f"<e1>{first}</e1> {' '.join(others)} <e2>{last}</e2>" for first, *others, last in parts]


# === Choices ===


def _read_choices(task, x, y, **columns):
    from keras_bert.tasks.multiple_choice.files import as_choices

    rows = as_choices([(text, list(PROBES[:3])) for text in PROBES] if x is None else x, y, **columns)
    known = all(question.label is not None for question in rows)
    return Examples([(question.context, list(question.choices)) for question in rows], rows if known else None)


# === Vectors ===


def _read_sentences(task, x, y, **columns):
    from keras_bert.tasks.similarity.files import as_sentence_groups

    if x is None or (isinstance(x, list | tuple) and all(isinstance(text, str) for text in x)):
        return Examples(list(PROBES if x is None else x))
    groups = as_sentence_groups(x, y, **columns)
    return Examples(list(groups.texts), groups)


# === Sources ===


def _read_sources(task, x, y, **columns):
    """Sources alone are strings, or lists of strings; tuples are pairs of source and target."""
    from keras_bert.tasks.generation.files import as_generation_rows

    if x is None or (y is None and isinstance(x, list | tuple) and all(isinstance(one, str | list) for one in x)):
        return Examples(list(PROBES if x is None else x))
    rows = as_generation_rows(x, y, **columns)
    known = all(example.target is not None for example in rows)
    return Examples(list(rows.sources), rows if known else None)


# === Entities and commands ===


def _read_words(task, x, y, **columns):
    if x is None or (y is None and isinstance(x, list | tuple) and all(map(_is_text, x))):
        return Examples(list(PROBES if x is None else x))
    rows = task.read(x, y, **columns)
    return Examples([list(words) for words in rows.words], None if None in rows.tags else rows)


def _is_text(item):
    """Whether this is a string, or a list of words."""
    return isinstance(item, str) or (isinstance(item, list | tuple) and all(isinstance(word, str) for word in item))


# === Questions ===


def _read_questions(task, x, y, **columns):
    from keras_bert.tasks.question_answering.files import as_questions, check_pairs

    if columns:
        raise ValueError(f"columns={columns} are for tables; questions have none. Leave them out.")
    if x is None:
        return Examples([("What is it?", text) for text in PROBES])
    if y is None and isinstance(x, list | tuple) and x and all(isinstance(item, list | tuple) for item in x):
        return Examples(check_pairs(x))
    questions = as_questions(x, y)
    return Examples([(question.question, question.context) for question in questions], questions)


_READ: dict[str, Callable[..., Examples]] = {
    "aspect": _read_aspects,
    "classification": _read_texts,
    "intent_slots": _read_words,
    "multiple_choice": _read_choices,
    "question_answering": _read_questions,
    "relation": _read_relations,
    "seq2seq": _read_sources,
    "similarity": _read_sentences,
    "tagging": _read_words,
}
