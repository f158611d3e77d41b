"""What needs TensorFlow runs in a child process where Keras runs on JAX, and nobody notices."""

import io

import pytest
from strategy_processes import finish, start
from tiny_tasks import pretrained_directory

import export
import keras_bert
from export.tasks.base import tensorflow_process


@pytest.fixture
def task():
    return keras_bert.TextClassifier.from_pretrained(pretrained_directory(), labels=["bad", "good"])


def test_a_file_an_error_and_what_cannot_be_sent(task, tmp_path, monkeypatch):
    """The child process is the same on both backends."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here = export.convert(task, tmp_path / "here" / "model.tflite", lengths=8)
    monkeypatch.setattr(tensorflow_process, "runs_here", lambda: False)
    there = export.convert(task, tmp_path / "there" / "model.tflite", lengths=8)
    assert (there.recipe, there.num_bytes, there.lengths) == (here.recipe, here.num_bytes, here.lengths)
    assert there.path.read_bytes() == here.path.read_bytes()
    with pytest.raises(TypeError, match="calibration is a generator, which cannot be sent .* pass lists or a file"):
        export.convert(task, tmp_path / "x.tflite", recipe="static_int8", calibration=(text for text in ["a film"]))


def test_tasks_are_saved_once_and_found_in_lists(task, tmp_path):
    saver = tensorflow_process._Saver(tmp_path)
    first, (second, text) = saver.replace(task), saver.replace([task, "a text"])
    assert first == second and first.is_task and text == "a text"
    opened = dict(tensorflow_process._opened({"teachers": [first], "student": first, "epochs": 2}))
    assert opened["student"] is opened["teachers"][0] and opened["epochs"] == 2
    assert isinstance(opened["student"], keras_bert.TextClassifier)


def test_what_the_child_writes_is_passed_on_and_errors_are_kept_for_the_message():
    written, noted = io.StringIO(), []
    tensorflow_process._relay(io.BytesIO("Größe\nfehlt\n".encode()), written, noted)
    assert written.getvalue() == "".join(noted) == "Größe\nfehlt\n"
    tensorflow_process._relay(io.BytesIO(b"a bar"), written, None)
    assert written.getvalue().endswith("a bar")


@pytest.mark.slow
def test_files_are_those_of_tensorflow(tmp_path):
    """Also the errors of the child process: their type and words."""
    printed = finish(
        *(start("jax_exports.py", tmp_path / name, backend=name) for name in ("jax", "tensorflow")), timeout=900
    )
    for text in printed:
        assert "The recipe 'static_int8' needs calibration data" in text.splitlines()[-1]
    ours, theirs = (
        {
            path.relative_to(tmp_path / name)
            for path in (tmp_path / name).rglob("*")
            if path.is_file() and ".work" not in path.parts  # which files a search tries goes by their measured times
        }
        for name in ("jax", "tensorflow")
    )
    assert ours == theirs
    files = [path for path in ours if path.suffix == ".tflite"]
    assert len(files) >= 6  # four recipes, one that was trained for, and what `deploy` chose
    for path in files:
        assert (tmp_path / "jax" / path).read_bytes() == (tmp_path / "tensorflow" / path).read_bytes(), path
