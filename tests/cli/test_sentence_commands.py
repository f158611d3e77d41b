"""The commands for similarity, multiple choice and zero-shot: from a file to a model directory to answers."""

import json
from argparse import Namespace

import pytest
from tiny_tasks import pretrained_directory

from keras_bert.cli import main
from keras_bert.tasks.similarity.commands import read_sentence_groups

FLAGS = "--learning-rate 3e-3 --epochs 4 --batch-size 8 --sequence-length 32 --json --debug"


def finetune(task, data, place, *flags):
    command = ["finetune", str(data), str(place / "model"), "--task", task, "--model", str(pretrained_directory())]
    assert main([*command, "--validation", str(data), *FLAGS.split(), *flags]) == 0


def answers(capsys):
    return json.loads(capsys.readouterr().out)["answers"]


@pytest.mark.slow
def test_similarity_from_a_file_to_cosines(tmp_path, capsys):
    lines = ["the film was good\ta fine film\t4", "the film was good\tthe plot is dull\t1"] * 12
    data = tmp_path / "pairs.tsv"
    data.write_text("\n".join(["text\tpair\tscore", *lines]) + "\n", encoding="utf-8")
    finetune("similarity", data, tmp_path, "--score-range", "0", "5")
    assert json.loads(capsys.readouterr().out)["spearman"] > 0.8
    (tmp_path / "ask.txt").write_text("\n".join(line.rsplit("\t", 1)[0] for line in lines[:2]), encoding="utf-8")
    assert main(["predict", str(tmp_path / "model"), "--input", str(tmp_path / "ask.txt"), "--json"]) == 0
    near, far = answers(capsys)
    assert near > far
    assert main(["predict", str(tmp_path / "model"), "the film", "--json"]) == 0
    assert len(answers(capsys)[0]) == 32
    assert main(["predict", str(tmp_path / "model"), "the film"]) == 0
    assert "(32 numbers)" in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path / "model"), str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["spearman"] > 0.8


def test_similarity_reads_a_glue_task(tmp_path):
    head = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
    row = "0\tmain\tf\t2012\t1\ta\tb\tthe film was good\ta fine film\t4.500\n"
    (tmp_path / "train.tsv").write_text(head + row, encoding="utf-8")
    rows = read_sentence_groups(Namespace(glue="STS-B"), tmp_path, "train")
    assert [(group.texts, group.score) for group in rows] == [(("the film was good", "a fine film"), 4.5)]


@pytest.mark.slow
def test_choices_from_a_file_to_answers(tmp_path, capsys):
    rows = [
        {"context": "the film was good", "choices": ["it is fine", "it is dull"], "label": 0},
        {"context": "the plot was bad", "choices": ["it is great", "it is poor", "a cast"], "label": "it is poor"},
    ]
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows * 12)), encoding="utf-8")
    finetune("multiple_choice", data, tmp_path)
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1.0
    (tmp_path / "ask.txt").write_text("the film was good\tit is dull\tit is fine\n", encoding="utf-8")
    assert main(["predict", str(tmp_path / "model"), "--input", str(tmp_path / "ask.txt"), "--json"]) == 0
    assert answers(capsys)[0][0]["text"] == "it is fine"
    assert main(["predict", str(tmp_path / "model"), "the film was good"]) == 1
    assert "no choices" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "model"), str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["chance"] == pytest.approx((1 / 2 + 1 / 3) / 2)


@pytest.mark.slow
def test_zero_shot_from_a_file_to_answers(tmp_path, capsys):
    lines = ["the film was good\ta film\tentailment", "the film was good\ta plot\tcontradiction"] * 80
    data = tmp_path / "nli.tsv"
    data.write_text("\n".join(["text\tpair\tlabel", *lines]) + "\n", encoding="utf-8")
    finetune("zero_shot", data, tmp_path, "--pair", "pair")
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1.0
    labelled = tmp_path / "labelled.tsv"
    labelled.write_text("text\tlabel\nthe film was good\tfilm\nthe film was good\tplot\n", encoding="utf-8")
    asked = ["--labels", "film, plot", "--template", "a {}", "--json"]
    assert main(["predict", str(tmp_path / "model"), "the film was good", *asked]) == 0
    assert answers(capsys)[0][0]["label"] == "film"
    assert main(["evaluate", str(tmp_path / "model"), str(labelled), *asked]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == 0.5


def test_labels_ask_any_model(capsys):
    directory = str(pretrained_directory())
    assert main(["predict", directory, "the film", "--labels", "film,plot,cast"]) == 0
    assert "%" in capsys.readouterr().out
    assert main(["predict", directory, "the film", "--template", "a {}"]) == 1
    assert "pass both, or none" in capsys.readouterr().err
    assert main(["predict", directory, "the film", "--labels", "film"]) == 1
    assert "at least two" in capsys.readouterr().err
