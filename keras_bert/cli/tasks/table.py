"""How the commands treat each task: which files it reads, how it is made, how its answers look. One row a task.

A room of its own because `finetune`, `evaluate` and `predict` ask the same questions of every task; a new task is a row
in `TASKS`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from keras_bert.cli.data_flags import read_columns, read_labelled
from keras_bert.cli.output import note
from keras_bert.cli.tasks import sentences
from keras_bert.cli.tasks.held_out import hold_out_classes, hold_out_tenth

_NEGATIVES = ("Other", "no_relation", "no-relation", "NA", "none")  # what data sets call texts without a relation


@dataclass(frozen=True)
class TaskCommands:
    """What the commands need to know of a task.

    Args:
        read: Takes arguments, path, split and the task's kind, gives labelled data with a `report` of what was dropped.
        make: Takes arguments and all data, of which some may be held out, gives an untrained task.
        hold_out: Takes data, gives a tenth of it apart, to measure on.
        plain: An answer as JSON can say it.
        words: That, in words.
        ask: Takes a task and texts, gives its answers; where texts are more than `predict` takes as they are.
    """

    read: Callable
    make: Callable
    hold_out: Callable
    plain: Callable[[Any], Any]
    words: Callable[[Any], str]
    ask: Callable[[Any, list], Any] = lambda task, texts: task.predict(texts)


# === Classification ===


def _read_classes(arguments, path, split, kind=None):
    return read_labelled(arguments, path, split, numeric=kind == "regression")


def find_kind(arguments, rows) -> str:
    """Which kind of labels there are: as the user says, as GLUE says, or as the labels look."""
    if arguments.kind is not None:
        return arguments.kind
    if arguments.glue:
        from keras_bert.data.glue import glue_task

        return "regression" if glue_task(arguments.glue).kind == "regression" else "single_label"
    if rows is None:
        return "single_label"
    if any(isinstance(example.label, tuple) for example in rows):
        return "multi_label"
    return "regression" if _are_scores(example.label for example in rows) else "single_label"


def _are_scores(labels):
    """Whether all labels are numbers and some have a fraction, as scores do and the numbers of classes do not."""
    try:
        numbers = [float(label) for label in labels]
    except (TypeError, ValueError):
        return False
    return all(map(math.isfinite, numbers)) and not all(number.is_integer() for number in numbers)


def _make_classifier(arguments, train):
    from keras_bert.data.labelled_texts import describe_labels
    from keras_bert.tasks.classification.task import TextClassifier

    kind = find_kind(arguments, train)
    return TextClassifier.from_pretrained(
        arguments.model,
        labels=None if kind == "regression" else sorted(name for name, _ in describe_labels(train).counts),
        kind=kind,
        pooling=arguments.pooling,
        sequence_length=arguments.sequence_length or 128,
        long_texts="windows" if arguments.windows else "cut",
    )


def _plain_labels(answer):
    if isinstance(answer, float):
        return answer
    return [{"label": label.name, "probability": round(label.probability, 4)} for label in answer]


def _label_words(answer):
    if isinstance(answer, float):
        return f"{answer:.3f}"
    return ", ".join(f"{label['label']} ({label['probability']:.0%})" for label in answer[:3]) or "none"


# === Entities ===


def _read_tags(arguments, path, split, kind=None):
    from keras_bert.tasks.tagging.files import read_tagged

    return read_tagged(path, **read_columns(arguments, "text", "label"))


def _make_tagger(arguments, train):
    from keras_bert.tasks.tagging.task import EntityTagger

    head = arguments.head or "softmax"
    length = arguments.sequence_length or 128
    return EntityTagger.from_pretrained(arguments.model, labels=train.entity_kinds, head=head, sequence_length=length)


def _plain_entities(answer):
    return [
        {
            "text": entity.text,
            "label": entity.label,
            "start": entity.start,
            "end": entity.end,
            "probability": round(entity.probability, 4),
        }
        for entity in answer
    ]


def _entity_words(answer):
    return ", ".join(f"{one['text']} ({one['label']}, {one['probability']:.0%})" for one in answer) or "none"


# === Commands ===


def _read_commands(arguments, path, split, kind=None):
    from keras_bert.tasks.intent_slots.files import read_commands

    return read_commands(path)


def _make_assistant(arguments, train):
    from keras_bert.tasks.intent_slots.task import IntentSlots

    options = {"pooling": arguments.pooling, "sequence_length": arguments.sequence_length or 64}
    return IntentSlots.from_pretrained(arguments.model, intents=train.intents, slots=train.entity_kinds, **options)


def _plain_command(answer):
    numbers = {"intent": answer.intent, "probability": round(answer.probability, 4)}
    return {**numbers, "slots": _plain_entities(answer.slots)}


def _command_words(answer):
    return f"{answer['intent']} ({answer['probability']:.0%}): {_entity_words(answer['slots'])}"


# === Aspects ===


def _read_aspects(arguments, path, split, kind=None):
    from keras_bert.tasks.classification.aspect_files import read_aspects

    kind = arguments.aspects or "terms"
    return read_aspects(path, kind=kind, **read_columns(arguments, "text", "pair", "label"))


def _make_aspect_classifier(arguments, train):
    from keras_bert.tasks.classification.aspect import AspectClassifier

    options = {"pooling": arguments.pooling, "sequence_length": arguments.sequence_length or 128}
    return AspectClassifier.from_pretrained(arguments.model, labels=sorted({row.label for row in train}), **options)


def _plain_polarity(answer):
    return {"aspect": answer.aspect, "label": answer.label, "probability": round(answer.probability, 4)}


def _polarity_words(answer):
    return f"{answer['aspect']}: {answer['label']} ({answer['probability']:.0%})"


# === Relations ===


def _read_relations(arguments, path, split, kind=None):
    from keras_bert.tasks.relation.files import read_relations

    return read_relations(path, **read_columns(arguments, "text", "label"))


def _make_relation_classifier(arguments, train):
    from keras_bert.tasks.relation.task import RelationClassifier

    labels = sorted({row.label for row in train})
    options = {"negative_label": _find_negative(arguments, labels), "sequence_length": arguments.sequence_length or 128}
    return RelationClassifier.from_pretrained(arguments.model, labels=labels, **options)


def _find_negative(arguments, labels):
    """The label of texts without a relation: as the user says, or by its name; None where there is none."""
    if arguments.negative_label is not None:
        if arguments.negative_label and arguments.negative_label not in labels:
            known = ", ".join(map(repr, labels))
            raise ValueError(f"--negative-label {arguments.negative_label!r} is none of the labels {known}.")
        return arguments.negative_label or None
    by_name = {label.casefold(): label for label in labels}
    found = next((by_name[name.casefold()] for name in _NEGATIVES if name.casefold() in by_name), None)
    if found is not None:
        note(
            f"{found!r} is taken as the label of texts without a relation, which F1 leaves out; --negative-label names "
            "another, and '' none."
        )
    return found


# === Questions ===


def _read_questions(arguments, path, split, kind=None):
    from keras_bert.tasks.question_answering.files import read_squad

    return read_squad(path)


def _make_answerer(arguments, train):
    from keras_bert.tasks.question_answering.task import QuestionAnswerer

    unanswerable = any(not question.answers for question in train)
    return QuestionAnswerer.from_pretrained(
        arguments.model, unanswerable=unanswerable, sequence_length=arguments.sequence_length
    )


def _plain_answer(answer):
    numbers = {"start": answer.start, "end": answer.end, "probability": round(answer.probability, 4)}
    return {"text": answer.text, **numbers}


def _answer_words(answer):
    return f"{answer['text'] or 'no answer'} ({answer['probability']:.0%})"


# === Writing ===


def _read_generation(arguments, path, split, kind=None):
    from keras_bert.tasks.generation.files import read_generation

    names = {"text": "source", "label": "target"}
    return read_generation(path, **{names[name]: column for name, column in read_columns(arguments, *names).items()})


def _make_writer(arguments, train):
    from keras_bert.tasks.generation.task import Seq2Seq

    lengths = {"sequence_length": arguments.sequence_length or 128, "target_length": arguments.target_length}
    return Seq2Seq.from_pretrained(arguments.model, **lengths)


# === All ===


_whole_sentences = partial(hold_out_classes, key=lambda row: row.text, noun="sentences")
_whole_contexts = partial(hold_out_tenth, key=lambda row: row.context, noun="contexts")

TASKS = {
    "aspect": TaskCommands(_read_aspects, _make_aspect_classifier, _whole_sentences, _plain_polarity, _polarity_words),
    "classification": TaskCommands(_read_classes, _make_classifier, hold_out_classes, _plain_labels, _label_words),
    "intent_slots": TaskCommands(_read_commands, _make_assistant, hold_out_tenth, _plain_command, _command_words),
    "multiple_choice": TaskCommands(
        sentences.read_choice_rows,
        sentences.make_chooser,
        _whole_contexts,
        sentences.plain_choices,
        sentences.choice_words,
        sentences.choose,
    ),
    "question_answering": TaskCommands(_read_questions, _make_answerer, _whole_contexts, _plain_answer, _answer_words),
    "relation": TaskCommands(_read_relations, _make_relation_classifier, hold_out_classes, _plain_labels, _label_words),
    "seq2seq": TaskCommands(_read_generation, _make_writer, hold_out_tenth, str, str),
    "similarity": TaskCommands(
        sentences.read_pairs,
        sentences.make_embedder,
        hold_out_tenth,
        sentences.plain_vector,
        sentences.vector_words,
        sentences.embed,
    ),
    "tagging": TaskCommands(_read_tags, _make_tagger, hold_out_tenth, _plain_entities, _entity_words),
    "zero_shot": TaskCommands(_read_classes, sentences.make_zero_shot, hold_out_classes, _plain_labels, _label_words),
}


def find_task(name: str) -> TaskCommands:
    """The row of a task; an error where the commands do not know it."""
    if name not in TASKS:
        raise ValueError(f"The task {name!r} has no commands yet; these have: {', '.join(TASKS)}.")
    return TASKS[name]
