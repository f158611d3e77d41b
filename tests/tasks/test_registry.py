"""A task is registered once, and is then known to `load_task` and to the command line; nothing else makes it known."""

import json
import subprocess
import sys
from argparse import Namespace
from dataclasses import dataclass, fields
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import numpy as np
import pytest
from places import ROOT
from tiny_tasks import pretrained_directory, reviews

import keras_bert
from keras_bert import TaskEntry, TaskFlag, TextClassifier, load_task, register_task
from keras_bert.cli import main, make_parser
from keras_bert.cli.imports import import_tasks, read_imports
from keras_bert.tasks.base import registry
from keras_bert.tasks.base.answers import answer_words, plain_answer
from keras_bert.tasks.base.held_out import hold_out
from keras_bert.tasks.base.registry import BUILT_IN, find_task, registered_tasks
from keras_bert.tasks.base.saved_tasks import SETTINGS
from keras_bert.tasks.base.task_flags import LABEL, PAIR, TEXT

FILE = '''
from keras_bert import TaskEntry, TaskFlag, TextClassifier, register_task


class Mood(TextClassifier):
    """A toy task."""

    name = "mood"


register_task(
    TaskEntry("mood", Mood, flags=(TaskFlag("--long-texts", choices=("cut", "windows"), help="what to do with them"),))
)
print("mood is known")
'''


class Toy(TextClassifier):
    """A task that is registered in this process."""

    name = "toy"


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """What a test registers or imports is forgotten after it."""
    monkeypatch.setattr(registry, "_ENTRIES", dict(registered_tasks()))
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    registry._import_entry_points.cache_clear()
    yield
    registry._import_entry_points.cache_clear()
    for name in set(sys.modules) - before:
        if name in ("mood_task", "mood_parts", "broken_task", "mood_entry"):
            del sys.modules[name]


@pytest.fixture
def mood_file(tmp_path):
    path = tmp_path / "mood_task.py"
    path.write_text(FILE, encoding="utf-8")
    return path


# === By name ===


def test_every_built_in_task_is_complete():
    entries = registered_tasks()
    assert set(entries) == set(BUILT_IN)
    for name, entry in entries.items():
        assert entry.name == entry.load_class().name == name
        assert all(callable(getattr(entry, part)) for part in ("read", "hold_out", "ask", "plain", "words"))
        assert entry.make is not None or hasattr(entry.load_class(), "from_pretrained")
        assert find_task(name) is entry
    public = [getattr(keras_bert, name) for name in keras_bert.__all__]
    assert all(entry.load_class() in public for entry in entries.values())


def test_names_are_known_without_tensorflow():
    code = (
        "import sys, keras_bert\n"
        "assert keras_bert.TaskEntry and keras_bert.TaskFlag and keras_bert.register_task\n"
        "from keras_bert.tasks.base.registry import registered_tasks\n"
        "from keras_bert.cli import make_parser\n"
        "make_parser().parse_args(['finetune', 'a', 'b', '--task', 'tagging', '--head', 'crf'])\n"
        "print(len(registered_tasks()), [name for name in ('tensorflow', 'keras') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{len(BUILT_IN)} []"


@pytest.mark.parametrize("name", ["toxicity", "os", "", None, ["tagging"]])
def test_unknown_names(name):
    with pytest.raises(ValueError, match="is unknown; known are aspect, classification") as error:
        find_task(name)
    for way in ("register_task(TaskEntry(…))", "--import FILE.py", "entry point of the group 'keras_bert.tasks'"):
        assert way in str(error.value)


def test_a_saved_directory_imports_nothing(tmp_path, capsys):
    place = tmp_path / "saved"
    place.mkdir()
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    for name in ("evil", "evil:Task", str(tmp_path / "evil.py"), "keras_bert.tasks.base.registry"):
        (place / SETTINGS).write_text(json.dumps({"task": name}), encoding="utf-8")
        with pytest.raises(ValueError, match="saved was not opened. The task .* is unknown.*--import"):
            load_task(place)
    (place / SETTINGS).write_text(f'{{"task": "similarity", "score_range": [0, 1{"0" * 399}]}}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"cannot be read \(a number of 400 digits\)"):
        load_task(place)
    (place / SETTINGS).write_text("{}", encoding="utf-8")
    assert main(["predict", str(place), "a text"]) == 1
    assert "does not name a task; expected what a task's save() writes" in capsys.readouterr().err


def test_registering_twice():
    register_task(TaskEntry("toy", Toy))
    newer = TaskEntry("toy", f"{Toy.__module__}:Toy", sequence_length=64)
    register_task(newer)  # the same class, as after a notebook's cell has run again
    assert find_task("toy") is newer
    other = type("Other", (Toy,), {})
    with pytest.raises(ValueError, match="The task 'toy' is .*:Toy already and cannot be .*:Other too"):
        register_task(TaskEntry("toy", other))
    with pytest.raises(ValueError, match="The task 'tagging' is keras_bert.tasks.tagging.task:EntityTagger already"):
        register_task(TaskEntry("tagging", type("Tagger", (), {"name": "tagging"})))
    with pytest.raises(TypeError, match="expected TaskEntry"):
        register_task(Toy)


def test_a_built_in_name_is_taken_before_it_is_used():
    code = (
        "from keras_bert import TaskEntry, register_task\n"
        "try:\n    register_task(TaskEntry('tagging', 'mine:Tagger'))\n"
        "except ValueError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "EntityTagger already and cannot be mine:Tagger too" in done.stdout


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "two words"}, "expected a word"),
        ({"name": "other"}, "has name='toy', its entry 'other'"),
        ({"task_class": "no_class"}, "'module:Class'"),
        ({"task_class": 3}, "expected a class"),
        ({"flags": ("--head",)}, "expected a tuple of TaskFlag"),
    ],
)
def test_faulty_entries(fields, words):
    with pytest.raises((ValueError, TypeError), match=words):
        TaskEntry(**{"name": "toy", "task_class": Toy, **fields})


