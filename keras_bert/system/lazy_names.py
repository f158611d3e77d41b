"""Public names of a package that are imported when they are first used, so that importing the package loads nothing."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def find_name(package: str, homes: Mapping[str, str], name: str) -> Any:
    """Give a public name of a package, for its `__getattr__` (PEP 562).

    Args:
        package: The package, `__name__` of its `__init__`.
        homes: The module of each public name, below the package.
        name: What is asked for.

    Example:
        ```python
        def __getattr__(name: str) -> Any:
            return find_name(__name__, _HOMES, name)
        ```
    """
    if name not in homes:
        raise AttributeError(f"Module {package!r} has no attribute {name!r}; it has: {', '.join(sorted(homes))}")
    return getattr(import_module(f"{package}.{homes[name]}"), name)
