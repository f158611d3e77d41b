"""What is released: a wheel with all that it needs and nothing else, and extras that say how they are installed."""

import ast
import configparser
import functools
import hashlib
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from places import ROOT

PACKAGES = ("keras_bert", "export")
# Distributions whose modules are called otherwise.
MODULES = {"scikit-learn": "sklearn", "rouge-score": "rouge_score", "tensorflow-serving-api": "tensorflow_serving"}
# Extras for examples and for work on the project: the packages never import what these bring.
FOR_EXAMPLES = ("tune", "serving", "docs", "dev")
# Imported late where Keras runs on it, and then it is there.
BACKENDS = {"jax"}


@functools.cache
def requirements():
    """Module names by extra; those that are always installed under None."""
    told = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("setuptools.setup", lambda **arguments: told.update(arguments))
        patch.setattr("setuptools.find_packages", lambda **_: [])
        script = ROOT / "setup.py"
        exec(compile(script.read_text(encoding="utf-8"), script, "exec"), {"__file__": str(script)})
    given = {None: told["install_requires"], **told["extras_require"]}
    names = {extra: [re.match(r"[\w.-]+", line)[0].lower() for line in lines] for extra, lines in given.items()}
    return {extra: {MODULES.get(name, name.replace("-", "_")) for name in lines} for extra, lines in names.items()}


