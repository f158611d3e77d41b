"""The command line prints what it should, in words and in JSON, and fails with one line."""

import json
import random

import pytest

from keras_bert import save_pretrained
from keras_bert.cli import main
from keras_bert.config import BertConfig
from keras_bert.heads import bert_model
from keras_bert.tokenizer import BertTokenizer

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "##s", "!"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    model = bert_model(
        BertConfig.preset("tiny", vocabulary_size=len(VOCABULARY)), "classification", num_classes=2, seed=0
    )
    save_pretrained(model, path, tokenizer=BertTokenizer(VOCABULARY), labels=["no", "yes"])
    return path


def run_json(capsys, *arguments):
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_info(directory, capsys):
    result = run_json(capsys, "info", directory)
    assert result["num_layers"] == 2
    assert result["outputs"] == ["class_logits"]
    assert result["labels"] == ["no", "yes"]
    assert main(["info", str(directory)]) == 0
    assert "hidden_dim" in capsys.readouterr().out


def test_tokenize_by_model_and_by_vocabulary(directory, capsys):
    expected = {"tokens": ["hello", "world", "##s", "!"], "ids": [5, 6, 7, 8]}
    expected["offsets"] = [[0, 5], [6, 11], [11, 12], [12, 13]]
    assert run_json(capsys, "tokenize", directory, "Hello worlds!") == expected
    assert run_json(capsys, "tokenize", directory / "vocab.txt", "Hello worlds!") == expected


def test_convert_there_and_back(directory, tmp_path, capsys):
    run_json(capsys, "convert", directory, tmp_path / "google", "--format", "google")
    run_json(capsys, "convert", tmp_path / "google", tmp_path / "back")
    original, back = ((path / "model.safetensors").read_bytes() for path in (directory, tmp_path / "back"))
    assert original == back


def test_vocabulary(tmp_path, capsys):
    (tmp_path / "corpus.txt").write_text("low lower lowest new newer newest\n" * 20)
    output = tmp_path / "vocab.txt"
    result = run_json(capsys, "vocabulary", tmp_path / "corpus.txt", "--size", 40, "--output", output)
    tokens = output.read_text().split("\n")[:-1]
    assert len(tokens) == result["tokens"] <= 40
    assert tokens[:5] == VOCABULARY[:5]


@pytest.mark.slow
def test_pretrain_from_text_to_model(tmp_path, capsys):
    chooser, words = random.Random(0), ["red", "green", "blue", "one", "two", "three"]
    sentences = [" ".join(chooser.choices(words, k=6)) + "." for _ in range(240)]
    documents = ["\n".join(sentences[start : start + 6]) for start in range(0, 240, 6)]
    (tmp_path / "corpus.txt").write_text("\n\n".join(documents))
    numbers = {"steps": 4, "save-every": 2, "batch-size": 4, "sequence-length": 32, "vocabulary-size": 60}
    settings = ["--size", "tiny", *(word for name, value in numbers.items() for word in (f"--{name}", value))]
    result = run_json(capsys, "pretrain", tmp_path / "corpus.txt", tmp_path / "out", *settings)
    assert result["step"] == 4
    assert result["mlm_logits_perplexity"] > 1
    assert run_json(capsys, "info", tmp_path / "out" / "model")["outputs"] == ["mlm_logits", "nsp_logits"]
    again = run_json(capsys, "pretrain", tmp_path / "corpus.txt", tmp_path / "out", *settings)
    assert again == result  # nothing left to do


def test_errors_are_one_line_and_exit_1(tmp_path, capsys):
    assert main(["info", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("keras-bert: ")
    assert "Traceback" not in error
    with pytest.raises(ValueError, match="is no model directory"):
        main(["info", str(tmp_path), "--debug"])


def test_help_and_usage(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "keras-bert convert" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["unknown"])
