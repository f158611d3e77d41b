"""The guides say what is there: names, arguments, commands, links, paths, numbers; the blocks that are to run, run."""

import contextlib
import doctest
import io
import os
import re
import runpy
import subprocess
import sys

import pytest
from doc_names import PageNames
from doc_pages import PAGES, ROOT, block_commands, command_lines, measured_numbers, named_paths, read_blocks, read_links
from own_registries import own_registries

import export
import keras_bert
from keras_bert.cli import main, make_parser

COMMANDS = make_parser().commands.choices
RUNNING = [page for page in PAGES if any(block.runs for block in read_blocks(page))]
WIDTH = 88  # what a window of 1,280 pixels shows between both menus
ON_SITE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))


# === Python ===


@ON_SITE
def test_python_uses_what_exists(page):
    names = PageNames()
    for block in read_blocks(page):
        if block.language == "python":
            names.check(block.code, block.line)
        elif block.language == "py":  # of other libraries, or a sketch
            compile(block.code, page.name, "exec")
    assert not names.problems, "\n".join(names.problems)


def test_the_check_finds_what_does_not_exist():
    names = PageNames()
    names.check(
        "import keras_bert\n"
        "task = keras_bert.TextClassifier.from_pretrained('x', labels=['a'], lenght=3)\n"
        "task.fit(texts, recipe='lora', epoch=3)\n"
        "task.predicts('a')\n"
        "keras_bert.RECIPES['froze']\n"
        "keras_bert.pack(1)\n"
        "keras_bert.trim()\n",
        1,
    )
    found = "\n".join(names.problems)
    for fault in (
        "lenght",
        "texts is not defined",
        "epoch",
        "no predicts",
        "no 'froze'",
        "missing a required",
        "no trim",
    ):
        assert fault in found, found
    assert len(names.problems) == 7, found


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.stem)
def test_marked_blocks_run_and_print_what_they_say(page, tmp_path, monkeypatch, minilm_dir):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    blocks, namespace, checker = read_blocks(page), {}, doctest.OutputChecker()
    files = [block for block in blocks if block.file]
    for block in files:
        (tmp_path / block.file).write_text(block.code, encoding="utf-8")
    with own_registries(*(block.file.removesuffix(".py") for block in files)):
        for block in blocks:
            if not block.runs:
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                _run_block(block, page, namespace)
            if block.output is not None:
                same = checker.check_output(block.output, printed.getvalue(), doctest.ELLIPSIS)
                assert same, f"{block.code}printed\n{printed.getvalue()}and not\n{block.output}"


def _run_block(block, page, namespace):
    if block.language == "python":
        exec(compile(block.code, page.name, "exec"), namespace)
        return
    commands = block_commands(block)
    assert commands, f"{page.name}: there is no command in\n{block.code}"
    for program, *words in commands:
        assert program == "keras-bert" and main(words) == 0, " ".join(words)


def test_a_task_of_your_own_is_short_and_needs_no_tensorflow_on_a_device(tmp_path):
    blocks = [block for block in read_blocks(ROOT / "docs/your-own-task.md") if block.language != "text"]
    lines = [line for block in blocks for line in block.code.splitlines() if line.strip()]
    assert 50 < len(lines) < 100
    (first,) = [block for block in blocks if block.file == "stars.py"]
    (tmp_path / "stars.py").write_text(first.code, encoding="utf-8")
    code = "import stars, sys; print([name for name in ('tensorflow', 'keras') if name in sys.modules])"
    places = os.pathsep.join([str(tmp_path), str(ROOT)])
    command, environment = [sys.executable, "-c", code], {**os.environ, "PYTHONPATH": places}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@ON_SITE
def test_code_fits_a_page_without_scrolling(page):
    for block in read_blocks(page):
        for line in block.code.splitlines():
            assert len(line) <= WIDTH, f"{page.name}: {len(line)} characters instead of at most {WIDTH}: {line}"


# === Commands, paths, links, numbers ===


