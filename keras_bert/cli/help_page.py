"""The help page of `keras-bert --help`: the commands grouped by purpose, and first examples.

`FrontPage` replaces argparse's own page, which lists all commands in one line.
"""

import argparse
import difflib
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

DESCRIPTION = "BERT for TensorFlow and Keras 3: from raw text to a phone."
# Commands in none of these groups are listed at the end, under "more".
GROUPS: Mapping[str, Sequence[str]] = {
    "look at texts and models": ("info", "tokenize", "visualize"),
    "train a model for a task, and use it": ("finetune", "evaluate", "predict", "generate"),
    "bring it to a phone or a server": ("deploy", "distill", "export", "verify", "benchmark", "serve"),
    "make your own model": ("vocabulary", "pretrain", "convert"),
    "set up the shell": ("completion",),
}
_EVERY = """every command:
  -h, --help  its flags, and an example
  --json      one line of JSON on stdout, for scripts; the rest goes to stderr
  --debug     show the traceback of an error"""
_OWN_TASKS = """your own tasks:
  --import    before the command: a module, or a file such as my_task.py, that
              registers them; may be given more than once"""
_FIRST_ROUND = """first steps:
  keras-bert finetune train.tsv sentiment/ --validation dev.tsv
  keras-bert predict sentiment/ "What a lovely film!"
  keras-bert export sentiment/ out/ --recipe dynamic_int8"""
EXIT_CODES = """exit codes:
  0  done
  1  failed: the reason is one line on stderr
  2  wrong usage
  130  interrupted"""


class FrontPage(argparse.ArgumentParser):
    """The parser of `keras-bert` itself. It prints the help page, and suggests a command for a mistyped one."""

    commands: Any

    def format_help(self) -> str:
        """Return the help page."""
        lines = {choice.dest: choice.help for choice in self.commands._choices_actions}
        parts = ["usage: keras-bert COMMAND …   (also: -h, --help, --version, --import)", DESCRIPTION]
        for heading, names in group_commands(list(lines)).items():
            parts.append("\n".join([f"{heading}:", *(_command_line(name, lines[name]) for name in names)]))
        return "\n\n".join([*parts, _EVERY, _OWN_TASKS, _FIRST_ROUND, EXIT_CODES]) + "\n"

    def error(self, message: str) -> NoReturn:
        """Print one line to stderr and exit with code 2; for a mistyped command with the nearest name."""
        if mistyped := re.match(r"argument COMMAND: invalid choice: '(.*?)'", message):
            near = difflib.get_close_matches(mistyped[1], self.commands.choices, n=1)
            suggestion = f"Did you mean {near[0]}? " if near else ""
            message = f"There is no command {mistyped[1]!r}. {suggestion}See keras-bert --help for all commands."
        elif re.match(r"unrecognized arguments: (.* )?--import\b", message):
            message = "--import must come before the command: keras-bert --import MODULE_OR_FILE.py COMMAND …"
        self.exit(2, f"keras-bert: {message}\n")


def group_commands(names: Sequence[str]) -> dict[str, list[str]]:
    """Group commands by heading; commands without a heading come last.

    Example:
        >>> group_commands(["dance", "info"])
        {'look at texts and models': ['info'], 'more': ['dance']}
    """
    grouped = {heading: [name for name in members if name in names] for heading, members in GROUPS.items()}
    known = {name for members in GROUPS.values() for name in members}
    grouped["more"] = [name for name in names if name not in known]
    return {heading: members for heading, members in grouped.items() if members}


def _command_line(name: str, sentence: str) -> str:
    width = min(shutil.get_terminal_size().columns, 100)
    indent = " " * 14
    return textwrap.fill(f"  {name:<12}{sentence}", width, subsequent_indent=indent)
