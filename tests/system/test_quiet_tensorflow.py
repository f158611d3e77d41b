"""TensorFlow is imported without its start-up messages, and other output is passed through."""

import os
import subprocess
import sys

from keras_bert.system.quiet_tensorflow import quiet_tensorflow


def stderr_of(code, **environment):
    # What the caller's own environment hides would hide a fault, too.
    clean = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**clean, **environment})
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_import_says_nothing_and_a_device_neither():
    said = stderr_of(
        "import keras_bert\n"
        "print(keras_bert.quiet_tensorflow(), keras_bert.quiet_tensorflow())\n"
        "import tensorflow as tf\n"
        "assert int(tf.constant(3) + 4) == 7 and not keras_bert.quiet_tensorflow()"
    )
    assert said == ""


def write_fake(tmp_path, body):
    """A package that is called like TensorFlow and writes to the terminal as C++ does."""
    package = tmp_path / "tensorflow"
    package.mkdir()
    (package / "__init__.py").write_text(f"import os, sys\n{body}\n", encoding="utf-8")
    return {"PYTHONPATH": str(tmp_path)}


QUIET = "from keras_bert.system.quiet_tensorflow import quiet_tensorflow; quiet_tensorflow()\n"


def test_errors_warnings_of_python_and_other_words_stay(tmp_path):
    lines = [
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        "I0000 00:00:1794958065.636850   24983 port.cc:153] oneDNN custom operations are on.",
        "2025-09-17 14:44:05.157831: I external/local_xla/cudart_stub.cc:32] Could not find cuda drivers",
        "E0000 00:00:1794958073.895353   24983 cuda_platform.cc:52] failed",
        "a word of somebody else",
    ]
    body = f"os.write(2, {chr(10).join(lines).encode()!r} + b'\\n')\nsys.stderr.write('and Python\\n')\nvalue = 5"
    said = stderr_of(
        QUIET + "import tensorflow, sys; assert tensorflow.value == 5; sys.stderr.write('after\\n')",
        **write_fake(tmp_path, body),
    )
    assert said.splitlines() == [*lines[3:], "and Python", "after"]


def test_an_import_that_fails_gives_the_terminal_back(tmp_path):
    body = "os.write(2, b'I0000 00:00:17 a.cc:1] x\\nwhy\\n')\nraise ImportError('no libc')"
    said = stderr_of(
        QUIET
        + "import sys\ntry:\n    import tensorflow\nexcept ImportError as error:\n    sys.stderr.write(str(error))",
        **write_fake(tmp_path, body),
    )
    assert said == "why\nno libc"


def test_nothing_to_do_once_it_is_loaded():
    import tensorflow  # noqa: F401

    assert quiet_tensorflow() is False
