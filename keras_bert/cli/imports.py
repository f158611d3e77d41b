"""Import a module or a Python file that registers tasks, for `keras-bert --import`.

Only `--import` before the command counts: the words after it may be texts from untrusted sources.
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path


def read_imports(words: Sequence[str]) -> list[str]:
    """Find the values of `--import` among the words before the command.

    Example:
        >>> read_imports(["--import", "a.py", "--import=b", "finetune", "--import", "c"])
        ['a.py', 'b']
    """
    left, named = list(words), []
    while left and left[0].startswith("-"):
        flag, has_value, value = left.pop(0).partition("=")
        if flag == "--import" and (has_value or left):
            named.append(value if has_value else left.pop(0))
    return named


def import_tasks(module_or_file: str) -> None:
    """Import a module or a Python file that registers tasks.

    As for a script, a file can import the modules in its directory.

    Args:
        module_or_file: The name of a module, such as `my_package.tasks`, or a path that ends in `.py`.

    Example:
        ```python
        import_tasks("my_task.py")
        ```
    """
    path = Path(module_or_file).expanduser()
    if path.suffix == ".py":
        _import_file(path)
        return
    try:
        import_module(module_or_file)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_or_file == error.name or module_or_file.startswith(f"{error.name}.")):
            raise
        raise ImportError(
            f"There is no module {module_or_file!r}; expected an installed module, or the path of a file that "
            "ends in .py."
        ) from None


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; expected a Python file that registers tasks.")
    path = path.resolve()
    name = path.stem
    if name in sys.modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file is None or Path(file).resolve() != path:
            raise ImportError(f"{path}: there is already another module {name!r}; give the file another name.")
        return
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported; expected a Python file that registers tasks.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # the registry finds the class by its module's name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
