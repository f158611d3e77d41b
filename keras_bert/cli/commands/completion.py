"""`keras-bert completion`: print a script for shell completion of commands, flags and file names."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from keras_bert.cli.help_page import FrontPage
from keras_bert.cli.output import add_command

SHELLS = ("bash", "zsh", "fish", "tcsh")


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    example = "bash > ~/.local/share/bash-completion/completions/keras-bert"
    command = add_command(commands, "completion", run, example=example)
    command.add_argument("shell", choices=SHELLS, help="whose script to print")


def run(arguments: Namespace) -> dict[str, Any]:
    """Print a script that lets a shell complete commands, flags and file names."""
    from keras_bert.cli import make_parser

    script = completion_script(make_parser(), arguments.shell)
    if arguments.json:
        return {"shell": arguments.shell, "script": script}
    print(script)
    return {}


def completion_script(parser: FrontPage, shell: str) -> str:
    """Make the completion script of a parser with commands, for one of `SHELLS`.

    Example:
        ```python
        print(completion_script(make_parser(), "bash"))
        ```
    """
    try:
        import shtab
    except ImportError as error:
        raise ImportError('Completion needs shtab: pip install "keras-bert-edge[completion]".') from error
    for command in (parser, *parser.commands.choices.values()):
        for action in command._actions:
            takes_words = action.nargs != 0 and not action.choices
            if takes_words and action.type in (None, Path):  # a path, or a word that may be one
                action.complete = shtab.FILE
    return shtab.complete(parser, shell)
