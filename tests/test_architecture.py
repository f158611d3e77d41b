"""Two rules hold the house up: imports point left and up, and the device runtime loads no TensorFlow."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

# The pipeline from left to right: a room may import itself and what stands before it.
ORDER = (
    "whole_files",
    "tensorflow_greetings",
    "datasets",
    "decoding",
    "config",
    "string_tensors",
    "unicode_tables",
    "normalizer_model",
    "wordpiece",
    "vocabulary",
    "tokenizer",
    "packing",
    "tokenized_texts",
    "prompt_datasets",
    "bucketing",
    "packed_batches",
    "dropout",
    "attention_bias",
    "pooling",
    "embeddings",
    "encoder",
    "heads",
    "weight_copying",
    "checkpoint",
    "pretraining",
    "training",
    "tasks",
    "visualize",
    "cli",
)


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ([node.module] + [f"{node.module}.{alias.name}" for alias in node.names])


def room(module):
    return module.split(".")[1] if module.startswith("keras_bert.") else None


def test_imports_point_left():
    for path in (ROOT / "keras_bert").rglob("*.py"):
        here = path.relative_to(ROOT / "keras_bert").parts[0].removesuffix(".py")
        if here == "__init__":
            continue
        assert here in ORDER, f"{path.name} has no place in the pipeline yet"
        rooms = {room(module) for module in imported_modules(path)} & set(ORDER)
        late = [other for other in rooms if ORDER.index(other) > ORDER.index(here)]
        assert not late, f"{path} imports {late}, which stands to its right"


def test_keras_bert_never_imports_export_and_nothing_imports_examples():
    for package in ("keras_bert", "export"):
        for path in (ROOT / package).rglob("*.py"):
            tops = {module.split(".")[0] for module in imported_modules(path)}
            assert "examples" not in tops
            assert package == "export" or "export" not in tops, path


def test_runtime_loads_no_tensorflow_and_no_keras():
    code = "import sys, export.runtime; print([m for m in ('tensorflow', 'keras') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_resolve_and_have_docstrings():
    import export
    import keras_bert

    for package in (keras_bert, export):
        for name in set(package.__all__) - {"__version__"}:
            assert getattr(package, name).__doc__, name
            assert name in dir(package)
