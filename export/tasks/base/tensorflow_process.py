"""Runs functions that need TensorFlow in a process of their own, if Keras runs on JAX in this one.

A function with the decorator `on_tensorflow` is called as usual. On JAX, its tasks and models are saved to a temporary
directory, and a child process opens them on TensorFlow, calls the function there, and sends back the result, what it
printed, its warnings and its error. Tasks of the result are opened here; a task that was trained gets its new weights.
"""

import functools
import inspect
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

# The working directory is taken off the path: a script there called export.py or json.py would be imported instead of
# the module of that name.
_PROGRAM = "import sys; sys.path = [{home!r}, *filter(None, sys.path)]; from {module} import run_request; run_request()"


def on_tensorflow(*, trains: str | None = None) -> Callable[[_Function], _Function]:
    """Return a decorator for a function that needs TensorFlow.

    Args:
        trains: The argument that is a task with new weights afterwards.
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if runs_here():
                return function(*args, **kwargs)
            given = inspect.signature(function).bind(*args, **kwargs).arguments
            options = given.pop(next((p.name for p in _parameters(function) if p.kind is p.VAR_KEYWORD), ""), {})
            return _call_in_child(function, {**given, **options}, trains)

        return call  # type: ignore[return-value]

    return decorate


def runs_here() -> bool:
    """Whether Keras runs on TensorFlow in this process."""
    import keras

    return keras.backend.backend() == "tensorflow"


def _parameters(function: Callable[..., Any]) -> Sequence[inspect.Parameter]:
    return tuple(inspect.signature(function).parameters.values())


# === In the process of the caller ===


@dataclass(frozen=True)
class _SavedTask:
    """The place of a task, or of a model, that an argument was."""

    directory: str
    is_task: bool


def _call_in_child(function: Callable[..., Any], given: dict[str, Any], trains: str | None) -> Any:
    from keras_bert.tasks.base.saved_tasks import load_task

    with tempfile.TemporaryDirectory(prefix="keras-bert-") as place:
        saver = _Saver(Path(place))
        arguments = {name: saver.replace(value) for name, value in given.items()}
        request = {
            "function": (function.__module__, function.__name__),
            "arguments": arguments,
            "trains": trains,
            "registrations": [_module_record(name) for name in sorted(saver.modules)],
        }
        _write_request(Path(place) / "request", request, given)
        _run_child(Path(place))
        with open(Path(place) / "answer", "rb") as file:
            answer = pickle.load(file)  # written by our own process, into a directory of this user alone
        for message, category in answer["warnings"]:
            warnings.warn(message, category, stacklevel=4)
        if answer["error"] is not None:
            raise answer["error"]
        if trains is not None:
            _take_over(load_task(Path(place) / "trained"), given[trains])
        return _map_parts(answer["result"], _SavedTask, lambda saved: load_task(saved.directory))


def _map_parts(value: Any, kind: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to a value of a kind, and to those in a tuple or list."""
    if type(value) in (tuple, list):
        return type(value)(_map_parts(part, kind, function) for part in value)
    return function(value) if isinstance(value, kind) else value


class _Saver:
    """Saves tasks and models among arguments, each once, and notes the modules of the user's own tasks."""

    def __init__(self, place: Path):
        self.place, self.modules = place, set[str]()
        self._saved: dict[int, _SavedTask] = {}

    def replace(self, value: Any) -> Any:
        """Return the value with places instead of tasks and models."""
        import keras

        from keras_bert.tasks.base.task import Task

        return _map_parts(value, Task | keras.Model, lambda model: self._place_of(model, isinstance(model, Task)))

    def _place_of(self, value: Any, is_task: bool) -> _SavedTask:
        if id(value) not in self._saved:
            self._saved[id(value)] = self._save(value, is_task)
        return self._saved[id(value)]

    def _save(self, value: Any, is_task: bool) -> _SavedTask:
        from export.tasks.base.registry import exported_tasks, registering_module
        from keras_bert.checkpoint import save_pretrained

        directory = str(self.place / f"model-{len(self._saved)}")
        if is_task:
            value.save(directory)
            module = registering_module(value.name) if value.name in exported_tasks() else None
            self.modules |= {module} if module else set()
        else:
            save_pretrained(value, directory)
        return _SavedTask(directory, is_task)


