"""The command line prints what it should, in words and in JSON, and fails with one line."""

import contextlib
import json
import random
import subprocess
import sys

import pytest

from keras_bert import save_pretrained
from keras_bert.cli import COMMANDS, main
from keras_bert.config import BertConfig
from keras_bert.heads import bert_model
from keras_bert.tokenizer import BertTokenizer
from keras_bert.training.strategy import Devices

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


def write_corpus(path, sentences, seed):
    chooser, words = random.Random(seed), ["red", "green", "blue", "one", "two", "three"]
    lines = [" ".join(chooser.choices(words, k=6)) + "." for _ in range(sentences)]
    path.write_text("\n\n".join("\n".join(lines[start : start + 6]) for start in range(0, sentences, 6)))
    return path


@pytest.mark.slow
def test_pretrain_from_text_to_model(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    # A few steps on a few sentences: neither XLA nor worker processes would pay.
    options = Devices.compile_options
    monkeypatch.setattr(Devices, "compile_options", lambda *a, **k: {**options(*a, **k), "jit_compile": False})
    monkeypatch.setattr("keras_bert.pretraining.corpus._count_cores", lambda: 1)
    corpus, held_out = (write_corpus(tmp_path / f"{n}.txt", n, seed=n) for n in (240, 60))
    numbers = {"save-every": 2, "batch-size": 4, "vocabulary-size": 60, "size": "tiny", "dropout": 0}
    flags = [word for name, value in numbers.items() for word in (f"--{name}", value)]
    words = ["pretrain", corpus, tmp_path / "out", *flags, "--phases", "16:4,32:2:2", "--validation", held_out]
    result = run_json(capsys, *words)
    assert result["step"] == 2
    assert result["mlm_logits_perplexity"] > 1 and result["val_mlm_logits_perplexity"] > 1
    assert (tmp_path / "out" / "report.html").read_text().count("<img") == 4
    assert result["model"] == str(tmp_path / "out" / "model")
    plan = json.loads((tmp_path / "out" / "phase-2" / "plan.json").read_text())
    assert plan["plan"]["batch_size"] == 2 and plan["examples"]["sequence_length"] == 32
    info = run_json(capsys, "info", result["model"])
    assert info["outputs"] == ["mlm_logits", "nsp_logits"] and info["dropout"] == 0.1
    assert run_json(capsys, *words) == result  # nothing left to do


def test_pretrain_refuses_bad_flags(tmp_path, capsys):
    corpus, out = write_corpus(tmp_path / "corpus.txt", 60, seed=0), tmp_path / "out"

    def fails(*flags, output=out):
        with contextlib.suppress(SystemExit):  # argparse found it
            assert main(["pretrain", str(corpus), str(output), *map(str, flags)]) == 1
        return capsys.readouterr().err

    assert "'512' is no phase; expected LENGTH:STEPS" in fails("--phases", "128:100,512")
    assert "invalid choice: 'huge'" in fails("--size", "huge")
    assert "steps=7 must be a multiple of save_every=2" in fails("--steps", 7, "--save-every", 2)
    assert "batch_size=32 must be a multiple of accumulation=3" in fails("--accumulation", 3)
    assert "a model has its own vocabulary" in fails("--start-from", "x", "--vocabulary", "vocab.txt")
    assert "cannot be written" in fails(output=corpus / "out")
    assert not list(out.glob("examples*"))  # all that was found before the work began


def test_interrupt_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_bert.vocabulary.learn_vocabulary", interrupt)
    assert main(["pretrain", "corpus.txt", str(tmp_path)]) == 130
    assert "The same command goes on." in capsys.readouterr().err


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
    help_text = capsys.readouterr().out
    for name in COMMANDS:
        assert f"  keras-bert {name} " in help_text  # each with its example
    with pytest.raises(SystemExit, match="2"):
        main(["unknown"])


def test_help_loads_no_tensorflow():
    code = (
        "import sys\nfrom keras_bert.cli import COMMANDS, main\ntry:\n    main(['pretrain', '--help'])\n"
        "except SystemExit:\n    print([m for m in ('tensorflow', 'keras') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")
    module = subprocess.run([sys.executable, "-m", "keras_bert.cli", "--version"], capture_output=True, text=True)
    assert module.stdout.startswith("keras-bert-edge ")
