"""The command line `keras-bert`.

Each command is a module in `cli/commands/` with two functions: `add(commands)` adds its arguments, and `run(arguments)`
gives a dictionary to print (an empty one if everything is printed already). A new command is a new module, with its
name in `COMMANDS` and in a group of `cli/help_page.py`. Other packages add commands by entry points of the group
`keras_bert.commands`, as `export` does. Tasks and their flags come from `tasks/base/registry.py`; `--import` before the
command imports a module that registers more.

Heavy imports wait until a command runs, so that `--help` is quick. Exit codes: 0 done, 1 failed (the reason is printed,
`--debug` shows the traceback), 2 wrong usage, 130 interrupted.
"""

import contextlib
import json
import os
import sys
import warnings
from argparse import ArgumentParser
from importlib import import_module
from importlib.metadata import entry_points
from typing import TextIO

from keras_bert.cli.help_page import FrontPage
from keras_bert.cli.imports import import_tasks, read_imports
from keras_bert.cli.output import as_table
from keras_bert.system.accelerators import choose_backend, find_accelerator
from keras_bert.system.quiet_tensorflow import quiet_tensorflow

COMMANDS = (
    "info",
    "tokenize",
    "visualize",
    "convert",
    "vocabulary",
    "pretrain",
    "finetune",
    "predict",
    "generate",
    "evaluate",
    "completion",
)

# Errors whose message is for the user. Others are printed with their type too: they may be bugs.
_PLAIN_ERRORS = (ValueError, TypeError, OSError, ImportError, RuntimeError)


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Example:
        ```python
        main(["tokenize", "all-MiniLM-L6-v2", "Hello, world!", "--json"])
        ```
    """
    words = sys.argv[1:] if argv is None else argv
    _use_tpu()
    debug = "--debug" in words
    try:
        with warnings.catch_warnings():
            if not debug:
                quiet_tensorflow()
                warnings.showwarning = _show_warning
            with contextlib.redirect_stdout(sys.stderr):
                for module_or_file in read_imports(words):
                    import_tasks(module_or_file)
                parser = make_parser()  # with the flags of all tasks that are known now
            if not words:
                parser.print_help(sys.stderr)
                return 2
            arguments = parser.parse_args(words)
            debug, arguments.words = arguments.debug, words
            # With --json, other output goes to stderr: stdout has only the line that a script reads.
            aside = contextlib.redirect_stdout(sys.stderr) if arguments.json else contextlib.nullcontext()
            with aside:
                result = arguments.run(arguments)
        if result:
            print(json.dumps(result, ensure_ascii=False) if arguments.json else as_table(result))
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        print(f"keras-bert: {interrupt or 'interrupted'}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _close_stdout()  # the reader of the pipe has closed it
        return 0
    except Exception as error:
        if debug:
            raise
        print(f"keras-bert: {_describe(error)}", file=sys.stderr)
        return 1
    return 0


def make_parser() -> FrontPage:
    """Make the parser with all commands, including those of other packages."""
    parser = FrontPage("keras-bert", add_help=True)
    parser.add_argument("--version", action="version", version=f"keras-bert-edge {_version()}")
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        metavar="MODULE_OR_FILE.py",
        help="a module or a file that registers your own tasks; may be given more than once",
    )
    parser.commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=ArgumentParser)
    for name in COMMANDS:
        import_module(f"keras_bert.cli.commands.{name}").add(parser.commands)
    for entry in sorted(entry_points(group="keras_bert.commands"), key=lambda entry: entry.name):
        entry.load().add(parser.commands)
    return parser


def _use_tpu() -> None:
    """Let Keras run on JAX where the machine has a TPU, unless a backend is chosen or loaded already."""
    accelerator = find_accelerator()
    if accelerator is None or "keras" in sys.modules or choose_backend(os.environ, accelerator) is None:
        return
    os.environ["KERAS_BACKEND"] = "jax"
    print(f"keras-bert: note: there is a TPU ({accelerator.evidence}), so Keras runs on JAX", file=sys.stderr)


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, _PLAIN_ERRORS) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error} (--debug shows where)"


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning without the line of code that it came from."""
    print(f"keras-bert: note: {message}", file=sys.stderr)


def _close_stdout() -> None:
    # Python flushes stdout once more at exit, which would fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version() -> str:
    import keras_bert

    return keras_bert.__version__
