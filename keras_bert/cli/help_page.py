"""What `keras-bert --help` shows: the commands by the job that they do, and how to go on from there.

Takes the commands that were found, gives a parser whose help is one page. A room of its own because argparse lists
commands in one row, and a newcomer looks for a job, not for a name.
"""

import argparse
import difflib
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

DESCRIPTION = "BERT for TensorFlow and Keras 3: from raw text to a phone."
# Commands that stand in none of these are listed at the end, under "more".
GROUPS: Mapping[str, Sequence[str]] = {
    "look at texts and models": ("info", "tokenize", "visualize"),
    "teach a model a task, and use it": ("finetune", "evaluate", "predict", "generate"),
    "bring it to a phone or a server": ("deploy", "distill", "export", "verify", "benchmark"),
    "make a model of your own": ("vocabulary", "pretrain", "convert"),
    "set up the shell": ("completion",),
}
_EVERY = """every command:
  -h, --help  its flags, and an example
  --json      one line of JSON on stdout, for scripts; all else goes to stderr
  --debug     show the traceback of an error"""
_OWN_TASKS = """tasks of your own:
  --import    before the command: a module, or a file such as my_task.py, that
              registers them; may be given more than once"""
_FIRST_ROUND = """a first round:
  keras-bert finetune train.tsv sentiment/ --validation dev.tsv
  keras-bert predict sentiment/ "What a lovely film!"
  keras-bert export sentiment/ out/ --recipe dynamic_int8"""
EXIT_CODES = """exit codes:
  0  done
  1  it could not be done: the reason is one line on stderr
  2  wrong usage
  130  interrupted"""


class FrontPage(argparse.ArgumentParser):
    """The parser of `keras-bert` itself: its help is a page, and a mistyped command gets a proposal."""

    commands: Any

    def format_help(self) -> str:
        """The page."""
        lines = {choice.dest: choice.help for choice in self.commands._choices_actions}
        parts = ["usage: keras-bert COMMAND …   (also: -h, --help, --version, --import)", DESCRIPTION]
        for heading, names in group_commands(list(lines)).items():
            parts.append("\n".join([f"{heading}:", *(_command_line(name, lines[name]) for name in names)]))
        return "\n\n".join([*parts, _EVERY, _OWN_TASKS, _FIRST_ROUND, EXIT_CODES]) + "\n"

    def error(self, message: str) -> NoReturn:
        """One line on stderr and exit code 2; for a mistyped command with the nearest name."""
        if mistyped := re.match(r"argument COMMAND: invalid choice: '(.*?)'", message):
            near = difflib.get_close_matches(mistyped[1], self.commands.choices, n=1)
            proposal = f"did you mean {near[0]}? " if near else ""
            message = f"there is no command {mistyped[1]!r}; {proposal}keras-bert --help lists them all"
        elif re.match(r"unrecognized arguments: (.* )?--import\b", message):
            message = "--import goes before the command: keras-bert --import MODULE_OR_FILE.py COMMAND …"
        self.exit(2, f"keras-bert: {message}\n")


def group_commands(names: Sequence[str]) -> dict[str, list[str]]:
    """The commands that there are, by heading; what no heading names comes last.

    Example:
        >>> group_commands(["dance", "info"])
        {'look at texts and models': ['info'], 'more': ['dance']}
    """
    grouped = {heading: [name for name in members if name in names] for heading, members in GROUPS.items()}
    known = {name for members in GROUPS.values() for name in members}
    grouped["more"] = [name for name in names if name not in known]
    return {heading: members for heading, members in grouped.items() if members}


def _command_line(name, sentence):
    width = min(shutil.get_terminal_size().columns, 100)
    indent = " " * 14
    return textwrap.fill(f"  {name:<12}{sentence}", width, subsequent_indent=indent)
