"""Hides the messages that TensorFlow prints while it is imported.

TensorFlow 2.21 writes lines such as "oneDNN custom operations are on" before its log is set up, so
`TF_CPP_MIN_LOG_LEVEL` does not affect them, and its C++ code writes them past Python. During the import, standard
error is therefore a temporary file; other output is passed through afterwards. This changes the whole process, so it
happens only on request, as the command line does.
"""

import contextlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

# Notes and warnings of TensorFlow's C++ code, in the formats up to 2.20 and since.
_STARTUP_MESSAGE = re.compile(
    rb"WARNING: All log messages before absl|[IW]\d{4} \d\d:\d\d:|\d{4}-\d\d-\d\d .{15}: [IW] "
)


def quiet_tensorflow() -> bool:
    """Hide TensorFlow's messages at import; call it before anything imports TensorFlow.

    Errors during the import are still shown, and exceptions are raised as usual. Later messages follow
    `TF_CPP_MIN_LOG_LEVEL`, which is set to 3 (no messages) unless it already has a value.

    Returns:
        `False` if TensorFlow is already imported, so that there is nothing left to hide.

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
    """Finds TensorFlow by the usual finders and loads it without its messages, once."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_quietly(module: ModuleType) -> None:
            with _hidden_startup_messages():
                load(module)

        spec.loader.exec_module = load_quietly  # type: ignore[method-assign]  # on this one loader, for one import
        return spec


@contextlib.contextmanager
def _hidden_startup_messages() -> Iterator[None]:
    try:
        terminal = os.dup(2)
    except OSError:  # a process without standard error
        yield
        return
    with tempfile.TemporaryFile() as written:
        sys.stderr.flush()
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
            written.seek(0)
            others = [line for line in written if not _STARTUP_MESSAGE.match(line)]
            os.write(2, b"".join(others))
