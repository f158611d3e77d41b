"""The commands for a model that writes: from a file to a model directory to texts."""

import json

import pytest
from tiny_writers import CONFIG, random_writer, reversals, tokenizer

from keras_bert.checkpoint import save_pretrained
from keras_bert.cli import main
from keras_bert.model.encoder import bert_encoder

FLAGS = "--epochs 1 --batch-size 16 --sequence-length 16 --target-length 6 --label-smoothing 0.1"


@pytest.mark.slow
def test_from_a_file_to_texts(tmp_path, capsys):
    data, model = tmp_path / "pairs.tsv", tmp_path / "writer"
    save_pretrained(bert_encoder(CONFIG, seed=1), tmp_path / "bert", tokenizer=tokenizer())
    pairs = ["\t".join(pair) for pair in reversals(60, seed=0)]
    data.write_text("\n".join(["words\tturned", *pairs]) + "\n", encoding="utf-8")
    columns = ["--text", "words", "--label", "turned", "--json", "--debug"]
    command = ["finetune", str(data), str(model), "--task", "seq2seq", "--model", str(tmp_path / "bert")]
    assert main([*command, *FLAGS.split(), *columns]) == 0
    assert json.loads(capsys.readouterr().out)["log_likelihood"] < 0
    assert main(["generate", str(model), "a b", "c d e", "--max-length", "4", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert len(answers) == 2
    assert main(["generate", str(model), "a b", "--max-length", "4", "--stream"]) == 0
    assert capsys.readouterr().out == answers[0] + "\n"
    (tmp_path / "ask.txt").write_text("a\tb c\n\nd\u2028e\n", encoding="utf-8")
    asked = ["generate", str(model), "--file", str(tmp_path / "ask.txt"), "--output", str(tmp_path / "answers.jsonl")]
    assert main([*asked, "--max-length", "4", "--sampler", "top_k", "--k", "3", "--seed", "1"]) == 0
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    assert [line["text"] for line in lines] == [["a", "b c"], "", "d\u2028e"]
    assert [line["answer"] is None for line in lines] == [False, True, False]
    assert main([*asked[:4], "--max-length", "4", "--stream"]) == 0
    assert capsys.readouterr().out.count("\n") == 3 + 2  # what the commands print
    assert main(["evaluate", str(model), str(data), *columns[:5]]) == 0
    assert "bleu" in json.loads(capsys.readouterr().out.splitlines()[-1])


def test_models_that_cannot_write(tmp_path, capsys):
    save_pretrained(bert_encoder(CONFIG), tmp_path / "bert", tokenizer=tokenizer())
    assert main(["generate", str(tmp_path / "bert"), "a"]) == 1
    assert "has no MLM head" in capsys.readouterr().err
    assert main(["generate", str(tmp_path / "bert")]) == 1
    assert "There is no text" in capsys.readouterr().err
    save_pretrained(random_writer(num_layers=1), tmp_path / "writer", tokenizer=tokenizer())
    assert main(["generate", str(tmp_path / "writer"), "a", "--stream", "--json"]) == 1
    assert "leave out --json" in capsys.readouterr().err
