"""Files are measured in a process of their own, whatever lies in the working directory."""

import pytest
from tiny_quantized import classifier

import export
from export.verification.fresh_process import ask_fresh_process
from export.verification.stream_latency import time_stream


@pytest.mark.parametrize("name", ["export", "json", "numpy"])
@pytest.mark.slow
def test_scripts_of_the_working_directory_are_not_run(tmp_path, monkeypatch, name):
    file = export.convert(classifier(), tmp_path / "model.tflite", lengths=16)
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("PYTHONPATH", "")
    (tmp_path / "cwd" / f"{name}.py").write_text("open('ran', 'w').close()")
    assert export.benchmark(file, repeats=2).latencies[0].length == 16
    assert len(time_stream([file], [[5, 9]], rounds=1)[0].milliseconds) == 2
    assert not (tmp_path / "cwd" / "ran").exists()


def test_what_goes_wrong_there_is_said_here():
    with pytest.raises(RuntimeError, match="the file could not be measured: .*no_such_function"):
        ask_fresh_process("export.verification.latency", "no_such_function", {}, "the file")
