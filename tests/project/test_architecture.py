"""Two rules hold the house up: imports point left and up, and the device runtime loads no TensorFlow."""

import ast
import subprocess
import sys
from importlib import import_module

import pytest
from places import ROOT

# Both packages in the order of the pipeline: a package may import itself and what stands before it.
ORDER = {
    "keras_bert": (
        "system",
        "text",
        "model",
        "batching",
        "checkpoint",
        "training",
        "pretraining",
        "finetuning",
        "decoding",
        "evaluation",
        "data",
        "tasks",
        "visualize",
        "cli",
    ),
    "export": (
        "recipes",
        "file",
        "tasks",
        "runtime",
        "distillation",
        "serving",
        "verification",
        "quantization",
        "tflite",
        "compression",
        "search",
        "deployment",
        "cli",
    ),
}


def imported_modules(path):
    """What a module imports, inside functions too; not what type checkers alone read."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ([node.module] + [f"{node.module}.{alias.name}" for alias in node.names])


@pytest.mark.parametrize("top", ORDER)
def test_imports_point_left(top):
    late = []
    for path in sorted((ROOT / top).rglob("*.py")):
        here = path.relative_to(ROOT / top).parts[0].removesuffix(".py")
        if here == "__init__":
            continue
        assert here in ORDER[top], f"{path} has no place in the pipeline yet"
        parts = {module.split(".")[1] for module in imported_modules(path) if module.startswith(f"{top}.")}
        after = ORDER[top][ORDER[top].index(here) + 1 :]
        late += [f"{path.relative_to(ROOT)} imports {part}" for part in sorted(parts) if part in after]
    assert not late, "\n".join(late)


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


@pytest.mark.parametrize("top", ORDER)
def test_type_checkers_see_the_same_public_names(top):
    package = import_module(top)
    tree = ast.parse((ROOT / top / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    seen = [(alias.name, line.module) for line in block.body for alias in line.names if alias.name == alias.asname]
    assert sorted(seen) == sorted((name, f"{top}.{home}") for name, home in package._HOMES.items())
    assert set(package.__all__) - {"__version__"} == set(package._HOMES)
