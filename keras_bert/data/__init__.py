"""Labelled data: files, tables, GLUE, augmentation, the bundled assistant commands."""

from typing import Any

from keras_bert.system.lazy_names import find_name

_HOMES = {
    "intents": "assistant",
    "load_assistant": "assistant",
    "NearestWords": "augmentation",
    "augment": "augmentation",
    "read_glue": "glue",
    "as_rows": "inputs",
    "describe_labels": "label_statistics",
    "stratified_split": "label_statistics",
    "read_rows": "labelled_texts",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOMES, name)
