"""Imports the packages of the extra `evaluate` when they are needed; training and prediction work without them."""

import os
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


def evaluation_module(name: str) -> ModuleType:
    """Import a module of scikit-learn, SciPy or Matplotlib; raise an error with the pip command if it is missing.

    Args:
        name: The full name of the module, such as `"sklearn.metrics"`.

    Example:
        >>> evaluation_module("scipy.stats").__name__
        'scipy.stats'
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f'Evaluation needs {name}; install it: pip install "keras-bert-edge[evaluate]"') from error


def new_figure(width: float, height: float) -> Any:
    """Create an empty Matplotlib figure, with its size in inches; it needs no display.

    Example:
        >>> new_figure(4, 3).get_size_inches().tolist()
        [4.0, 3.0]
    """
    evaluation_module("matplotlib.backends.backend_agg")
    return evaluation_module("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: str | os.PathLike[str], *, dpi: int = 150) -> Path:
    """Write a figure as PNG; missing parent directories are created.

    Example:
        >>> save_figure(new_figure(4, 3), "pictures/empty.png")  # doctest: +SKIP
        PosixPath('pictures/empty.png')
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", dpi=dpi)
    return path
