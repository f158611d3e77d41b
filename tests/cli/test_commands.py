"""The command line prints what it should, in words and in JSON, and fails with one line."""

import argparse
import contextlib
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
import warnings

import pytest

from keras_bert import save_pretrained
from keras_bert.checkpoint.hub import find_installed
from keras_bert.checkpoint.sentence_transformers import read_sentence_modules
from keras_bert.cli import COMMANDS, main, make_parser
from keras_bert.cli.commands.completion import SHELLS
from keras_bert.cli.commands.pretrain import _save_every
from keras_bert.cli.help_page import group_commands
from keras_bert.model.config import BertConfig
from keras_bert.model.heads import bert_model
from keras_bert.pretraining.budget import Timings
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.training.devices import Devices

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


def test_convert_keeps_how_a_sentence_encoder_pools_and_its_prompts(tmp_path, capsys):
    prompted = tmp_path / "prompted"
    shutil.copytree(find_installed("tiny-en"), prompted)
    said = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    (prompted / "config_sentence_transformers.json").write_text(json.dumps(said))
    run_json(capsys, "convert", prompted, tmp_path / "half", "--dtype", "float16", "--encoder-only")
    modules = read_sentence_modules(tmp_path / "half")
    assert (modules.pooling, modules.normalize, modules.sequence_length) == ("mean", True, 512)
    assert (modules.prompts, modules.default_prompt_name) == ({"query": "query: "}, "query")
    assert (tmp_path / "half" / "model.safetensors").stat().st_size < 4_100_000


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
    monkeypatch.setattr("keras_bert.pretraining.corpus.writing._count_cores", lambda: 1)
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


@pytest.mark.slow
def test_pretrain_within_a_budget(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    options = Devices.compile_options
    monkeypatch.setattr(Devices, "compile_options", lambda *a, **k: {**options(*a, **k), "jit_compile": False})
    monkeypatch.setattr("keras_bert.pretraining.corpus.writing._count_cores", lambda: 1)
    monkeypatch.setattr("keras_bert.pretraining.budget._measure", lambda *a: Timings(step=100.0, check=1.0, once=1.0))
    corpus = write_corpus(tmp_path / "corpus.txt", 240, seed=1)
    sizes = ["--size", "tiny", "--batch-size", 4, "--vocabulary-size", 60, "--sequence-length", 16]
    words = ["pretrain", corpus, tmp_path / "out", *sizes]
    result = run_json(capsys, *words, "--budget", "30m")
    assert result["step"] == 16
    plan = json.loads((tmp_path / "out" / "plan.json").read_text())["plan"]
    assert (plan["steps"], plan["save_every"]) == (16, 8)
    assert (plan["learning_rate"], plan["warmup"], plan["dropout"], plan["initial"]) == (2e-3, 0.05, 0.0, "neighbours")
    assert (plan["mask_rate"], plan["final_mask_rate"]) == (0.3, 0.15)
    assert run_json(capsys, *words, "--budget", "30m") == result  # nothing left to do
    assert main([*map(str, words), "--budget", "1h"]) == 1
    assert "was begun with a budget of 1,800 s" in capsys.readouterr().err
    assert main([*map(str, [*words[:2], tmp_path / "other", *words[3:]]), "--budget", "5m"]) == 1
    assert "The budget of 300 s is too short" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("steps", "grow", "every"),
    [(10_000, (), 500), (200, (), 200), (1_200, (), 400), (1_000, ((1, 300),), 100), (10_007, (), 500), (0, (), 500)],
)
def test_pretrain_saves_at_a_divisor_of_its_steps(steps, grow, every):
    assert _save_every(argparse.Namespace(save_every=None, grow=grow), steps) == every
    assert _save_every(argparse.Namespace(save_every=7, grow=grow), steps) == 7


def test_pretrain_refuses_bad_flags(directory, tmp_path, capsys):
    corpus, out = write_corpus(tmp_path / "corpus.txt", 60, seed=0), tmp_path / "out"

    def fails(*flags, output=out):
        with contextlib.suppress(SystemExit):  # argparse found it
            assert main(["pretrain", str(corpus), str(output), *map(str, flags)]) == 1
        return capsys.readouterr().err

    assert "'512' is no phase; expected LENGTH:STEPS" in fails("--phases", "128:100,512")
    assert "'1hour' is no duration; expected a number with d, h, m or s" in fails("--budget", "1hour")
    assert "not allowed with argument" in fails("--budget", "1h", "--steps", 100)
    assert "final_mask_rate=2.0 is not a share of the tokens" in fails("--final-mask-rate", 2)
    assert "No preset is called 'huge'" in fails("--size", "huge")
    assert "steps=7 must be a multiple of save_every=2" in fails("--steps", 7, "--save-every", 2)
    assert "batch_size=32 must be a multiple of accumulation=3" in fails("--accumulation", 3)
    assert "a model has its own vocabulary" in fails("--start-from", "x", "--vocabulary", "vocab.txt")
    without = shutil.copytree(directory, tmp_path / "without", ignore=shutil.ignore_patterns("vocab.txt", "tokenizer*"))
    assert "without has no vocabulary; expected a model directory with one" in fails("--start-from", without)
    assert "cannot be written" in fails(output=corpus / "out")
    assert not list(out.glob("examples*"))  # all that was found before the work began


def test_interrupt_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_bert.text.vocabulary.learn_vocabulary", interrupt)
    assert main(["pretrain", "corpus.txt", str(tmp_path)]) == 130
    assert "The same command goes on." in capsys.readouterr().err


