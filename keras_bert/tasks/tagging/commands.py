"""Named entity recognition on the command line."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from keras_bert.tasks.base.held_out import hold_out_tenth
from keras_bert.tasks.base.registry import TaskEntry, register_task
from keras_bert.tasks.base.task_flags import LABEL, TEXT, TaskFlag, read_columns

HEAD = TaskFlag("--head", choices=("softmax", "crf"), help="what chooses the tags (default: softmax)")


def read_tagged_rows(arguments: Namespace, path: str | Path, split: str, task: Any = None) -> Any:
    """Read sentences with the tags of their words, from CoNLL or JSONL files."""
    from keras_bert.tasks.tagging.files import read_tagged

    return read_tagged(path, **read_columns(arguments, "text", "label"))


def make_tagger(arguments: Namespace, train: Any) -> Any:
    """Make an untrained tagger for the entities of the data."""
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
