"""Where a server finds its file, and how it moves over to a new version."""

import shutil
import subprocess
import sys

import pytest
from tiny_server import CORPUS, FILES, serving

from export.server.source import open_source
from export.server.versions import Versions

OLD, NEW = FILES / "classification.float32.tflite", FILES / "classification_wide.tflite"


def put(place, number, file=OLD):
    target = place / str(number) / "model.tflite"
    target.parent.mkdir(parents=True)
    shutil.copy(file, target)
    return target


def test_what_a_path_means(tmp_path):
    put(tmp_path / "sentiment", 3)
    shutil.copy(OLD, tmp_path / "model.tflite")
    shutil.copy(OLD, tmp_path / "tone.tflite")
    assert open_source(tmp_path / "sentiment").name == "sentiment"
    assert [found.number for found in open_source(tmp_path / "sentiment").find()] == [3]
    assert open_source(tmp_path).name == tmp_path.name == open_source(tmp_path / "model.tflite").name
    assert open_source(tmp_path / "tone.tflite").name == "tone"
    (tmp_path / "served" / "1").mkdir(parents=True)
    (tmp_path / "served" / "1" / "saved_model.pb").touch()
    (tmp_path / "sentiment" / "none").mkdir()
    with pytest.raises(ValueError, match=r"SavedModel, which TF Serving serves.*keras-bert export"):
        open_source(tmp_path / "served")
    with pytest.raises(ValueError, match="no keras_bert_task.json of a model that finetune wrote"):
        open_source(tmp_path / "sentiment" / "none")
    with pytest.raises(FileNotFoundError, match="expected a .tflite file, or a directory"):
        open_source(tmp_path / "none")
    with pytest.raises(ValueError, match="pass --name"):
        open_source(OLD, name="a/b")


def test_a_new_version_answers_and_a_bad_one_is_refused(tmp_path):
    place = tmp_path / "tone"
    put(place, 1)
    with serving(place) as server:
        versions, body = server.service.versions, {"instances": ["the film was very good"]}
        before = server.ask("predict", body)[1]
        assert not versions.refresh()
        damaged = put(place, 3)
        damaged.write_bytes(OLD.read_bytes()[:5000])
        assert not versions.refresh() and versions.current.number == 1
        assert server.ask("predict", body)[1] == before
        states = {row["version"]: row["state"] for row in server.get("/v1/models/tiny").json()["model_version_status"]}
        assert states == {"3": "END", "1": "AVAILABLE"}
        put(place, 2, NEW)
        assert versions.refresh() and versions.current.number == 2
        after = server.ask("predict", body)[1]
        assert after != before
        assert server.post("/v1/models/tiny/versions/1:predict", json=body).status_code == 404
        shutil.copy(OLD, damaged)  # now it is whole
        assert versions.refresh() and versions.current.number == 3
        assert server.ask("predict", body)[1] == before
        shutil.rmtree(place / "3")  # the file may go while it is served
        assert not versions.refresh() and server.ask("predict", body)[1] == before
        events = [line["event"] for line in server.log if line["event"].startswith("version")]
        assert events == ["version_refused", "version_loaded", "version_loaded"]
        assert "keras_bert_refused_versions_total 1.0" in server.get("/metrics").text


def test_a_file_that_is_overwritten_in_place(tmp_path):
    path = tmp_path / "tone.tflite"
    shutil.copy(OLD, path)
    with serving(path) as server:
        versions, body = server.service.versions, {"instances": ["the film was very good"]}
        before = server.ask("predict", body)[1]
        path.write_bytes(b"")  # a mapped file that is cut would end the process
        assert server.ask("predict", body)[1] == before
        assert not versions.refresh()
        path.write_bytes(NEW.read_bytes())
        assert versions.refresh() and server.ask("predict", body)[1] != before


def test_the_best_version_that_can_be_opened_is_served(tmp_path):
    put(tmp_path, 1)
    put(tmp_path, 2).write_bytes(b"nothing")
    assert Versions(open_source(tmp_path, name="tiny"), 1).current.number == 1
    (tmp_path / "1" / "model.tflite").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="No version can be served") as refused:
        Versions(open_source(tmp_path, name="tiny"), 1)
    assert str(tmp_path / "1" / "model.tflite") in str(refused.value)


def test_files_that_give_no_numbers_are_refused(tmp_path, monkeypatch):
    from export.tasks.classification import ServedClasses

    put(tmp_path, 1)
    monkeypatch.setattr(ServedClasses, "columns", lambda *given: {"probability": [float("nan")]})
    with pytest.raises(ValueError, match="not numbers"):
        Versions(open_source(tmp_path, name="tiny"), 1)


# === Models that are converted first ===


def test_a_model_is_converted_once_in_a_process_of_its_own(tmp_path, monkeypatch):
    commands = []

    def convert(command, **options):
        commands.append(command)
        target = command[command.index("export") + 2]
        (tmp_path / "made").mkdir(exist_ok=True)
        shutil.copytree(tmp_path / "made", target)
        shutil.copy(OLD, f"{target}/model.tflite")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("export.server.source.subprocess.run", convert)
    model = CORPUS / "tasks" / "classification"
    options = {"recipe": "all_int4", "cache": tmp_path / "cache", "imports": ["my_task.py"]}
    first = open_source(model, **options)
    assert open_source(model, **options) == first and len(commands) == 1
    (command,) = commands
    assert command[:3] == [sys.executable, "-m", "keras_bert.cli"]
    assert command[3:6] == ["--import", "my_task.py", "export"]
    assert "all_int4" in command and command[command.index("--lengths") + 1] == "dynamic"
    other = tmp_path / "classification"
    shutil.copytree(model, other)
    (other / "labels.txt").write_text("no\nyes\nmaybe\n")
    assert open_source(other, **options).path != first.path and len(commands) == 2
    assert not list((tmp_path / "cache").glob(".*"))


def test_a_model_that_cannot_be_converted(tmp_path, monkeypatch):
    def convert(command, **options):
        return subprocess.CompletedProcess(command, 1, "", "one\nkeras-bert: There is no TensorFlow.\n")

    monkeypatch.setattr("export.server.source.subprocess.run", convert)
    with pytest.raises(RuntimeError, match="There is no TensorFlow.\nConvert it where TensorFlow is installed"):
        open_source(CORPUS / "tasks" / "seq2seq", cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())
