"""Open the model of `predict` and `evaluate`: a saved task, or with `--labels` any model."""

from argparse import Namespace
from typing import Any


def add_label_arguments(group: Any) -> None:
    """Add the flags for zero-shot labels."""
    group.add_argument("--labels", metavar="A,B,C", help="choose from these labels, which the model was not trained on")
    group.add_argument("--template", help="sentence that a label is put into (default: This text is about {}.)")


def open_task(arguments: Namespace) -> Any:
    """Open the task of a directory; with `--labels`, a zero-shot classifier with these labels on any model."""
    from keras_bert.tasks.base.saved_tasks import load_task

    if arguments.labels is None:
        if arguments.template is not None:
            raise ValueError("--template is the sentence for --labels; pass both, or none.")
        return load_task(arguments.model)
    from keras_bert.tasks.zero_shot.task import ZeroShotClassifier

    labels = [label.strip() for label in arguments.labels.split(",") if label.strip()]
    return ZeroShotClassifier.from_pretrained(arguments.model, labels=labels, template=arguments.template)
