"""From a trained Keras model to files that run without Keras.

Names resolve when they are first used: `import export.runtime` loads no TensorFlow.
"""

from importlib import import_module
from typing import TYPE_CHECKING

_HOMES = {
    "Candidate": "candidates",
    "ModelPlan": "candidates",
    "add_metadata": "metadata",
    "benchmark": "benchmarking",
    "choose_precision": "mixed_precision",
    "convert": "tflite",
    "deploy": "deployment",
    "distill": "distillation",
    "list_candidates": "candidates",
    "load": "runtime",
    "make_student": "students",
    "prune": "pruning",
    "read_metadata": "file_metadata",
    "remove_heads": "head_removal",
    "remove_layers": "layer_removal",
    "remove_neurons": "head_removal",
    "save_serving": "saved_model",
    "train_quantized": "quantization_aware",
    "trim_vocabulary": "vocabulary_trimming",
    "verify": "verification",
    "write_package": "packages",
}
__all__ = [
    "Candidate",
    "ModelPlan",
    "add_metadata",
    "benchmark",
    "choose_precision",
    "convert",
    "deploy",
    "distill",
    "list_candidates",
    "load",
    "make_student",
    "prune",
    "read_metadata",
    "remove_heads",
    "remove_layers",
    "remove_neurons",
    "save_serving",
    "train_quantized",
    "trim_vocabulary",
    "verify",
    "write_package",
]

if TYPE_CHECKING:
    from export.benchmarking import benchmark
    from export.candidates import Candidate, ModelPlan, list_candidates
    from export.deployment import deploy
    from export.distillation import distill
    from export.file_metadata import read_metadata
    from export.head_removal import remove_heads, remove_neurons
    from export.layer_removal import remove_layers
    from export.metadata import add_metadata
    from export.mixed_precision import choose_precision
    from export.packages import write_package
    from export.pruning import prune
    from export.quantization_aware import train_quantized
    from export.runtime import load
    from export.saved_model import save_serving
    from export.students import make_student
    from export.tflite import convert
    from export.verification import verify
    from export.vocabulary_trimming import trim_vocabulary


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'export' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(import_module(f"export.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
