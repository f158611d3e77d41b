"""Two rules hold the house up: imports point left and up, and the device runtime loads no TensorFlow."""

import ast
import importlib
import re
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
        "server",
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

# Underscore names of other libraries that happen to be ours, too: namedtuple's, and Keras's.
OF_LIBRARIES = {"_replace", "_value"}


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


def test_no_folder_has_more_than_fourteen_modules():
    for top in ORDER:
        for folder in [ROOT / top, *(path for path in (ROOT / top).rglob("*") if path.is_dir())]:
            modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
            assert len(modules) <= 14, f"{folder.relative_to(ROOT)} has {len(modules)} modules: {modules}"


def package_of(path):
    """`keras_bert/tasks/base/task.py` → `("keras_bert", "tasks")`."""
    return path.relative_to(ROOT).parts[:2]


def underscored(path):
    """The names with one underscore in front that a module defines, and those that it takes from somewhere else."""
    defined, used = set(), {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                defined.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                defined.add(name)
            case ast.Attribute(attr=name):
                used.setdefault(name, node.lineno)
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] in ORDER:
                used.update((alias.name, node.lineno) for alias in names)
    private = {name for name in {*defined, *used} if name.startswith("_") and not name.startswith("__")}
    return defined & private, {name: line for name, line in used.items() if name in private}


def test_no_package_uses_the_underscore_names_of_another():
    """A name with an underscore is its package's own business: what others need has a public name."""
    found = {path: underscored(path) for top in ORDER for path in (ROOT / top).rglob("*.py")}
    owners = {}
    for path, (defined, _) in found.items():
        for name in defined:
            owners.setdefault(name, set()).add(package_of(path))
    foreign = [
        f"{path.relative_to(ROOT)}:{line} uses {name} of {sorted(owners[name])}"
        for path, (_, used) in found.items()
        for name, line in used.items()
        if name in owners and package_of(path) not in owners[name] and name not in OF_LIBRARIES
    ]
    assert not foreign, "\n".join(foreign)


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


PACKAGES_WITH_NAMES = (
    "keras_bert.data",
    "keras_bert.evaluation",
    "keras_bert.tasks",
    "keras_bert.text",
    "export.compression",
    "export.distillation",
    "export.search",
)


@pytest.mark.parametrize("package", PACKAGES_WITH_NAMES)
def test_names_of_packages_resolve(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'; it has"):
        module.nothing  # noqa: B018  asked for, to see the error


def test_examples_and_guides_import_no_module_of_a_package():
    """What users copy names `keras_bert`, `keras_bert.<package>` and `export.<package>`: modules may move."""
    pages = [*(ROOT / "examples").rglob("*.py"), *(ROOT / "examples").rglob("*.ipynb"), *(ROOT / "docs").rglob("*.md")]
    deep = re.compile(r"(?:from|import) (?:keras_bert|export)\.\w+\.\w+")
    found = [f"{page.relative_to(ROOT)}: {m[0]}" for page in pages for m in deep.finditer(page.read_text("utf-8"))]
    assert not found, "\n".join(found)
