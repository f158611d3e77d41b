"""A request → what a function of ours answers to it in a fresh process, which has loaded nothing but what it needs.

Memory and cold starts cannot be measured beside a training framework. The process is started with care: what lies in
the working directory is not to be imported.
"""

import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
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


# === Tasks of the user's own ===


def registration(path: Path) -> dict | None:
    """Where the task of a file was registered, for a process that has to do it again; `None` for built-in tasks.

    Example:
        >>> registration(Path("model.tflite"))  # doctest: +SKIP
        {'module': 'tone', 'file': '/home/ada/tone.py', 'path': ['/home/ada']}
    """
    from export.file.metadata_reader import read_metadata
    from export.tasks.base.registry import registering_module

    name = registering_module(read_metadata(path).task)
    if name is None:
        return None
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        raise ValueError(
            f"{path} is for a task that {name} registered, which is no file that a fresh process could load; put the "
            "task into a module."
        )
    return {"module": name, "file": file, "path": [place for place in sys.path if place]}


def repeat_registration(found: dict | None) -> None:
    """Load the module that registers a task, as `registration` gave it.

    Like the processes of `multiprocessing`, a script loads under another name than `__main__`, so that it defines its
    tasks and does not run again.
    """
    if found is None:
        return
    sys.path += [place for place in found["path"] if place not in sys.path]
    name = "__mp_main__" if found["module"] == "__main__" else found["module"]
    spec = spec_from_file_location(name, found["file"])
    if spec is None or spec.loader is None:
        raise ImportError(f"{found['file']} cannot be loaded as a module; put the task into a Python file.")
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
