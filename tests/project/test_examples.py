"""Every example runs to its end with `--smoke`, on a tiny model of its own."""

import subprocess
import sys

import pytest
from places import ROOT

from keras_bert.checkpoint import load_tokenizer, save_pretrained
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory, minilm_dir):
    """Random weights with a real vocabulary: what an example does with them is the same, and takes seconds."""
    directory = tmp_path_factory.mktemp("examples") / "model"
    save_pretrained(bert_encoder(BertConfig.preset("tiny"), seed=0), directory, tokenizer=load_tokenizer(minilm_dir))
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path, tiny_model):
    command = [sys.executable, example, "--smoke", "--output", tmp_path / "out"]
    if '"--model"' in example.read_text(encoding="utf-8"):
        command += ["--model", tiny_model]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert "»" in done.stdout  # it answered
