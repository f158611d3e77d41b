"""`keras-bert pretrain --teacher`: a student from text files, in one command."""

import contextlib
import json
import random

import keras
import numpy as np
import pytest
from pretraining_run import TOKENIZER, WORDS
from taught_run import write_teacher

from keras_bert.checkpoint import load_encoder
from keras_bert.cli import main
from keras_bert.model.encoder import encoder_config
from keras_bert.training.devices import Devices


@pytest.fixture
def without_xla(monkeypatch):
    """A few steps on a few sentences: neither XLA nor worker processes would pay."""
    options, compile_model = Devices.compile_options, keras.Model.compile
    monkeypatch.setattr(Devices, "compile_options", lambda *a, **k: {**options(*a, **k), "jit_compile": False})
    monkeypatch.setattr(keras.Model, "compile", lambda *a, **k: compile_model(*a, **{**k, "jit_compile": False}))
    monkeypatch.setattr("keras_bert.pretraining.corpus.writing._count_cores", lambda: 1)


def write_corpus(path):
    chooser = random.Random(0)
    lines = [" ".join(chooser.choices(WORDS[:20], k=6)) + " ." for _ in range(120)]
    path.write_text("\n\n".join("\n".join(lines[start : start + 6]) for start in range(0, 120, 6)))
    return path


def run_json(capsys, *words):
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.usefixtures("without_xla")
def test_a_student_from_text_files(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    corpus, teacher = write_corpus(tmp_path / "corpus.txt"), write_teacher(tmp_path / "teacher")
    numbers = {"steps": 4, "save-every": 2, "batch-size": 4, "sequence-length": 32, "dropout": 0, "size": "tiny"}
    flags = [word for name, value in numbers.items() for word in (f"--{name}", value)]
    words = ["pretrain", corpus, tmp_path / "out", "--teacher", teacher, *flags]
    result = run_json(capsys, *words, "--teacher-losses", "hidden=1,relations=0.5", "--vocabulary-size", 20)
    assert result["relations_2_3_loss"] > 0
    encoder, tokenizer = load_encoder(result["model"])
    assert tokenizer.vocabulary_size == 20 == encoder_config(encoder).vocabulary_size
    assert set(tokenizer.vocabulary) < set(TOKENIZER.vocabulary)
    again = run_json(capsys, *words, "--teacher-losses", "hidden=1,relations=0.5", "--vocabulary-size", 20)
    assert again == result  # nothing left to do
    manifest = json.loads((tmp_path / "out" / "examples-32" / "manifest.json").read_text())
    assert manifest["settings"]["pairs"] == "single"
    assert (tmp_path / "out" / "plots" / "teacher_distance.png").is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("without_xla")
def test_a_student_with_blocks_of_its_teacher(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    corpus, teacher = write_corpus(tmp_path / "corpus.txt"), write_teacher(tmp_path / "teacher")
    numbers = {"steps": 2, "save-every": 2, "batch-size": 4, "sequence-length": 32, "learning-rate": 1e-9, "blocks": 2}
    flags = [word for name, value in numbers.items() for word in (f"--{name}", value)]
    result = run_json(capsys, "pretrain", corpus, tmp_path / "out", "--teacher", teacher, *flags)
    theirs, ours = load_encoder(teacher)[0], load_encoder(result["model"])[0]
    assert encoder_config(ours) == encoder_config(theirs).replace(num_layers=2, max_sequence_length=512)
    for weight, its in zip(ours.get_layer("block_1").weights, theirs.get_layer("block_2").weights, strict=True):
        np.testing.assert_allclose(np.asarray(weight), np.asarray(its), atol=1e-6)
    assert main(["pretrain", str(corpus), str(tmp_path / "four"), "--teacher", str(teacher), "--blocks", "4"]) == 1
    assert "--blocks 4: the teacher has 3; expected 1 to that many" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("without_xla")
def test_a_narrow_token_table_and_several_layers(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    corpus, teacher = write_corpus(tmp_path / "corpus.txt"), write_teacher(tmp_path / "teacher")
    numbers = {"steps": 4, "save-every": 2, "batch-size": 4, "sequence-length": 32, "blocks": 2, "embedding-dim": 16}
    flags = [word for name, value in numbers.items() for word in (f"--{name}", value)]
    words = ["pretrain", corpus, tmp_path / "out", "--teacher", teacher, *flags, "--teacher-layers", "0:0,1:2,2:3"]
    words += ["--teacher-words", 3]
    result = run_json(capsys, *words)
    assert {"hidden_0_0_loss", "hidden_1_2_loss", "hidden_2_3_loss"} < set(result)
    config = encoder_config(load_encoder(result["model"])[0])
    assert (config.table_dim, config.hidden_dim, config.num_layers) == (16, 48, 2)
    manifest = json.loads((tmp_path / "out" / "examples-32" / "manifest.json").read_text())
    assert len(manifest["files"]) == 2 and (tmp_path / "out" / "words.txt").is_file()
    # Other libraries know narrow tables as ELECTRA's.
    assert json.loads((tmp_path / "out" / "model" / "config.json").read_text())["model_type"] == "electra"


def test_bad_flags_are_named(tmp_path, capsys):
    corpus = write_corpus(tmp_path / "corpus.txt")

    def fails(*flags):
        with contextlib.suppress(SystemExit):  # argparse found it
            assert main(["pretrain", str(corpus), str(tmp_path / "out"), *flags]) == 1
        return capsys.readouterr().err

    assert "a teacher teaches in one phase" in fails("--teacher", "x", "--phases", "16:500,32:500")
    assert "has all its blocks from the start" in fails("--teacher", "x", "--grow", "1:500")
    assert "'logits' is no loss; expected one of hidden" in fails("--teacher", "x", "--teacher-losses", "logits=1")
    assert "'hidden' is no weight; expected NAME=NUMBER" in fails("--teacher", "x", "--teacher-losses", "hidden")
    assert "'1-2' are no layers; expected STUDENT:TEACHER" in fails("--teacher", "x", "--teacher-layers", "1-2")
    assert "nobody says what a word means" in fails("--teacher-words", "3")
    assert "a model has its own sizes" in fails("--start-from", "tiny-en", "--embedding-dim", "64")
    assert "--blocks 2 without --teacher" in fails("--blocks", "2")
    assert "not allowed with argument --size" in fails("--teacher", "x", "--size", "tiny", "--blocks", "2")
    assert "nothing is left to learn" in fails("--teacher", "x", "--teacher-losses", "hidden=0,sentence=0")
