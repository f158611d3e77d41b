"""Describe what `save_serving` wrote, as values that print as a small table."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

IMAGE = "tensorflow/serving:2.19.1"


@dataclass(frozen=True)
class ServedSignature:
    """A signature of a written SavedModel."""

    name: str
    method: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class ServingArtifact:
    """A written version; prints as a small table.

    Args:
        path: `<directory>/<version>`.
        name: The model's name in requests.
        version: The number of the version.
        signatures: Its signatures, with their inputs and outputs.
        num_bytes: The size of all files.
        warmup_requests: How many requests a server runs before it is ready.
        max_error: The largest difference from the Keras model's answers on the warm-up texts.
    """

    path: Path
    name: str
    version: int
    signatures: tuple[ServedSignature, ...]
    num_bytes: int
    warmup_requests: int
    max_error: float

    @property
    def docker_command(self) -> str:
        """The command that serves it on ports 8500 (gRPC) and 8501 (REST)."""
        return docker_command(self.name, shlex.quote(str(self.path.parent.resolve())))

    def __str__(self) -> str:
        facts = f"{self.num_bytes / 1e6:.1f} MB, {self.warmup_requests} warm-up requests"
        return f"{self.path}  {facts}, largest error {self.max_error:.1e}\n{signature_table(self.signatures)}"


def docker_command(name: str, source: str) -> str:
    """The command that serves a directory of versions on ports 8500 (gRPC) and 8501 (REST).

    Args:
        name: The model's name in requests.
        source: The directory, quoted for the shell.
    """
    return (
        f"docker run --rm -p 8500:8500 -p 8501:8501 -v {source}:/models/{name}:ro -e MODEL_NAME={name} {IMAGE} "
        f"--enable_batching --batching_parameters_file=/models/{name}/batching.config"
    )


def signature_table(signatures: Iterable[ServedSignature]) -> str:
    """One line for each signature, with its inputs and outputs."""
    signatures = tuple(signatures)
    width = max(len(signature.name) for signature in signatures)
    lines = []
    for signature in signatures:
        note = "" if signature.method == "predict" else f"  ({signature.method} requests)"
        arrow = f"{', '.join(signature.inputs)} → {', '.join(signature.outputs)}"
        lines.append(f"{signature.name:<{width}}  {arrow}{note}")
    return "\n".join(lines)
