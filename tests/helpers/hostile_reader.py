"""Opens files that may be damaged, each in a process of its own, and says what came of it; for test_hostile_files.py.

Paths come on standard input, a line each; a line of JSON goes out for each: the words of the error, or `answer`, or
`crash`. It stands alone because forking is cheap and safe only where TensorFlow is not loaded.
"""

import json
import os
import sys

import ai_edge_litert.interpreter  # noqa: F401  loaded once, before the forks
import tokenizers  # noqa: F401

from export.runtime import load


def open_here(path):
    try:
        load(path)("a fine film")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "answer"


def open_apart(path):
    words, back = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(back, open_here(path).encode()[:4000])
        os._exit(0)
    os.close(back)
    with os.fdopen(words, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return said if status == 0 else f"crash: the process ended with {status}"


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(open_apart(line.rstrip("\n"))), flush=True)
