"""TensorFlow's greetings, left out: what it says while it is imported, on every machine and about nothing.

"oneDNN custom operations are on", "Could not find cuda drivers": TensorFlow 2.21 writes such lines before its log is
set up, so that `TF_CPP_MIN_LOG_LEVEL` does not reach them. They go straight to the terminal, past Python; so for as
long as the import runs, the terminal is a file, and what is no greeting is written out afterwards. A room of its own
because it concerns the whole process: it only ever happens when somebody asks for it, as the command line does.
"""

import contextlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterator

# Notes and warnings of TensorFlow's C++ code, in the form of its releases until 2.20 and in the one since.
_GREETING = re.compile(rb"WARNING: All log messages before absl|[IW]\d{4} \d\d:\d\d:|\d{4}-\d\d-\d\d .{15}: [IW] ")


def quiet_tensorflow() -> bool:
    """Let TensorFlow be imported without its greetings; call it before anything imports TensorFlow.

    What it reports as an error while it is imported is shown all the same, and Python's exceptions are as ever. Later
    messages obey `TF_CPP_MIN_LOG_LEVEL`, which is set to 3 (none) unless it has a value.

    Returns:
        Whether there is still something to leave out: not where TensorFlow was imported before.

    Example:
        ```python
        import keras_bert

        keras_bert.quiet_tensorflow()
        encoder, tokenizer = keras_bert.load_encoder("all-MiniLM-L6-v2")
        ```
    """
    if "tensorflow" in sys.modules:
        return False
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not any(isinstance(finder, _QuietFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _QuietFinder())
    return True


class _QuietFinder:
    """Finds TensorFlow as others do, and has it loaded in silence; once."""

    def find_spec(self, name, path=None, target=None):
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_quietly(module):
            with _greetings_left_out():
                load(module)

        spec.loader.exec_module = load_quietly
        return spec


@contextlib.contextmanager
def _greetings_left_out() -> Iterator[None]:
    try:
        terminal = os.dup(2)
    except OSError:  # a process without a terminal or a log
        yield
        return
    with tempfile.TemporaryFile() as said:
        sys.stderr.flush()
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
            said.seek(0)
            others = [line for line in said if not _GREETING.match(line)]
            os.write(2, b"".join(others))
