"""Distillation: train a student on the outputs of a teacher."""

from typing import Any

from keras_bert.system.lazy_names import find_name

_HOMES = {
    "Attention": "losses",
    "Embeddings": "losses",
    "Hidden": "losses",
    "Logits": "losses",
    "Relations": "losses",
    "Vectors": "losses",
    "distill": "training",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOMES, name)
