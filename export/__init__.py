"""Turn a trained Keras model into files that run without Keras.

Names are imported when they are first used: `import export.runtime` does not load TensorFlow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Every public name and its module. A new name also gets a line below, which type checkers read; a test
# compares both.
_HOMES = {
    # === From a task to files ===
    "convert": "tflite.conversion",
    "deploy": "deployment.deploying",
    "save_serving": "serving.saving",
    "write_package": "deployment.packages",
    # === Tasks of your own ===
    "Examples": "tasks.base.examples",
    "ExportedTask": "tasks.base.definition",
    "GuideInput": "tasks.base.definition",
    "Reader": "tasks.base.reader",
    "ServedFile": "tasks.base.served_file",
    "ServedTask": "tasks.base.definition",
    "Setting": "tasks.base.settings",
    "register_export": "tasks.base.registry",
    # === On the device ===
    "load": "runtime",
    # === Files ===
    "add_metadata": "file.metadata",
    "read_metadata": "file.metadata_reader",
    # === Checks ===
    "benchmark": "verification.latency",
    "verify": "verification.parity",
    # === Smaller models ===
    "distill": "distillation.training",
    "make_student": "compression.students",
    "prune": "compression.pruning",
    "remove_heads": "compression.heads",
    "remove_layers": "compression.layers",
    "remove_neurons": "compression.heads",
    "trim_vocabulary": "compression.vocabulary",
    # === Quantization ===
    "choose_precision": "quantization.mixed_precision",
    "train_quantized": "quantization.training",
    # === Search ===
    "Candidate": "search.candidates",
    "ModelPlan": "search.candidates",
    "list_candidates": "search.proposals",
}
__all__ = [*_HOMES]

if TYPE_CHECKING:
    from export.compression.heads import remove_heads as remove_heads
    from export.compression.heads import remove_neurons as remove_neurons
    from export.compression.layers import remove_layers as remove_layers
    from export.compression.pruning import prune as prune
    from export.compression.students import make_student as make_student
    from export.compression.vocabulary import trim_vocabulary as trim_vocabulary
    from export.deployment.deploying import deploy as deploy
    from export.deployment.packages import write_package as write_package
    from export.distillation.training import distill as distill
    from export.file.metadata import add_metadata as add_metadata
    from export.file.metadata_reader import read_metadata as read_metadata
    from export.quantization.mixed_precision import choose_precision as choose_precision
    from export.quantization.training import train_quantized as train_quantized
    from export.runtime import load as load
    from export.search.candidates import Candidate as Candidate
    from export.search.candidates import ModelPlan as ModelPlan
    from export.search.proposals import list_candidates as list_candidates
    from export.serving.saving import save_serving as save_serving
    from export.tasks.base.definition import ExportedTask as ExportedTask
    from export.tasks.base.definition import GuideInput as GuideInput
    from export.tasks.base.definition import ServedTask as ServedTask
    from export.tasks.base.examples import Examples as Examples
    from export.tasks.base.reader import Reader as Reader
    from export.tasks.base.registry import register_export as register_export
    from export.tasks.base.served_file import ServedFile as ServedFile
    from export.tasks.base.settings import Setting as Setting
    from export.tflite.conversion import convert as convert
    from export.verification.latency import benchmark as benchmark
    from export.verification.parity import verify as verify


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"Module 'export' has no attribute {name!r}; it has: {', '.join(sorted(__all__))}")
    return getattr(import_module(f"export.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