@ON_SITE
def test_commands_parse(page, capsys):
    for words in command_lines(page):
        _check_command(words, " ".join(words))


def _check_command(words, line):
    program, *rest = words
    if program == "keras-bert":
        named = len(rest) == 1 or any(word.isupper() and word.isalpha() for word in rest)  # `keras-bert info NAME`
        assert (rest[0] in COMMANDS) if named and not rest[0].startswith("-") else _exit_code(rest) == 0, line
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert {word for word in rest if "=" not in word} <= set(targets), line
    elif program == "python" and rest and rest[0].endswith(".py"):
        script = (ROOT / rest[0]).read_text(encoding="utf-8")
        for flag in (word.split("=")[0] for word in rest if word.startswith("--")):
            assert f'"{flag}"' in script, f"{line}: no {flag}"
    elif program == "pip":
        extras = re.findall(r'^    "(\w+)": \[', (ROOT / "setup.py").read_text(encoding="utf-8"), re.MULTILINE)
        wanted = re.findall(r"\.\[([\w,]+)\]", line)
        assert {name for names in wanted for name in names.split(",")} <= set(extras), line


def _exit_code(words):
    if words[0] == "--import":  # the task is known when the page's file is imported
        words = [word for before, word in zip(["", *words], words, strict=False) if "--task" not in (before, word)]
    try:
        make_parser().parse_args(words)
    except SystemExit as stop:  # --help ends with 0
        return stop.code
    return 0


@ON_SITE
def test_links_and_paths_lead_somewhere(page):
    for target in read_links(page):
        path = target.split("#")[0]
        if "://" in target or not path:
            continue
        there = (page.parent / path).resolve()
        shared = ROOT / there.relative_to(ROOT / "docs")  # docs/shared_pages.py puts it on the site
        assert there.is_file() or shared.is_file(), f"{page.name} links to {target}"
    for name in named_paths(page):
        assert list(ROOT.glob(name.rstrip("/"))), f"{page.name} names {name}, which is not there"


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("README*.md")], ids=lambda page: str(page.relative_to(ROOT)))
def test_measurements_come_from_results_files(page):
    found = measured_numbers(page.read_text(encoding="utf-8"))
    assert not found, f"{page.name} has {found}: put them between <!-- results:NAME --> and <!-- /results -->"


def test_the_check_finds_measurements_in_prose():
    block = "<!-- results:x -->\n| 3 ms |\n<!-- /results -->\n```text\n7 ms\n```\n"
    assert measured_numbers(block + "It takes 3.2 ms.") == ["3.2 ms"]
    assert measured_numbers("2.5× as fast, 1,595 tokens/s") == ["2.5×", "1,595 tokens/s"]
    assert measured_numbers("an accuracy of 80 %") == ["accuracy of 80"]


# === The site ===


def test_every_public_name_is_in_the_reference():
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference").glob("*.md"))
    shown = set(re.findall(r"^::: ([\w.]+)", text, re.MULTILINE))
    for package in (keras_bert, export):
        names = {f"{package.__name__}.{name}" for name in package.__all__ if name != "__version__"}
        assert names <= shown, f"not in docs/reference: {', '.join(sorted(names - shown))}"


def test_lists_of_public_names_are_those_of_the_packages():
    place = ROOT / "docs/public_names.py"
    public_names = runpy.run_path(str(place))
    for package, page in public_names["PAGES"].items():
        text = (ROOT / "docs/reference" / page).read_text(encoding="utf-8")
        assert public_names["with_names"](text, package) == text, f"python docs/public_names.py writes {page} anew"


@pytest.mark.slow
def test_site_builds_without_a_warning_and_loads_nothing_from_outside(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(PAGES)
    for page in pages:
        loaded = re.findall(
            r"<(?:script|img|iframe)[^>]* src=\"?(https?:[^\" >]+)|<link[^>]*stylesheet[^>]*(https?:[^\" >]+)",
            page.read_text(encoding="utf-8"),
        )
        assert not loaded, f"{page.name} loads {loaded}"