def _write_request(path: Path, request: dict[str, Any], given: dict[str, Any]) -> None:
    for name, value in given.items():
        try:
            pickle.dumps(request["arguments"][name])
        except Exception as error:
            raise TypeError(
                f"{name} is a {type(value).__name__}, which cannot be sent to the process that runs TensorFlow "
                f"({error}); pass lists or a file, or do this with KERAS_BACKEND=tensorflow."
            ) from None
    path.write_bytes(pickle.dumps(request))


def _run_child(place: Path) -> None:
    """Run the child process; what it prints is printed here, also in a notebook."""
    program = _PROGRAM.format(home=str(Path(__file__).resolve().parents[3]), module=__name__)
    # A TPU belongs to the parent, and so does most of a GPU's memory.
    hidden = {"KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(place)],
        env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, **hidden},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    said: list[str] = []
    streams = ((child.stdout, sys.stdout, None), (child.stderr, sys.stderr, said))
    relays = [threading.Thread(target=_relay, args=stream, daemon=True) for stream in streams]
    for relay in relays:
        relay.start()
    try:
        child.wait()
    finally:
        if child.poll() is None:  # Ctrl-C in this process
            child.terminate()
            child.wait()
    for relay in relays:
        relay.join()
    if child.returncode:
        words = "".join(said).strip().splitlines() or [f"it ended with {child.returncode}"]
        raise RuntimeError(f"The process that runs TensorFlow failed: {words[-1]}")


def _relay(source: BinaryIO, target: Any, noted: list[str] | None) -> None:
    with source:
        for piece in iter(lambda: source.read1(4096), b""):  # type: ignore[attr-defined]
            text = piece.decode("utf-8", "replace")
            if noted is not None:
                noted.append(text)
            target.write(text)
            target.flush()


def _take_over(trained: Any, task: Any) -> None:
    """Give a task the weights and settings of its copy that was trained."""
    from keras_bert.model.weights import copy_weights

    copy_weights(trained.model, task.model)
    kept = {name: getattr(task, name) for name in ("model", "tokenizer")}
    vars(task).update({**vars(trained), **kept})
    task.forget_graph()


# === Tasks of the user ===


def _module_record(name: str) -> dict[str, Any]:
    """Return where a module is, so that another process can load it: a task registers itself in it."""
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        raise ValueError(
            f"{name} registered a task, but is not a file that another process can load; put the task into a module."
        )
    return {"module": name, "file": file, "path": [place for place in sys.path if place]}


def _load_module(record: dict[str, Any]) -> None:
    sys.path += [place for place in record["path"] if place not in sys.path]
    # A script is loaded under another name than `__main__`, as `multiprocessing` does, so that it does not run again.
    name = "__mp_main__" if record["module"] == "__main__" else record["module"]
    spec = spec_from_file_location(name, record["file"])
    if spec is None or spec.loader is None:
        raise ImportError(f"{record['file']} cannot be loaded as a module; put the task into a Python file.")
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)


# === In the child process ===


def run_request() -> None:
    """Answer the request in the directory that is the program's argument, and write the answer there."""
    place = Path(sys.argv[1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result, error = None, None
        try:
            result = _answer(place)
        except KeyboardInterrupt:
            raise
        except Exception as raised:
            error = _sendable(raised)
    noted = [(str(warning.message), warning.category) for warning in caught if _is_for_users(warning)]
    answer = pickle.dumps({"result": result, "error": error, "warnings": noted})
    (place / "answer").write_bytes(answer)


def _answer(place: Path) -> Any:
    with open(place / "request", "rb") as file:
        request = pickle.load(file)
    for record in request["registrations"]:
        _load_module(record)
    opened = dict(_opened(request["arguments"]))
    module, name = request["function"]
    result = getattr(import_module(module), name)(**opened)
    if request["trains"] is not None:
        opened[request["trains"]].save(place / "trained")
    return _Saver(place / "results").replace(result)


def _opened(arguments: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    from keras_bert.checkpoint import load_model
    from keras_bert.tasks.base.saved_tasks import load_task

    opened: dict[str, Any] = {}

    def open_place(value: _SavedTask) -> Any:
        if value.directory not in opened:
            opened[value.directory] = load_task(value.directory) if value.is_task else load_model(value.directory)[0]
        return opened[value.directory]

    for name, value in arguments.items():
        yield name, _map_parts(value, _SavedTask, open_place)


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _is_for_users(warning: warnings.WarningMessage) -> bool:
    return issubclass(warning.category, UserWarning) and warning.category.__module__ == "builtins"
