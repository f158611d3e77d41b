"""Entities on the command line: CoNLL's files, and tables of texts with spans."""

from keras_bert.tasks.base.held_out import hold_out_tenth
from keras_bert.tasks.base.registry import TaskEntry, register_task
from keras_bert.tasks.base.task_flags import LABEL, TEXT, TaskFlag, read_columns

HEAD = TaskFlag("--head", choices=("softmax", "crf"), help="what chooses the tags (default: softmax)")


def read_tagged_rows(arguments, path, split, task=None):
    """Sentences with the tags of their words."""
    from keras_bert.tasks.tagging.files import read_tagged

    return read_tagged(path, **read_columns(arguments, "text", "label"))


def make_tagger(arguments, train):
    """An untrained tagger for the entities of the data."""
    from keras_bert.tasks.tagging.task import EntityTagger

    options = {"head": arguments.head or "softmax", "sequence_length": arguments.sequence_length}
    return EntityTagger.from_pretrained(arguments.model, labels=train.entity_kinds, **options)


register_task(
    TaskEntry(
        "tagging",
        "keras_bert.tasks.tagging.task:EntityTagger",
        read=read_tagged_rows,
        make=make_tagger,
        hold_out=hold_out_tenth,
        data_flags=(TEXT, LABEL),
        flags=(HEAD,),
    )
)
