"""`keras-bert vocabulary`: learn a `vocab.txt` from text files."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from keras_bert.cli.output import add_command


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    command = add_command(commands, "vocabulary", run, example="corpus/*.txt.gz --size 8000 --output vocab.txt")
    command.add_argument("files", nargs="+", help="text files, plain or .gz; globs work")
    command.add_argument("--size", type=int, default=30522, help="tokens to learn (default: %(default)s)")
    command.add_argument("--output", type=Path, default=Path("vocab.txt"), help="default: %(default)s")
    command.add_argument("--cased", action="store_true", help="keep upper case and accents")


def run(arguments: Namespace) -> dict[str, Any]:
    """Learn a vocabulary from text files."""
    from keras_bert.text.vocabulary import learn_vocabulary, write_vocabulary

    tokens = learn_vocabulary(
        arguments.files, arguments.size, lowercase=not arguments.cased, progress=not arguments.json
    )
    write_vocabulary(tokens, arguments.output)
    return {"output": str(arguments.output), "tokens": len(tokens)}
