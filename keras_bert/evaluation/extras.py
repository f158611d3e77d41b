"""The packages of the extra `evaluate`, imported when they are first needed.

Takes the name of a module, gives the module or an error with the pip line. A room of its own because reports, plots and
calibration share it, and training and prediction must work without any of these packages.
"""

import os
from importlib import import_module
from pathlib import Path
from types import ModuleType


def evaluation_module(name: str) -> ModuleType:
    """A module of scikit-learn, SciPy or Matplotlib.

    Args:
        name: Its full name, such as `"sklearn.metrics"`.

    Example:
        >>> evaluation_module("scipy.stats").__name__
        'scipy.stats'
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f'evaluation needs {name}: pip install "keras-bert-edge[evaluate]"') from error


def new_figure(width: float, height: float):
    """An empty Matplotlib figure in inches. It belongs to no window and no global state, so it works on any machine.

    Example:
        >>> new_figure(4, 3).get_size_inches().tolist()
        [4.0, 3.0]
    """
    evaluation_module("matplotlib.backends.backend_agg")
    return evaluation_module("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")


def save_figure(figure, path: str | os.PathLike, *, dpi: int = 150) -> Path:
    """Writes a figure as PNG, and makes its directory.

    Example:
        >>> save_figure(new_figure(4, 3), "pictures/empty.png")  # doctest: +SKIP
        PosixPath('pictures/empty.png')
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", dpi=dpi)
    return path
