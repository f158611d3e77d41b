"""Questions on the command line: SQuAD's files, and whether some have no answer."""

from functools import partial

from keras_bert.tasks.base.held_out import hold_out_tenth
from keras_bert.tasks.base.registry import TaskEntry, register_task


def read_questions(arguments, path, split, task=None):
    """Questions with their context and answers."""
    from keras_bert.tasks.question_answering.files import read_squad

    return read_squad(path)


def make_answerer(arguments, train):
    """An untrained task; it may give no answer where some questions of the data have none."""
    from keras_bert.tasks.question_answering.task import QuestionAnswerer

    unanswerable = any(not question.answers for question in train)
    return QuestionAnswerer.from_pretrained(
        arguments.model, unanswerable=unanswerable, sequence_length=arguments.sequence_length
    )


def plain_span(answer):
    """The answer with its place and probability; the score has no scale that others could use."""
    numbers = {"start": answer.start, "end": answer.end, "probability": round(answer.probability, 4)}
    return {"text": answer.text, **numbers}


register_task(
    TaskEntry(
        "question_answering",
        "keras_bert.tasks.question_answering.task:QuestionAnswerer",
        read=read_questions,
        make=make_answerer,
        hold_out=partial(hold_out_tenth, key=lambda row: row.context, noun="contexts"),
        plain=plain_span,
        sequence_length=None,
        data_flags=(),
    )
)
