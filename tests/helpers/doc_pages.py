"""The guides as data: a page's code blocks, links, paths and command lines, for `project/test_docs.py`.

Takes Markdown, gives values. `<!-- run -->` before a Python block means that it runs and prints the `text` block behind
it, and before a `bash` block that its commands run; `<!-- file: NAME.py -->`, that the block is a file of that name,
which later blocks import. What stands between `<!-- results:NAME -->` and `<!-- /results -->` is made from results
files.
"""

import re
import shlex
import textwrap
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from places import ROOT

PAGES = sorted((ROOT / "docs").rglob("*.md"))

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE
)
_FILE = re.compile(r"<!-- file: (?P<name>\w+\.py) -->\Z")
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_TOP = r"(?:keras_bert|export|examples|tests|benchmarks|docs)"
_PATH = re.compile(rf"{_TOP}/[\w./*-]*|[A-Z]+\.md|setup\.py|mkdocs\.yml|Makefile|pyproject\.toml")
_RESULTS = re.compile(r"<!-- results:.*?<!-- /results -->", re.DOTALL)
_MEASURED = re.compile(
    r"\d[\d.,]* ?(?:ms\b|µs\b|×|(?:MB|tokens|texts|examples|requests)/s)|(?:accuracy|F1|BLEU|perplexity) of \d\S*"
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its code without the page's indent, its line, whether it runs, what it prints.

    `file` is the name that it is to be saved under, where the page says one.
    """

    language: str
    code: str
    line: int
    runs: bool = False
    output: str | None = None
    file: str | None = None


def read_blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = list(_FENCE.finditer(text))
    blocks = []
    for match, follower in zip_longest(found, found[1:]):
        before = text[: match.start()].rstrip()
        runs, file = before.endswith("<!-- run -->"), _FILE.search(before)
        is_output = follower is not None and follower["language"] == "text"
        adjacent = is_output and not text[match.end() : follower.start()].strip()
        output = textwrap.dedent(follower["code"]) if adjacent else None
        line = text.count("\n", 0, match.start()) + 1
        name = file and file["name"]
        blocks.append(Block(match["language"], textwrap.dedent(match["code"]), line, runs, output, name))
    return blocks


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def read_links(page: Path) -> list[str]:
    """The targets of a page's links and pictures."""
    return [match["target"] for match in _LINK.finditer(prose(page))]


def named_paths(page: Path) -> list[str]:
    """Files of the project that a page names in backticks."""
    quoted = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(page))
    return [name for name in quoted if _PATH.fullmatch(name)]


def command_lines(page: Path) -> list[list[str]]:
    """What is typed at a prompt: each line of the blocks without a language and of `bash` ones, cut into words."""
    blocks = [block for block in read_blocks(page) if block.language in ("", "bash", "console")]
    lines = [words for block in blocks for words in block_commands(block)]
    inline = re.findall(r"`((?:keras-bert|make|python|pip install) [^`]+)`", prose(page))
    return lines + [_words(line) for line in inline if _is_command(line)]


def block_commands(block: Block) -> list[list[str]]:
    """The command lines of one block."""
    joined = block.code.replace("\\\n", " ").splitlines()
    return [_words(line) for line in joined if _is_command(line)]


def _words(line):
    """The words of a command, up to where its output goes."""
    words = shlex.split(line, comments=True)
    return words[: words.index(">")] if ">" in words else words


def _is_command(line):
    return line.strip().split(" ")[0] in ("keras-bert", "make", "python", "pip")


def measured_numbers(text: str) -> list[str]:
    """What looks like a measurement outside of code and of blocks that are made from results files."""
    return _MEASURED.findall(_RESULTS.sub("", _FENCE.sub("", text)))
