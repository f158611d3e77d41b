"""From a trained Keras model to files that run without Keras.

Names resolve when they are first used: `import export.runtime` loads no TensorFlow.
"""

from importlib import import_module
from typing import TYPE_CHECKING

_HOMES = {
    "Candidate": "search.candidates",
    "ModelPlan": "search.candidates",
    "add_metadata": "file.metadata",
    "benchmark": "verification.latency",
    "choose_precision": "quantization.mixed_precision",
    "convert": "tflite.conversion",
    "deploy": "deployment.deploying",
    "distill": "distillation.training",
    "list_candidates": "search.proposals",
    "load": "runtime",
    "make_student": "compression.students",
    "prune": "compression.pruning",
    "read_metadata": "file.metadata_reader",
    "remove_heads": "compression.heads",
    "remove_layers": "compression.layers",
    "remove_neurons": "compression.heads",
    "save_serving": "serving.saving",
    "train_quantized": "quantization.training",
    "trim_vocabulary": "compression.vocabulary",
    "verify": "verification.parity",
    "write_package": "deployment.packages",
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
    from export.compression.heads import remove_heads, remove_neurons
    from export.compression.layers import remove_layers
    from export.compression.pruning import prune
    from export.compression.students import make_student
    from export.compression.vocabulary import trim_vocabulary
    from export.deployment.deploying import deploy
    from export.deployment.packages import write_package
    from export.distillation.training import distill
    from export.file.metadata import add_metadata
    from export.file.metadata_reader import read_metadata
    from export.quantization.mixed_precision import choose_precision
    from export.quantization.training import train_quantized
    from export.runtime import load
    from export.search.candidates import Candidate, ModelPlan
    from export.search.proposals import list_candidates
    from export.serving.saving import save_serving
    from export.tflite.conversion import convert
    from export.verification.latency import benchmark
    from export.verification.parity import verify


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'export' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(import_module(f"export.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
