"""The command `keras-bert`: what people do with texts, vocabularies and checkpoints, without writing Python.

Takes words, prints answers (`--json` for scripts). A room of its own because it alone speaks to a terminal. Each
command is a file beside this one, with `add(commands)`, which says what it takes, and `run(arguments)`, which gives a
dictionary to print; a new command is a new file and its name in `COMMANDS`. Other packages add theirs by entry points
of the group `keras_bert.commands`, as `export` does. Heavy imports wait until a command runs, so that `--help` is
quick. Exit codes: 0 done, 1 it could not be done (the reason is printed, `--debug` shows the traceback), 2 wrong usage,
130 interrupted.
"""

import argparse
import json
import os
import sys
from importlib import import_module
from importlib.metadata import entry_points

from keras_bert.cli.words import as_table

# In the order of `--help`.
COMMANDS = ("info", "tokenize", "convert", "vocabulary", "pretrain", "finetune", "predict", "evaluate")

DESCRIPTION = "BERT for TensorFlow and Keras 3: from raw text to a phone."


def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code.

    Example:
        ```python
        main(["tokenize", "all-MiniLM-L6-v2", "Hello, world!", "--json"])
        ```
    """
    arguments = _parser().parse_args(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        result = arguments.run(arguments)
    except KeyboardInterrupt as interrupt:
        print(f"keras-bert: {interrupt or 'interrupted'}", file=sys.stderr)
        return 130
    except Exception as error:
        if arguments.debug:
            raise
        print(f"keras-bert: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result, ensure_ascii=False) if arguments.json else as_table(result))
    return 0


def _parser():
    parser = argparse.ArgumentParser(
        "keras-bert", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"keras-bert-edge {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        import_module(f"keras_bert.cli.{name}").add(commands)
    for entry in sorted(entry_points(group="keras_bert.commands"), key=lambda entry: entry.name):
        entry.load().add(commands)
    examples = [command.epilog.split("\n", 1)[1] for command in commands.choices.values()]
    parser.epilog = "\n".join(["examples:", *examples])
    return parser


def _version():
    import keras_bert

    return keras_bert.__version__
