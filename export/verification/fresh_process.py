"""Run a function in a fresh process, which loads only what it needs, and give its answer.

Memory and cold starts cannot be measured in a process that has loaded a training framework.
"""

import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

# The working directory is taken off the path: a script there called export.py or json.py would be imported instead of
# the module of that name.
_PROGRAM = "import sys; sys.path = [{home!r}, *filter(None, sys.path)]; from {module} import {name}; {name}()"


def ask_fresh_process(module: str, name: str, request: dict[str, Any], about: str) -> Any:
    """Run a function that reads a request as JSON from standard input and prints its answer as JSON on the last line.

    Args:
        module, name: The function.
        request: The request.
        about: The name of what is measured, for an error.

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


# === Tasks of the user ===


def registration(path: Path) -> dict[str, Any] | None:
    """Where the task of a file was registered, so that another process can repeat it; `None` for built-in tasks.

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
            f"{path} is for a task that {name} registered, which is not a file that a fresh process can load; put the "
            "task into a module."
        )
    return {"module": name, "file": file, "path": [place for place in sys.path if place]}


def repeat_registration(found: dict[str, Any] | None) -> None:
    """Load the module that registers a task, as `registration` gave it.

    A script is loaded under another name than `__main__`, as `multiprocessing` does, so that it defines its tasks
    without running again.
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