def test_errors_are_one_line_and_exit_1(tmp_path, capsys):
    assert main(["info", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("keras-bert: ")
    assert "Traceback" not in error
    with pytest.raises(ValueError, match="is not a model directory"):
        main(["info", str(tmp_path), "--debug"])


@pytest.mark.filterwarnings("always")
def test_errors_and_notes_in_words(capsys, monkeypatch):
    def says(error, *flags):
        def run(arguments):
            """Stands for a command."""
            warnings.warn("3 texts were cut", stacklevel=2)
            raise error

        monkeypatch.setattr("keras_bert.cli.commands.info.run", run)
        assert main(["info", "x", *flags]) == 1
        note, line = capsys.readouterr().err.splitlines()
        assert note == "keras-bert: note: 3 texts were cut"
        return line

    assert says(ValueError("no such thing")) == "keras-bert: no such thing"
    assert (
        says(FileNotFoundError(2, "No such file or directory", "a.tsv"))
        == "keras-bert: a.tsv: No such file or directory"
    )
    assert says(KeyError("size")) == "keras-bert: KeyError: 'size' (--debug shows where)"
    assert says(ValueError()) == "keras-bert: ValueError:  (--debug shows where)"


def test_json_is_all_that_stdout_has(capsys, monkeypatch):
    def run(arguments):
        """Stands for a command that talks."""
        print("half done")
        return {"tokens": 3, "text": "é"}

    monkeypatch.setattr("keras_bert.cli.commands.info.run", run)
    assert main(["info", "x", "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.out == '{"tokens": 3, "text": "é"}\n' and printed.err == "half done\n"
    assert main(["info", "x"]) == 0
    assert capsys.readouterr().out == "half done\ntokens  3\ntext    é\n"


def test_front_page_lists_every_command_once(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "72")
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    page = capsys.readouterr().out
    names = list(make_parser().commands.choices)
    assert set(COMMANDS) < set(names)  # those of export too
    listed = [line.split()[0] for line in page.split("every command:")[0].splitlines() if re.match(r"  \w", line)]
    assert sorted(listed) == sorted(names)
    assert "more:" not in page  # every command has found its group
    assert max(map(len, page.splitlines())) <= 80
    assert "exit codes:\n  0  done\n  1 " in page
    assert group_commands(["dance", "info"])["more"] == ["dance"]


@pytest.mark.parametrize("name", list(make_parser().commands.choices))
def test_every_command_has_flags_and_an_example_that_parses(name):
    parser = make_parser()
    page = parser.commands.choices[name].format_help()
    assert "--json" in page and "--debug" in page
    examples = page.split("example:\n")[1].strip().splitlines()
    for example in examples:
        program, *words = shlex.split(example.split(" > ")[0])
        assert program == "keras-bert" and words[0] == name
        assert callable(parser.parse_args(words).run)


def test_wrong_usage_exits_2(capsys):
    for words, message in (
        (["fintune"], "There is no command 'fintune'. Did you mean finetune? See keras-bert --help for all commands."),
        (["xyzzy"], "There is no command 'xyzzy'. See keras-bert --help for all commands."),
        (["info"], "the following arguments are required: model"),
        (["info", "x", "--jsn"], "unrecognized arguments: --jsn"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(words)
        printed = capsys.readouterr()
        assert message in printed.err and printed.out == ""
    assert main([]) == 2
    assert "look at texts and models:" in capsys.readouterr().err


def test_visualize(directory, tmp_path, capsys):
    output = tmp_path / "attention.html"
    result = run_json(
        capsys, "visualize", directory, "hello worlds", "--layer", -1, "--head", "mean", "--output", output
    )
    assert result == {"output": str(output), "tokens": ["[CLS]", "hello", "world", "##s", "[SEP]"]}
    assert "layer 1, the mean of 2 heads" in output.read_text()
    words = ["visualize", directory, "hello world", "--view", "attributions", "--output", tmp_path / "why.html"]
    result = run_json(capsys, *words)
    assert result["label"] in "01" and len(result["values"]) == 4  # a plain model directory: no task, so no names
    assert main(["visualize", str(directory), "hello", "--head", "two"]) == 1
    assert "--head 'two': expected a number, or mean" in capsys.readouterr().err


# === Shells ===


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_scripts_know_commands_and_flags(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in (*COMMANDS, "export", "--recipe" if shell in ("bash", "zsh", "tcsh") else "recipe"):
        assert word in script
    assert run_json(capsys, "completion", shell)["script"] == script.removesuffix("\n")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_completion_works_in_bash(tmp_path, capsys):
    main(["completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "notes.tsv").touch()

    def complete(*words):
        line = " ".join(f"'{word}'" for word in words)
        code = (
            f"source ./script; f=$(complete -p keras-bert | sed 's/.*-F \\([^ ]*\\).*/\\1/'); COMP_WORDS=({line}); "
            f"COMP_CWORD={len(words) - 1}; $f keras-bert '{words[-1]}' '{words[-2]}'; echo ${{COMPREPLY[@]}}"
        )
        done = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert complete("keras-bert", "fine") == ["finetune"]
    assert "--recipe" in complete("keras-bert", "finetune", "--rec")
    assert complete("keras-bert", "finetune", "--recipe", "few") == ["few_sample"]
    assert "notes.tsv" in complete("keras-bert", "finetune", "no")


def test_completion_says_what_it_needs(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert 'pip install "keras-bert-edge[completion]"' in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_no_error():
    command = [sys.executable, "-m", "keras_bert.cli", "completion", "bash"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_help_loads_no_tensorflow():
    code = (
        "import sys\nfrom keras_bert.cli import COMMANDS, main\ntry:\n    main(['pretrain', '--help'])\n"
        "except SystemExit:\n    print([m for m in ('tensorflow', 'keras') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")
    module = subprocess.run([sys.executable, "-m", "keras_bert.cli", "--version"], capture_output=True, text=True)
    assert module.stdout.startswith("keras-bert-edge ")
