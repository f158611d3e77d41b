"""Relations on the command line: files with two marked entities, and which label says that there is no relation."""

from keras_bert.system.notes import note
from keras_bert.tasks.base.answers import likeliest_words, plain_labels
from keras_bert.tasks.base.registry import TaskEntry, register_task
from keras_bert.tasks.base.task_flags import LABEL, TEXT, TaskFlag, read_columns

NEGATIVE_LABEL = TaskFlag(
    "--negative-label",
    metavar="LABEL",
    help="of texts without a relation, which F1 leaves out (default: Other, no_relation, NA or none, where there is "
    "one; '' counts every label)",
)
_NEGATIVES = ("Other", "no_relation", "no-relation", "NA", "none")  # what data sets call texts without a relation


def read_relation_rows(arguments, path, split, task=None):
    """Texts with two marked entities and the relation between them."""
    from keras_bert.tasks.relation.files import read_relations

    return read_relations(path, **read_columns(arguments, "text", "label"))


def make_relation_classifier(arguments, train):
    """An untrained classifier for the relations of the data."""
    from keras_bert.tasks.relation.task import RelationClassifier

    labels = sorted({row.label for row in train})
    options = {"negative_label": find_negative(arguments, labels), "sequence_length": arguments.sequence_length}
    return RelationClassifier.from_pretrained(arguments.model, labels=labels, **options)


def find_negative(arguments, labels) -> str | None:
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