def test_faulty_flags_and_classes():
    with pytest.raises(ValueError, match="expected a flag of lower-case words"):
        TaskFlag("head")
    with pytest.raises(ValueError, match="EntityTagger has name='tagging', its entry 'toy'"):
        TaskEntry("toy", "keras_bert.tasks.tagging.task:EntityTagger").load_class()


# === Defaults ===


@dataclass(frozen=True)
class Mark:
    """An answer of a toy task."""

    grade: str
    weights: np.ndarray

    def __str__(self):
        return f"grade {self.grade}"


def test_defaults_of_answers():
    mark = Mark("A", np.array([0.123456, 2], "float32"))
    assert plain_answer((mark, None)) == [{"grade": "A", "weights": [0.1235, 2.0]}, None]
    assert json.dumps(plain_answer({1: np.int64(3), "when": {"a"}}))
    assert answer_words([mark, 0.5]) == "grade A, 0.500"


def test_defaults_of_data(tmp_path):
    entry = TaskEntry("toy", Toy)
    assert entry.data_flags == (TEXT, PAIR, LABEL)
    path = tmp_path / "train.tsv"
    path.write_text("words\tlabel\n" + "good\tyes\nbad\tno\n" * 20, encoding="utf-8")
    rows = entry.read(Namespace(text="words", pair=None, label=None), path, "train")
    train, validation = entry.hold_out(rows)
    assert len(train) == 36 and sorted(row.label for row in validation) == ["no", "no", "yes", "yes"]
    assert {len(part) for part in hold_out([(text, "yes") for text in "abcdefghij"])} == {9, 1}
    rows = entry.read(Namespace(text="words"), path, "dev", SimpleNamespace(kind="single_label"))
    assert len(rows) == 40


def test_default_make_passes_labels_and_given_flags():
    made = {}

    class Maker(Toy):
        @classmethod
        def from_pretrained(cls, model, *, labels, **options):
            made.update(options, model=model, labels=labels)

    flags = (TaskFlag("--threshold", type=float), TaskFlag("--exact", is_switch=True), TaskFlag("--other"))
    arguments = Namespace(model="m", sequence_length=128, threshold=0.0, exact=False, other=None)
    TaskEntry("toy", Maker, flags=flags).make_task(arguments, ["b", "a", "b"])
    assert made == {"model": "m", "labels": ["a", "b"], "sequence_length": 128, "threshold": 0.0}


# === The command line ===


def test_words_before_the_command():
    assert read_imports(["--import", "a.py", "--import=b.c", "predict", "m", "--import", "d"]) == ["a.py", "b.c"]
    assert read_imports(["predict", "m", "--import=evil.py"]) == read_imports(["--import"]) == read_imports([]) == []


def test_import_after_the_command_is_refused(tmp_path, capsys):
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    for words in (["--import", str(tmp_path / "evil.py")], [f"--import={tmp_path / 'evil.py'}"]):
        with pytest.raises(SystemExit, match="2"):
            main(["predict", "model", "a text", *words])
        assert "--import must come before the command" in capsys.readouterr().err


