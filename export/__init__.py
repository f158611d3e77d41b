"""From a trained Keras model to files that run without Keras.

Names resolve when they are first used: `import export.runtime` loads no TensorFlow.
"""

from importlib import import_module
from typing import TYPE_CHECKING

_HOMES = {"convert": "tflite", "load": "runtime"}
__all__ = ["convert", "load"]

if TYPE_CHECKING:
    from export.runtime import load
    from export.tflite import convert


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'export' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(import_module(f"export.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
