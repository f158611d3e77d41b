"""The notebooks for Colab run from top to bottom, with small settings, and leave what they promise."""

import os

import pytest
from places import ROOT

NOTEBOOKS = ROOT / "examples" / "notebooks"
nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")


def run(name, directory, monkeypatch, **environment):
    """Execute a notebook in an empty directory; gives what its cells printed, in one text."""
    for key, value in {"KERAS_BERT_SMALL": "1", "TF_NUM_INTRAOP_THREADS": "1", **environment}.items():
        monkeypatch.setenv(key, value)
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(directory)}}
    )
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    outputs = [output for cell in cells for output in cell.outputs]
    return "".join(output.get("text", "") or output.get("data", {}).get("text/html", "") for output in outputs)


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_are_clean(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) >= 5
    assert not any(cell.outputs or cell.execution_count for cell in code), "clear the outputs before you commit"
    assert notebook.cells[0].cell_type == "markdown"
    assert any('KERAS_BERT_SMALL") == "1"' in cell.source for cell in code)


def test_the_first_cell_installs_and_says_what_to_restart():
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        first = next(cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code").source
        assert 'os.environ.get("KERAS_BERT_REPOSITORY"' in first and "@ git+{REPOSITORY}" in first, path
        assert "Now restart: Runtime → Restart session" in first, path


# Two devices, as XLA emulates them on a CPU.
TWO = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{"KERAS_BACKEND": "tensorflow"}, TWO], ids=["tensorflow", "jax"])
def test_finetune_and_deploy(environment, tmp_path, monkeypatch, minilm_dir):
    printed = run("finetune_and_deploy", tmp_path, monkeypatch, **environment)
    assert (tmp_path / "assistant" / "assistant.tflite").stat().st_size < 26_000_000
    assert (tmp_path / "assistant" / "keras" / "model.safetensors").exists()
    assert "48 commands to learn from" in printed
    assert printed.count("wake me at seven") == 2  # by Keras, and from the file
    assert 'class="kb-view"' in printed and "Why “" in printed
    assert "agreement" in printed.lower()
    assert "2 × CPU" in printed or environment is not TWO


@pytest.mark.slow
def test_pretrain_on_tpu_goes_from_text_to_a_file_on_jax(tmp_path, monkeypatch):
    printed = run("pretrain_on_tpu", tmp_path, monkeypatch, **TWO)
    for name in ("model/model.safetensors", "model/vocab.txt", "report.html", "history.jsonl", "assistant/vocab.txt"):
        assert (tmp_path / "my-bert" / name).exists(), name
    assert "data_parallel: 2 × CPU" in printed and "'step': 4" in printed
    assert "by Keras: " in printed and "from the file: " in printed
    assert (tmp_path / "my-bert" / "assistant.tflite").stat().st_size > 100_000
    assert os.environ["KERAS_BERT_SMALL"] == "1"
