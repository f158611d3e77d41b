"""Question answering on the command line."""

from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

from keras_bert.tasks.base.held_out import hold_out_tenth
from keras_bert.tasks.base.registry import TaskEntry, register_task


def read_questions(arguments: Namespace, path: str | Path, split: str, task: Any = None) -> Any:
    """Read questions with their contexts and answers from SQuAD's files."""
    from keras_bert.tasks.question_answering.files import read_squad

    return read_squad(path)


def make_answerer(arguments: Namespace, train: Any) -> Any:
    """Make an untrained task; it may give no answer if some questions of the data have none."""
    from keras_bert.tasks.question_answering.task import QuestionAnswerer

    unanswerable = any(not question.answers for question in train)
    return QuestionAnswerer.from_pretrained(
        arguments.model, unanswerable=unanswerable, sequence_length=arguments.sequence_length
    )


def plain_span(answer: Any) -> dict[str, Any]:
    """Turn an answer into JSON values: its text, offsets and probability. The score has no comparable scale."""
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
