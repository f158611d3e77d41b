"""`keras-bert finetune`, `predict` and `evaluate`: from a file to a model directory to answers, without Python."""

import json

import pytest
from tiny_tasks import pretrained_directory, reviews

from keras_bert import load_task
from keras_bert.cli import main
from keras_bert.data.labelled_texts import Example, RowReport, TextRows
from keras_bert.tasks.base.registry import find_task
from keras_bert.tasks.question_answering.files import as_questions
from keras_bert.tasks.tagging.files import read_tagged


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


@pytest.mark.slow
def test_pooling_is_the_user_s_choice(finetuned, tmp_path, capsys):
    command = ["finetune", str(finetuned / "dev.tsv"), str(tmp_path / "out"), "--model", str(pretrained_directory())]
    flags = ["--text", "sentence", "--epochs", "1", "--sequence-length", "16", "--json"]
    assert main([*command, *flags, "--pooling", "mean"]) == 0
    assert load_task(tmp_path / "out").config.pooling == "mean"
    assert main([*command, "--pooling", "mean", "--task", "tagging"]) == 1
    assert "--pooling is for --task aspect, classification, intent_slots, not for tagging" in capsys.readouterr().err


def test_predict_answers(finetuned, capsys):
    assert main(["predict", str(finetuned / "model"), "the film was great", "the plot was dull", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert [answer[0]["label"] for answer in answers] == ["good", "bad"]
    (finetuned / "texts.txt").write_text("a fine cast\n\nit is poor\n", encoding="utf-8")
    output = finetuned / "answers.jsonl"
    arguments = ["--input", str(finetuned / "texts.txt"), "--output", str(output)]
    assert main(["predict", str(finetuned / "model"), *arguments]) == 0
    lines = [json.loads(line)["text"] for line in output.read_text().splitlines()]
    assert lines == ["a fine cast", "", "it is poor"]
    capsys.readouterr()
    assert main(["predict", str(finetuned / "model"), "one", "two", "--pair", "three"]) == 1
    assert "--pair is for one text, and there are 2" in capsys.readouterr().err
    assert main(["predict", str(finetuned / "model"), "one", "--pair", "two"]) == 1
    assert "this classifier was trained on single texts" in capsys.readouterr().err


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
        (["finetune", "{dev}", "{out}", "--average", "--seeds", "3"], "two or more seeds"),
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


@pytest.mark.slow
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


# === What is held out ===


def held_out(task, rows):
    train, validation = find_task(task).hold_out(rows)
    assert len(train) + len(validation) == len(rows)
    return train, validation


def test_kinds_come_from_all_rows(tmp_path, capsys):
    """A kind of entity that only the held-out sentences have is no unknown one."""
    lines = [f"the O\nfilm {'B-RARE' if row == 11 else 'B-FILM'}\n" for row in range(40)]
    data = tmp_path / "train.conll"
    data.write_text("\n".join(lines), encoding="utf-8")
    _, validation = held_out("tagging", read_tagged(data))
    assert "RARE" in validation.entity_kinds
    command = ["finetune", str(data), str(tmp_path / "model"), "--task", "tagging", "--epochs", "1", "--json"]
    assert main([*command, "--model", str(pretrained_directory()), "--sequence-length", "16"]) == 0
    assert load_task(tmp_path / "model").labels == ["O", "B-FILM", "I-FILM", "B-RARE", "I-RARE"]


def test_whole_sentences_and_contexts_are_held_out(capsys):
    labels = ["good", "bad", "bad"]
    examples = [Example(f"text {row // 3}", f"aspect {row}", labels[row % 3], row) for row in range(90)]
    train, validation = held_out("aspect", TextRows(tuple(examples), RowReport((), 90, 90)))
    assert len(validation) == 9 and not {row.text for row in train} & {row.text for row in validation}
    pairs = [(f"what {row}", f"it is in Rome {row // 4}") for row in range(80)]
    train, validation = held_out("question_answering", as_questions(pairs, ["Rome"] * 80))
    assert len(validation) == 8 and not {row.context for row in train} & {row.context for row in validation}
    assert not capsys.readouterr().err
    train, validation = held_out("question_answering", as_questions(pairs[:20], ["Rome"] * 20))
    assert len(validation) == 2 and "there are only 5 contexts" in capsys.readouterr().err


@pytest.mark.filterwarnings("default:one example each")
def test_nothing_to_hold_out_is_said(tmp_path, capsys):
    data = tmp_path / "train.tsv"
    command = ["finetune", str(data), str(tmp_path / "model"), "--model", str(pretrained_directory())]
    data.write_text("text\tlabel\n" + "".join(f"good\tname {row}\n" for row in range(20)), encoding="utf-8")
    assert main(command) == 1
    assert "No row can be held out: each of the 20 labels has only one example" in capsys.readouterr().err
    data.write_text("text\tlabel\ngood\tyes\n", encoding="utf-8")
    assert main(command) == 1
    assert "There is 1 row; expected at least 2, or a --validation" in capsys.readouterr().err


# === Scores and flags ===


@pytest.mark.slow
def test_scores_without_a_kind_are_regression(tmp_path, capsys):
    texts, labels = reviews(40, seed=3)
    data = tmp_path / "sts.tsv"
    rows = [
        f"{text}\t{4.5 if label == 'good' else row % 3}"
        for row, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    data.write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    command = ["finetune", str(data), str(tmp_path / "model"), "--model", str(pretrained_directory()), "--epochs", "1"]
    assert main([*command, "--sequence-length", "16", "--json"]) == 0
    printed = capsys.readouterr()
    assert "labels are numbers with fractions" in printed.err and "--kind single_label" in printed.err
    assert load_task(tmp_path / "model").kind == "regression"
    assert main(["evaluate", str(tmp_path / "model"), str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == 40
    assert main([*command, "--kind", "single_label", "--sequence-length", "16", "--json"]) == 0
    assert load_task(tmp_path / "model").labels == ["0", "1", "2", "4.5"]


@pytest.mark.parametrize(
    ("task", "flag", "owner"),
    [
        ("classification", "--head crf", "tagging"),
        ("classification", "--score-range 0 5", "similarity"),
        ("classification", "--target-length 7", "seq2seq"),
        ("classification", "--negative-label x", "relation"),
        ("classification", "--aspects terms", "aspect"),
        ("tagging", "--glue SST-2", "classification, similarity, zero_shot"),
        ("tagging", "--windows", "classification"),
        ("tagging", "--kind regression", "classification"),
        ("tagging", "--label-smoothing 0.1", "seq2seq"),
        ("relation", "--pair b", "aspect, classification, similarity, zero_shot"),
        ("question_answering", "--text b", "aspect, classification, multiple_choice"),
        ("intent_slots", "--label-separator ,", "classification, zero_shot"),
    ],
)
def test_flags_of_other_tasks_are_refused(finetuned, capsys, task, flag, owner):
    data, out = str(finetuned / "train.tsv"), str(finetuned / "out")
    assert main(["finetune", data, out, "--task", task, "--model", "nowhere", *flag.split(" ")]) == 1
    errors = capsys.readouterr().err
    assert f"{flag.split()[0]} is for --task {owner}" in errors and f"not for {task}" in errors


def test_evaluate_refuses_flags_of_other_tasks(finetuned, capsys):
    assert main(["evaluate", str(finetuned / "model"), str(finetuned / "dev.tsv"), "--aspects", "terms"]) == 1
    assert "--aspects is for --task aspect, not for classification" in capsys.readouterr().err


# === Lines ===


def test_answers_stand_beside_their_lines(finetuned, capsys):
    path, output = finetuned / "lines.txt", finetuned / "lines.jsonl"
    path.write_bytes("\ufeffa fine\u2028cast\r\n\r\nit is\x85poor\n \nthe plot".encode())
    command = ["predict", str(finetuned / "model"), "--input", str(path)]
    assert main([*command, "--output", str(output)]) == 0
    answers = [json.loads(line) for line in output.read_text(encoding="utf-8").split("\n")[:-1]]
    assert [line["text"] for line in answers] == ["a fine\u2028cast", "", "it is\x85poor", " ", "the plot"]
    assert [line["answer"] is None for line in answers] == [False, True, False, True, False]
    assert "note: lines 2, 4 of" in capsys.readouterr().err
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answers"][1] is None
    assert main(command) == 0
    assert len(capsys.readouterr().out.rstrip("\n").split("\n")) == 3
    path.write_text("\n\n")
    assert main(command) == 1
    assert "There is no text" in capsys.readouterr().err
