"""A task is one registered object: what the registry takes, what it refuses, and what it loads."""

import dataclasses
import subprocess
import sys
from importlib import import_module, reload

import pytest
from places import ROOT

import export
from export.runtime import Classifier, Runtime, load
from export.tasks.base import registry
from export.tasks.base.definition import ExportedTask, GuideInput, ServedTask
from export.tasks.base.examples import Examples, read_texts
from export.tasks.base.reader import Reader
from export.tasks.base.registry import exported_tasks, find_export, register_export, registering_module
from export.tasks.base.served_file import FORMS
from export.verification.fresh_process import repeat_registration

BUILT_IN = ["aspect", "classification", "intent_slots", "multiple_choice", "question_answering", "relation"]
BUILT_IN += ["seq2seq", "similarity", "tagging"]


class ToneReader(Reader):
    """The least that a reader has."""

    outputs = ("tone",)

    def prepare(self, inputs):
        raise NotImplementedError

    def answers(self, outputs, data, inputs):
        raise NotImplementedError

    def agreement(self, answers, others):
        raise NotImplementedError


class OtherReader(ToneReader):
    """Another one."""


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """What a test registers is forgotten; built-in tasks stay, for their modules load once."""
    for name in BUILT_IN:
        find_export(name)
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))


# === Finding ===


def test_all_built_in_tasks_are_known():
    assert list(exported_tasks()) == BUILT_IN


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_tasks_have_all_parts(name):
    task = find_export(name)
    assert task.name == name and issubclass(task.reader, Reader) and task.reader.__doc__
    assert task.read_examples is not None
    assert task.writes == (name == "seq2seq")
    if not task.writes:
        assert task.label_texts is not None
        assert task.served is not None and set(task.served.forms) <= set(FORMS)
    shown = task.guide(type("SomeTask", (), {"pairs": None}))
    assert shown.python and (shown.json is None) == (name in ("multiple_choice", "relation"))
    assert registering_module(name) is None


def test_an_unknown_task_is_an_error_that_says_what_to_do():
    with pytest.raises(ValueError, match=r"'juggling' is not registered.*aspect, .*tagging.*export\.register_export"):
        find_export("juggling")
    with pytest.raises(ValueError, match="is not registered"):
        find_export("../classification")  # a name in a file, not a module


# === Registering ===


def test_name_and_reader_are_enough():
    task = register_export(ExportedTask(name="tone", reader=ToneReader))
    assert find_export("tone") is task and "tone" in exported_tasks()
    assert registering_module("tone") == __name__
    assert task.read_examples is read_texts and task.served is None and task.guide(None) == GuideInput()
    outputs = {"tone": 1}
    assert task.from_task(None, outputs, None) == task.to_task(None, outputs, None) == outputs
    assert ServedTask().answers(None, outputs) == outputs


def test_a_task_may_share_a_built_in_reader():
    register_export(ExportedTask(name="topic", reader=find_export("classification").reader))
    assert registering_module("topic") == __name__


def test_a_name_is_registered_once():
    task = register_export(ExportedTask(name="tone", reader=ToneReader))
    assert register_export(task) is task
    again = ExportedTask(name="tone", reader=ToneReader, length=64)  # as a module that is loaded again
    assert register_export(again) is again and find_export("tone").length == 64
    with pytest.raises(ValueError, match=r"'tone' is registered already, by .*ToneReader; this one is .*OtherReader"):
        register_export(ExportedTask(name="tone", reader=OtherReader))


@pytest.mark.parametrize("name", ["tagging", "seq2seq"])
def test_names_of_built_in_tasks_are_taken_before_they_are_loaded(monkeypatch, name):
    monkeypatch.setattr(registry, "_REGISTERED", {})
    with pytest.raises(ValueError, match=f"'{name}' is registered already, by export.tasks"):
        register_export(ExportedTask(name=name, reader=ToneReader))


def test_a_module_may_be_loaded_again():
    module = import_module("export.tasks.relation")
    before = find_export("relation")
    reload(module)
    assert find_export("relation") is not before


def test_what_is_no_task_is_refused():
    with pytest.raises(TypeError, match=r"expected an export\.ExportedTask"):
        register_export("tone")
    with pytest.raises(TypeError, match="expected a subclass of export.Reader"):
        ExportedTask(name="tone", reader=str)
    with pytest.raises(ValueError, match="expected the task's name"):
        ExportedTask(name="", reader=ToneReader)
    with pytest.raises(dataclasses.FrozenInstanceError):
        find_export("tagging").name = "tone"


def test_every_field_is_documented():
    for kind in (ExportedTask, ServedTask, GuideInput, Examples):
        for field in dataclasses.fields(kind):
            assert f"\n        {field.name}: " in kind.__doc__, f"{kind.__name__}.{field.name}"


def test_the_names_are_public():
    assert export.register_export is register_export
    for kind in (ExportedTask, ServedTask, GuideInput, Examples, Reader):
        assert getattr(export, kind.__name__) is kind


# === Runtimes ===


def test_a_runtime_registers_by_its_task(monkeypatch):
    monkeypatch.setattr("export.runtime._RUNTIMES", dict(import_module("export.runtime")._RUNTIMES))

    class Tone(Runtime):
        task = "tone"

    class Louder(Tone):
        pass

    class Mine(Classifier):
        task = "classification"

    runtimes = import_module("export.runtime")._RUNTIMES
    assert runtimes["tone"] is Tone and runtimes["classification"] is Classifier


def test_a_file_of_an_unknown_task_says_so(tmp_path, monkeypatch):
    file = tmp_path / "model.tflite"
    file.touch()
    metadata = type("Metadata", (), {"task": "juggling"})
    monkeypatch.setattr("export.runtime.read_metadata", lambda path: metadata)
    with pytest.raises(ValueError, match=r"model\.tflite cannot be read: The task 'juggling' is not registered"):
        load(file)


# === Other processes ===


def test_no_task_loads_tensorflow():
    code = (
        "import sys, export.runtime; from export.tasks.base.registry import _REGISTERED, exported_tasks, find_export; "
        "names = list(_REGISTERED); [find_export(name) for name in exported_tasks()]; "
        "heavy = ['tensorflow', 'keras', 'flatbuffers', 'export.file.metadata', 'export.file.contents']; "
        "print(names, [name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []"


def test_a_fresh_process_can_register_again(tmp_path, monkeypatch):
    (tmp_path / "tones.py").write_text(
        "from export import ExportedTask, register_export\n"
        "from export.tasks.classification import LabelReader\n"
        "class Reader(LabelReader): pass\n"
        "register_export(ExportedTask(name='tone', reader=Reader))\n"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "tones", None)
    repeat_registration({"module": "tones", "file": str(tmp_path / "tones.py"), "path": []})
    assert registering_module("tone") == "tones"
    repeat_registration(None)
