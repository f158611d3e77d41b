"""Make a task's model smaller: vocabulary, blocks, heads, neurons, weights, and students."""

from typing import Any

from keras_bert.system.lazy_names import find_name

_HOMES = {
    "make_student": "students",
    "pick_layers": "students",
    "take_layers": "students",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOMES, name)
