"""Finds the accelerator of a machine without a framework, so that a run that cannot use it does not go on unnoticed.

Looks at the variables of cloud machines and notebooks, and at device files; imports neither TensorFlow nor JAX.
"""

import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# What Cloud TPU machines and notebooks set.
_TPU_VARIABLES = ("TPU_ACCELERATOR_TYPE", "TPU_NAME", "COLAB_TPU_ADDR", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS")
_GOOGLE = "0x1ae0"  # the PCI vendor; `/dev/vfio` alone may be any device that is passed through


@dataclass(frozen=True)
class Accelerator:
    """An accelerator of this machine: its `kind`, `"TPU"` or `"GPU"`, and what shows it."""

    kind: str
    evidence: str


def find_accelerator(
    environment: Mapping[str, str] | None = None, root: str | os.PathLike[str] = "/"
) -> Accelerator | None:
    """Return the accelerator of this machine, a TPU before a GPU, or `None`.

    Args:
        environment: Environment variables; `None` is `os.environ`.
        root: The root of the file system.

    Example:
        >>> find_accelerator({"TPU_ACCELERATOR_TYPE": "v5e-8"}, root="/nowhere")
        Accelerator(kind='TPU', evidence='TPU_ACCELERATOR_TYPE=v5e-8')
    """
    environment, root = os.environ if environment is None else environment, Path(root)
    for name in _TPU_VARIABLES:
        if environment.get(name):
            return Accelerator("TPU", f"{name}={environment[name]}")
    if device := _tpu_device(root):
        return Accelerator("TPU", f"/{device.relative_to(root)}")
    if environment.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):  # hidden on purpose
        return None
    gpu = next(iter(sorted(_matching(root / "dev", r"nvidia\d+"))), None)
    return None if gpu is None else Accelerator("GPU", f"/{gpu.relative_to(root)}")


def _tpu_device(root: Path) -> Path | None:
    """Return a TPU's device file: `/dev/accel0` up to v4, `/dev/vfio/0` since v5."""
    accelerators = sorted(_matching(root / "dev", r"accel\d+"))
    if accelerators:
        return accelerators[0]
    groups = sorted(_matching(root / "dev/vfio", r"\d+"))
    vendors = (path.read_text().strip() for path in (root / "sys/bus/pci/devices").glob("*/vendor"))
    return groups[0] if groups and _GOOGLE in vendors else None


def _matching(directory: Path, pattern: str) -> list[Path]:
    return [path for path in directory.glob("*") if re.fullmatch(pattern, path.name)]


def unused_accelerator(backend: str, seen: str, accelerator: Accelerator | None) -> str | None:
    """Return a sentence that says what to do if the backend does not see the accelerator of the machine, else `None`.

    Args:
        backend: `"tensorflow"` or `"jax"`.
        seen: The kind of the devices that the backend sees: `"CPU"`, `"GPU"` or `"TPU"`.
        accelerator: From `find_accelerator`.

    Example:
        >>> unused_accelerator("jax", "TPU", Accelerator("TPU", "/dev/accel0")) is None
        True
    """
    if accelerator is None or seen != "CPU":
        return None
    here = f"This machine has a {accelerator.kind} ({accelerator.evidence}), but {_NAMES[backend]} sees only CPUs; "
    if accelerator.kind == "TPU" and backend == "tensorflow":
        return f"{here}set KERAS_BACKEND=jax before Python starts (and pip install 'jax[tpu]' where it is missing)."
    package = {
        "jax": f"'jax[{'tpu' if accelerator.kind == 'TPU' else 'cuda12'}]'",
        "tensorflow": "'tensorflow[and-cuda]'",
    }
    hidden = ", and leave JAX_PLATFORMS unset" if backend == "jax" else ""
    return f"{here}pip install {package[backend]}{hidden}."


_NAMES = {"jax": "JAX", "tensorflow": "TensorFlow"}


def choose_backend(environment: Mapping[str, str], accelerator: Accelerator | None) -> str | None:
    """Return the backend that a command should set, `"jax"` on a TPU where JAX and libtpu are installed, else `None`.

    Example:
        >>> choose_backend({"KERAS_BACKEND": "tensorflow"}, Accelerator("TPU", "/dev/accel0")) is None
        True
    """
    if environment.get("KERAS_BACKEND") or accelerator is None or accelerator.kind != "TPU":
        return None
    installed = all(importlib.util.find_spec(name) is not None for name in ("jax", "libtpu"))
    return "jax" if installed else None
