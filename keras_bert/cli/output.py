"""Parsing and printing that all commands share."""

import argparse
from collections.abc import Callable
from typing import Any


def add_command(
    commands: Any, name: str, run: Callable[[Any], dict[str, Any]], *, example: str
) -> argparse.ArgumentParser:
    """Add a command and return its parser. Its help is the first line of `run`'s docstring.

    Args:
        commands: The argument of a command's `add`.
        name: The command's name.
        run: Takes the parsed arguments, gives a dictionary to print.
        example: What to type after the name.

    Example:
        ```python
        def add(commands):
            command = add_command(commands, "info", run, example="all-MiniLM-L6-v2")
            command.add_argument("model")
        ```
    """
    sentence = (run.__doc__ or "").split("\n", 1)[0]
    command = commands.add_parser(
        name,
        help=sentence[0].lower() + sentence[1:].rstrip("."),
        description=sentence,
        epilog=f"example:\n  keras-bert {name} {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--json", action="store_true", help="print one line of JSON, for scripts")
    command.add_argument("--debug", action="store_true", help="show the traceback of an error")
    command.set_defaults(run=run)
    return command


def as_table(result: dict[str, Any]) -> str:
    """Format a result as lines of names and values.

    Example:
        >>> print(as_table({"tokens": 8000, "ids": [1, 2]}))
        tokens  8,000
        ids     1 2
    """
    width = max(map(len, result)) + 2
    return "\n".join(f"{name:<{width}}{_as_text(value)}" for name, value in result.items())


def _as_text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join("–".join(map(str, item)) if isinstance(item, list) else str(item) for item in value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