def test_from_a_file_to_answers(mood_file, tmp_path, capsys):
    lines = [f"{text}\t{label}" for text, label in zip(*reviews(60, seed=1), strict=True)]
    data, model = tmp_path / "train.tsv", tmp_path / "model"
    data.write_text("\n".join(["sentence\tlabel", *lines]) + "\n", encoding="utf-8")
    known = ["--import", str(mood_file)]
    flags = ["--model", str(pretrained_directory()), "--epochs", "1", "--sequence-length", "16", "--text", "sentence"]
    command = ["finetune", str(data), str(model), "--task", "mood", "--long-texts", "windows", *flags, "--json"]
    assert main([*known, *command]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["examples"] == 54 and "mood is known" in printed.err
    task = load_task(model)
    assert type(task).__name__ == "Mood" and task.long_texts == "windows" and task.labels == ["bad", "good"]
    assert main([*known, "predict", str(model), "the film was great", "--json"]) == 0  # imported once
    printed = capsys.readouterr()
    assert {label["name"] for label in json.loads(printed.out)["answers"][0]} == {"bad", "good"}
    assert "mood is known" not in printed.err
    assert main([*known, "evaluate", str(model), str(data), "--text", "sentence", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 60
    assert main(["finetune", str(data), "out", "--task", "mood", "--head", "crf"]) == 1
    assert "--head is for --task tagging, not for mood" in capsys.readouterr().err
    assert main(["finetune", str(data), "out", "--long-texts", "cut"]) == 1
    assert "--long-texts is for --task mood, not for classification" in capsys.readouterr().err


def test_unknown_task_on_the_command_line(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["finetune", "a", "b", "--task", "mood"])
    assert "The task 'mood' is unknown; known are aspect" in capsys.readouterr().err


def test_a_class_beside_the_file_that_registers_it(tmp_path):
    (tmp_path / "mood_parts.py").write_text(FILE.split("register_task(\n")[0], encoding="utf-8")
    path = tmp_path / "mood_entry.py"
    path.write_text(
        "import keras_bert\nkeras_bert.register_task(keras_bert.TaskEntry('mood', 'mood_parts:Mood'))",
        encoding="utf-8",
    )
    import_tasks(str(path))
    assert "mood_parts" not in sys.modules
    assert find_task("mood").load_class().__module__ == "mood_parts"


def test_imports_that_fail(tmp_path, capsys):
    (tmp_path / "broken_task.py").write_text("import no_such_package_of_mine", encoding="utf-8")
    (tmp_path / "json.py").write_text("", encoding="utf-8")
    for named, words in (
        (tmp_path / "broken_task.py", "No module named 'no_such_package_of_mine'"),
        (tmp_path / "json.py", "there is already another module 'json'"),
        (tmp_path / "missing.py", "missing.py does not exist"),
        ("no_such_module.tasks", "There is no module 'no_such_module.tasks'"),
    ):
        assert main(["--import", str(named), "info", "x"]) == 1
        assert words in capsys.readouterr().err
    assert "broken_task" not in sys.modules


def test_flags_that_contradict_each_other(capsys):
    register_task(TaskEntry("toy", Toy, flags=(TaskFlag("--head", type=int),)))
    assert main(["info", "x"]) == 1
    assert "The tasks 'tagging' and 'toy' define the flag --head differently" in capsys.readouterr().err
    register_task(TaskEntry("toy", Toy, flags=(TaskFlag("--output"),)))
    assert main(["info", "x"]) == 1
    assert "The flag --output of the task 'toy' is an argument of the command itself" in capsys.readouterr().err
    register_task(TaskEntry("toy", Toy, flags=find_task("tagging").flags))
    assert "tagging, toy: what chooses the tags" in " ".join(
        make_parser().commands.choices["finetune"].format_help().split()
    )


# === Installed packages ===


def install(monkeypatch, *points):
    points = [EntryPoint(name, value, registry.ENTRY_POINTS) for name, value in points]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    registry._import_entry_points.cache_clear()


def test_entry_points_register_tasks(monkeypatch, mood_file):
    monkeypatch.syspath_prepend(mood_file.parent)
    install(monkeypatch, ("mood", "mood_task"))
    assert find_task("tagging") and "mood_task" not in sys.modules  # not needed for that
    assert find_task("mood").load_class().name == "mood"
    assert "mood" in registered_tasks()
    arguments = make_parser().parse_args(["finetune", "a", "b", "--task", "mood", "--long-texts", "cut"])
    assert arguments.long_texts == "cut"


@pytest.mark.filterwarnings("always")
def test_a_broken_entry_point_is_named_and_others_work(monkeypatch, mood_file, tmp_path, capsys):
    (tmp_path / "broken_task.py").write_text("1 / 0", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    install(monkeypatch, ("broken", "broken_task"), ("mood", "mood_task"))
    assert main(["info", str(tmp_path)]) == 1
    errors = capsys.readouterr().err
    assert "note: The entry point broken = broken_task of the group 'keras_bert.tasks' failed" in errors
    assert "is not a model directory" in errors
    assert "mood" in registered_tasks() and "broken" not in registered_tasks()


def test_the_documented_fields_are_the_fields():
    for kind in (TaskEntry, TaskFlag):
        for field in fields(kind):
            assert f"        {field.name}: " in kind.__doc__, f"{kind.__name__}.{field.name}"
