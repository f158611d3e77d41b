"""Zero-shot classification on the command line."""

from argparse import Namespace
from typing import Any

from keras_bert.tasks.base.answers import likeliest_words, plain_labels
from keras_bert.tasks.base.registry import TaskEntry, label_names, register_task
from keras_bert.tasks.base.task_flags import GLUE, LABEL, LABEL_SEPARATOR, PAIR, TEXT


def make_zero_shot(arguments: Namespace, train: Any) -> Any:
    """Make an untrained classifier for entailment; trained on pairs, it answers with any labels."""
    from keras_bert.tasks.classification.task import TextClassifier
    from keras_bert.tasks.zero_shot.task import ZeroShotClassifier

    options = {"labels": label_names(train), "sequence_length": arguments.sequence_length}
    return ZeroShotClassifier(TextClassifier.from_pretrained(arguments.model, **options))


register_task(
    TaskEntry(
        "zero_shot",
        "keras_bert.tasks.zero_shot.task:ZeroShotClassifier",
        make=make_zero_shot,
        plain=plain_labels,
        words=likeliest_words,
        data_flags=(TEXT, PAIR, LABEL, LABEL_SEPARATOR, GLUE),
    )
)