@functools.cache
def imports():
    """Every import of a module that is neither ours nor Python's: path, module, whether at the top, what guards it."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    trees = {path.relative_to(ROOT): ast.parse(path.read_text("utf-8")) for path in paths}
    return [(path, *found) for path, tree in trees.items() for found in _imports(tree)]


def _imports(node, is_top=True, guard=""):
    for child in ast.iter_child_nodes(node):
        names = [alias.name for alias in child.names] if isinstance(child, ast.Import) else []
        names += [child.module] if isinstance(child, ast.ImportFrom) else []
        for module in {name.split(".")[0] for name in names} - set(PACKAGES) - set(sys.stdlib_module_names):
            yield module, is_top, guard
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue  # for type checkers, which bring their own
        is_function = isinstance(child, ast.FunctionDef | ast.Lambda)
        handled = "".join(map(ast.unparse, child.handlers)) if isinstance(child, ast.Try) else guard
        yield from _imports(child, is_top and not is_function, handled)


# === Extras ===


def test_what_is_imported_is_asked_for():
    always = requirements()[None]
    extras = {extra: names for extra, names in requirements().items() if extra not in (None, *FOR_EXAMPLES)}
    guarded = {(path, module) for path, module, _, guard in imports() if "keras-bert-edge[" in guard}
    for path, module, is_top, guard in imports():
        if module in always | BACKENDS:
            continue
        homes = [extra for extra, names in extras.items() if module in names]
        assert homes, f"{path} imports {module}, which neither install_requires nor an extra asks for"
        if "import" in guard:  # an alternative that is always there
            continue
        assert (path, module) in guarded, f"{path} imports {module} without an error that names the pip line"
        if guard:
            assert any(f"keras-bert-edge[{extra}]" in guard for extra in homes), f"{path}: {module} is in {homes}"
        assert not is_top or guard, f"{path} imports {module} at its top"


def blocked(monkeypatch, *modules):
    for name in [name for name in sys.modules if name.split(".")[0] in modules]:
        monkeypatch.delitem(sys.modules, name)
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)


def _open_zst():
    from keras_bert.pretraining.corpus.documents import read_blocks

    Path("corpus.txt.zst").write_bytes(b"(\xb5/\xfd")
    list(read_blocks("corpus.txt.zst", 1 << 20, 1 << 20))


def _measure_texts():
    from keras_bert.tasks.generation.metrics import generation_report

    generation_report(["a cat sat"], ["a cat sat"])


def _learn_unigram():
    from keras_bert.text.vocabulary import learn_vocabulary

    Path("corpus.txt").write_text("a cat sat\n")
    learn_vocabulary("corpus.txt", 30, kind="unigram", progress=False)


def _import_beam():
    sys.modules.pop("keras_bert.pretraining.corpus.beam", None)
    importlib.import_module("keras_bert.pretraining.corpus.beam")


def _import_server():
    sys.modules.pop("export.server.extra", None)
    importlib.import_module("export.server.extra")


def _compile_for(chips):
    from keras_bert.training.ahead_of_time import target_shardings
    from keras_bert.training.chips import read_target

    target_shardings(read_target(chips))


def _call(module, name, *arguments):
    return lambda: getattr(importlib.import_module(module), name)(*arguments)


EXTRA_CALLS = {
    ("export", "ai_edge_litert"): _call("export.file.interpreter", "open_interpreter", "model.tflite"),
    ("zst", "zstandard"): _open_zst,
    ("evaluate", "sklearn"): _call("keras_bert.evaluation.reports", "classification_report", ["a", "b"], ["a", "b"]),
    ("evaluate", "scipy"): _call("keras_bert.evaluation.reports", "regression_report", [1.0, 2.0], [1.0, 2.0]),
    ("evaluate", "seqeval"): _call("keras_bert.tasks.tagging.metrics", "entity_report", [["B-X"]], [["B-X"]]),
    ("generate", "sacrebleu"): _measure_texts,
    ("generate", "rouge_score"): _measure_texts,
    ("unigram", "sentencepiece"): _learn_unigram,
    ("plots", "matplotlib"): _call("keras_bert.visualize.view", "new_figure", 3, 3, "title"),
    ("quantize", "tensorflow_model_optimization"): _call("export.quantization.tfmot", "load_tfmot"),
    ("beam", "apache_beam"): _import_beam,
    ("serve", "uvicorn"): _import_server,
    ("serve", "orjson"): _import_server,
    ("aot", "libtpu"): lambda: _compile_for("v5e"),
    ("aot-gpu", "jax_cuda12_plugin"): lambda: _compile_for("t4"),
    ("completion", "shtab"): _call("keras_bert.cli.commands.completion", "completion_script", None, "bash"),
}


@pytest.mark.parametrize(("extra", "module"), EXTRA_CALLS, ids=lambda name: name)
def test_a_missing_extra_names_its_pip_line(extra, module, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    blocked(monkeypatch, module)
    with pytest.raises(Exception, match=rf"pip install .keras-bert-edge\[{extra}\]"):
        EXTRA_CALLS[extra, module]()


def test_every_extra_is_walked():
    walked = {extra for extra, _ in EXTRA_CALLS}
    assert walked == set(requirements()) - {None, *FOR_EXAMPLES}


def test_the_bare_package_needs_no_extra():
    extras = set().union(*requirements().values()) - requirements()[None]
    shared = {"protobuf", "setuptools", "numpy", "six", "jax"}  # TensorFlow and Keras look for these by themselves
    code = f"""
import sys
for name in {sorted(extras - shared)}:
    sys.modules[name] = None
import export, keras_bert
from keras_bert import visualize
from keras_bert.cli import make_parser
for package in (keras_bert, export):
    for name in package.__all__:
        getattr(package, name)
print(len(make_parser().format_help()) > 500, len(keras_bert.__all__) > 40)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout.split() == ["True", "True"], done.stderr[-2000:]


