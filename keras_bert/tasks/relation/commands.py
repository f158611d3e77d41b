"""Relation classification on the command line."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_bert.system.notes import note
from keras_bert.tasks.base.answers import likeliest_words, plain_labels
from keras_bert.tasks.base.registry import TaskEntry, register_task
from keras_bert.tasks.base.task_flags import LABEL, TEXT, TaskFlag, read_columns

NEGATIVE_LABEL = TaskFlag(
    "--negative-label",
    metavar="LABEL",
    help="label of texts without a relation, which F1 leaves out (default: Other, no_relation, NA or none, if there is "
    "one; '' counts every label)",
)
_NEGATIVES = ("Other", "no_relation", "no-relation", "NA", "none")  # labels of data sets for texts without a relation


def read_relation_rows(arguments: Namespace, path: str | Path, split: str, task: Any = None) -> Any:
    """Read texts with two marked entities and the relation between them."""
    from keras_bert.tasks.relation.files import read_relations

    return read_relations(path, **read_columns(arguments, "text", "label"))


def make_relation_classifier(arguments: Namespace, train: Any) -> Any:
    """Make an untrained classifier for the relations of the data."""
    from keras_bert.tasks.relation.task import RelationClassifier

    labels = sorted({row.label for row in train})
    options = {"negative_label": find_negative(arguments, labels), "sequence_length": arguments.sequence_length}
    return RelationClassifier.from_pretrained(arguments.model, labels=labels, **options)


def find_negative(arguments: Namespace, labels: Sequence[str]) -> str | None:
    """Find the label of texts without a relation: by `--negative-label`, or by its name; `None` if there is none."""
    if arguments.negative_label is not None:
        if arguments.negative_label and arguments.negative_label not in labels:
            known = ", ".join(map(repr, labels))
            raise ValueError(f"--negative-label {arguments.negative_label!r}: expected one of the labels {known}.")
        return arguments.negative_label or None
    by_name = {label.casefold(): label for label in labels}
    found = next((by_name[name.casefold()] for name in _NEGATIVES if name.casefold() in by_name), None)
    if found is not None:
        note(
            f"{found!r} is used as the label of texts without a relation, which F1 leaves out; pass --negative-label "
            "for another one, or '' for none."
        )
    return found


register_task(
    TaskEntry(
        "relation",
        "keras_bert.tasks.relation.task:RelationClassifier",
        read=read_relation_rows,
        make=make_relation_classifier,
        plain=plain_labels,
        words=likeliest_words,
        data_flags=(TEXT, LABEL),
        flags=(NEGATIVE_LABEL,),
    )
)
