"""The modules of benchmarks/ that read and show results, for tests: `load("render")`."""

import importlib
import sys
from types import ModuleType

from places import ROOT


def load(name: str) -> ModuleType:
    """A module of benchmarks/, which imports its neighbours as scripts there do."""
    place = str(ROOT / "benchmarks")
    if place not in sys.path:
        sys.path.append(place)  # at the end: what is installed comes first
    return importlib.import_module(name)
