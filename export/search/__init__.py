"""The search for the smallest model that keeps an accuracy promise."""

from typing import Any

from keras_bert.system.lazy_names import find_name

_HOMES = {
    "lean_sizes": "proposals",
    "list_candidates": "proposals",
    "student_sizes": "proposals",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOMES, name)
