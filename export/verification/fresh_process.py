"""A request → what a function of ours answers to it in a fresh process, which has loaded nothing but what it needs.

A room of its own because memory and cold starts cannot be measured beside a training framework, and because a process
must be started with care: what lies in the working directory is not to be imported.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

# Python puts the working directory first on the path, where a script called export.py or json.py would be taken for
# the module of that name.
_PROGRAM = "import sys; sys.path = [{home!r}, *filter(None, sys.path)]; from {module} import {name}; {name}()"


def ask_fresh_process(module: str, name: str, request: dict, about: str) -> Any:
    """Run a function that reads a request as JSON from standard input and prints its answer as JSON on the last line.

    Args:
        module, name: The function.
        request: What it is asked.
        about: What is measured, for the error where it fails.

    Example:
        >>> ask_fresh_process("export.verification.latency", "_measure_here", {"path": "model.tflite"}, "model.tflite")
        ... # doctest: +SKIP
    """
    home = str(Path(__file__).resolve().parents[2])
    program = _PROGRAM.format(home=home, module=module, name=name)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=False)
    if done.returncode:
        words = done.stderr.strip().splitlines() or [f"the process ended with {done.returncode}"]
        raise RuntimeError(f"{about} could not be measured: {words[-1]}")
    return json.loads(done.stdout.splitlines()[-1])
