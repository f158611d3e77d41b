"""`keras-bert finetune`, `predict` and `evaluate`: from a file to a model directory to answers, without Python."""

import json

import pytest

from keras_bert import load_task
from keras_bert.cli import main
from tests.tiny_tasks import pretrained_directory, reviews


def write_tsv(path, count, seed, header="sentence\tlabel"):
    lines = [f"{text}\t{label}" for text, label in zip(*reviews(count, seed=seed), strict=True)]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def finetuned(tmp_path_factory):
    """A model directory that the command wrote, and the directory with its data."""
    place = tmp_path_factory.mktemp("cli")
    train = write_tsv(place / "train.tsv", 160, 1)
    with open(train, "a", encoding="utf-8") as file:
        file.write("a row without a label\n")
    dev = write_tsv(place / "dev.tsv", 40, 2)
    command = ["finetune", train, str(place / "model"), "--model", str(pretrained_directory()), "--validation", dev]
    flags = "--text sentence --learning-rate 3e-3 --epochs 30 --batch-size 16 --sequence-length 32 --debug"
    assert main([*command, *flags.split(), "--json"]) == 0
    return place


def test_finetune_writes_a_model_and_no_state(finetuned):
    names = {path.name for path in (finetuned / "model").iterdir()}
    assert {"model.safetensors", "vocab.txt", "labels.txt", "keras_bert_task.json"} <= names
    assert "state" not in names
    assert (finetuned / "model/labels.txt").read_text().split() == ["bad", "good"]


def test_pooling_is_the_user_s_choice(finetuned, tmp_path, capsys):
    command = ["finetune", str(finetuned / "dev.tsv"), str(tmp_path / "out"), "--model", str(pretrained_directory())]
    flags = ["--text", "sentence", "--epochs", "1", "--sequence-length", "16", "--json"]
    assert main([*command, *flags, "--pooling", "mean"]) == 0
    assert load_task(tmp_path / "out").config.pooling == "mean"
    assert main([*command, "--pooling", "mean", "--task", "tagging"]) == 1
    assert "--pooling is for --task classification" in capsys.readouterr().err


def test_predict_answers(finetuned, capsys):
    assert main(["predict", str(finetuned / "model"), "the film was great", "the plot was dull", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert [answer[0]["label"] for answer in answers] == ["good", "bad"]
    (finetuned / "texts.txt").write_text("a fine cast\n\nit is poor\n", encoding="utf-8")
    output = finetuned / "answers.jsonl"
    arguments = ["--input", str(finetuned / "texts.txt"), "--output", str(output)]
    assert main(["predict", str(finetuned / "model"), *arguments]) == 0
    assert [json.loads(line)["text"] for line in output.read_text().splitlines()] == ["a fine cast", "it is poor"]


def test_evaluate_prints_a_table_and_writes_json(finetuned, capsys):
    output, plots = finetuned / "results.json", finetuned / "plots"
    arguments = [str(finetuned / "dev.tsv"), "--text", "sentence", "--output", str(output), "--plots", str(plots)]
    assert main(["evaluate", str(finetuned / "model"), *arguments, "--debug"]) == 0
    printed = capsys.readouterr().out
    numbers = json.loads(output.read_text())
    assert f"accuracy {numbers['accuracy']:.4f}" in printed and numbers["accuracy"] > 0.85
    assert 0 <= numbers["calibration"]["before"]["ece"] <= 1
    assert {path.name for path in plots.iterdir()} == {"confusion.png", "calibration.png"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict", "{model}"], "no text"),
        (["predict", "{pretrained}", "good"], "from_pretrained"),
        (["evaluate", "{model}", "{dev}"], "text"),  # its column is called sentence
        (["finetune", "{dev}", "{out}", "--text", "sentense"], "sentense"),
        (["finetune", "{missing}", "{out}"], "missing.tsv"),
        (["finetune", "{dev}", "{out}", "--average", "--seeds", "3"], "two or more runs"),
    ],
)
def test_bad_input_is_one_clear_line(finetuned, capsys, arguments, words):
    places = {
        "model": finetuned / "model",
        "pretrained": pretrained_directory(),
        "dev": finetuned / "dev.tsv",
        "out": finetuned / "out",
        "missing": finetuned / "missing.tsv",
    }
    assert main([argument.format(**places) for argument in arguments]) == 1
    errors = capsys.readouterr().err
    assert words in errors and "Traceback" not in errors


def test_without_validation_a_tenth_is_held_out(finetuned, capsys, tmp_path):
    command = [
        "finetune",
        str(finetuned / "train.tsv"),
        str(tmp_path / "model"),
        "--model",
        str(pretrained_directory()),
    ]
    flags = "--text sentence --epochs 1 --recipe frozen --sequence-length 32 --seeds 3"
    assert main([*command, *flags.split()]) == 0
    printed = capsys.readouterr().out
    assert "16 of 160 rows are held out" in printed and "1 dropped" in printed and "seed 3" in printed


# === Other tasks ===


def test_entities_from_a_file_to_answers(tmp_path, capsys):
    sentences = [["the", "film", "was", "good"], ["a", "dull", "plot"], ["it", "is", "the", "cast"]] * 30
    names = {"film": "B-THING", "plot": "B-THING", "cast": "B-THING"}
    lines = ["\n".join(f"{word}\t{names.get(word, 'O')}" for word in words) + "\n" for words in sentences]
    data = tmp_path / "train.conll"
    data.write_text("\n".join(lines), encoding="utf-8")
    command = [
        "finetune",
        str(data),
        str(tmp_path / "model"),
        "--task",
        "tagging",
        "--model",
        str(pretrained_directory()),
    ]
    flags = "--learning-rate 3e-3 --epochs 8 --batch-size 8 --sequence-length 32 --json --debug"
    assert main([*command, *flags.split()]) == 0
    assert json.loads(capsys.readouterr().out)["f1"] > 0.9
    assert main(["predict", str(tmp_path / "model"), "The plot was bad", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert [(one["text"], one["label"], one["start"]) for one in answer] == [("plot", "THING", 4)]
    assert main(["evaluate", str(tmp_path / "model"), str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["f1"] > 0.9


def test_questions_from_a_file_to_answers(tmp_path, capsys):
    texts = [("film was", "the film was good and very fine"), ("plot is", "it is a plot is dull and the cast is poor")]
    rows = [
        {"question": question, "context": context, "answers": ["good" if "good" in context else "dull"]}
        for question, context in texts * 20
    ]
    data = tmp_path / "train.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    command = ["finetune", str(data), str(tmp_path / "model"), "--task", "question_answering"]
    flags = "--learning-rate 2e-3 --epochs 6 --batch-size 8 --sequence-length 32 --json --debug"
    assert main([*command, "--model", str(pretrained_directory()), *flags.split()]) == 0
    assert json.loads(capsys.readouterr().out)["f1"] > 0.9
    (tmp_path / "ask.txt").write_text("\t".join(texts[0]) + "\n", encoding="utf-8")
    assert main(["predict", str(tmp_path / "model"), "--input", str(tmp_path / "ask.txt"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answers"][0]["text"] == "good"