# === Wheel and sdist ===


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel, made from the sdist, made from a copy of the tree; and the sdist."""
    place = tmp_path_factory.mktemp("release")
    source = place / "source"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "site")
    shutil.copytree(ROOT, source, ignore=ignored)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place / "dist"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (wheel,), (sdist,) = (place / "dist").glob("*.whl"), (place / "dist").glob("*.tar.gz")
    return wheel, sdist


def test_wheel_holds_the_packages_and_nothing_else(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = wheel.namelist()
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        commands = configparser.ConfigParser()
        commands.read_string(wheel.read(metadata.replace("METADATA", "entry_points.txt")).decode())
        text = wheel.read(metadata).decode()
    assert {name.split("/")[0] for name in names} == {*PACKAGES, metadata.split("/")[0]}
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }
    assert {name for name in names if ".dist-info/" not in name} == expected
    for name in ("keras_bert/py.typed", "export/py.typed", "keras_bert/text/unicode_tables.json"):
        assert name in names
    assert any(name.endswith("LICENSE") for name in names)
    assert commands["console_scripts"]["keras-bert"] == "keras_bert.cli:main"
    pythons = re.search(r"^Requires-Python: (.*)$", text, re.MULTILINE)[1]
    assert set(pythons.split(",")) == {"<3.14", ">=3.10"} and re.search(r"^License.*: Apache-2.0$", text, re.MULTILINE)
    assert built[0].stat().st_size < 6_000_000  # most of it are the weights of tiny-en


def test_sdist_can_be_built_from(built):
    with tarfile.open(built[1]) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames() if "/" in name}
    assert {"setup.py", "pyproject.toml", "README.md", "LICENSE", "keras_bert/py.typed"} <= names


def test_two_builds_give_the_same_wheel(built, tmp_path):
    def wheel(name):
        source = tmp_path / name
        shutil.copytree(built[0].parents[1] / "source", source)
        for leftover in (source / "build", *source.glob("*.egg-info")):
            shutil.rmtree(leftover, ignore_errors=True)
        command = [
            sys.executable,
            "-m",
            "build",
            "--no-isolation",
            "--wheel",
            "--outdir",
            str(source / "out"),
            str(source),
        ]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        (found,) = (source / "out").glob("*.whl")
        return hashlib.sha256(found.read_bytes()).hexdigest()

    assert wheel("one") == wheel("two")


# === Files beside the code ===


def test_citation_and_workflow_fit_the_package():
    import keras_bert

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == keras_bert.__version__
    assert citation["license"] == "Apache-2.0" and citation["cff-version"] == "1.2.0" and citation["authors"]
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == ["3.10", "3.11", "3.12", "3.13"]
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    targets = {word for step in steps for word in re.findall(r"make (\w+)", step)}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets >= {"lint", "test"} and all(f"\n{target}:" in makefile for target in targets)
    actions = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert actions and all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action in actions)
    assert set(workflow["jobs"]["publish"]["needs"]) == {"lint", "test", "build", "check"}
    assert workflow["permissions"] == {"contents": "read"}  # nothing may write but what says so


def test_hashes_of_the_weights_are_told():
    from keras_bert.checkpoint.hub import INSTALLED

    for weights in INSTALLED.values():
        assert weights.sha256 in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    shipped = list((ROOT / "keras_bert" / "checkpoint" / "weights").glob("*/model.safetensors"))
    assert shipped
    for path in shipped:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert INSTALLED[path.parent.name].sha256 == digest
        assert digest in path.with_name("README.md").read_text(encoding="utf-8"), "the model card has another hash"


def test_the_changelog_begins_with_this_version_and_says_what_moved():
    import keras_bert

    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, second = re.findall(r"^## ([\d.]+)$", text, re.MULTILINE)[:2]
    assert (first, second) == (keras_bert.__version__, "0.1.0")
    table = text[text.index("| 0.1 | 0.2 |") : text.index("What else to change")]
    for old, new, _ in (line.strip("|").split("|") for line in table.splitlines()[2:] if line):
        for name in re.findall(r"`((?:keras_bert|export)\.[\w.]+)`", new):
            assert importlib.util.find_spec(name) is not None, f"{name} does not exist"
        for name in re.findall(r"`((?:keras_bert|export)\.[\w.]+)`", old):
            found = ROOT / name.replace(".", "/")
            assert not found.with_suffix(".py").exists(), f"{name} is still there"
