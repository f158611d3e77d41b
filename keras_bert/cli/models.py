"""The model that `predict` and `evaluate` are given: a saved task, or with `--labels` any model."""

from argparse import Namespace
from typing import Any


def add_label_arguments(group: Any) -> None:
    """The flags for labels that come with the question."""
    group.add_argument("--labels", metavar="A,B,C", help="choose from these labels, which the model was not trained on")
    group.add_argument("--template", help="what is made of a label (default: This text is about {}.)")


def open_task(arguments: Namespace) -> Any:
    """The task of a directory; with `--labels`, a classifier by these labels on whichever model it is."""
    from keras_bert.tasks.base.saved_tasks import load_task

    if arguments.labels is None:
        if arguments.template is not None:
            raise ValueError("--template says what is made of --labels; pass both, or none.")
        return load_task(arguments.model)
    from keras_bert.tasks.zero_shot.task import ZeroShotClassifier

    labels = [label.strip() for label in arguments.labels.split(",") if label.strip()]
    return ZeroShotClassifier.from_pretrained(arguments.model, labels=labels, template=arguments.template)
