"""Metadata, version ranges and extras. Everything else about tools stands in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "keras_bert/__init__.py").read_text(encoding="utf-8")).group(1)

# tensorflow-text is compiled against one minor version of TensorFlow: the two ranges must move together.
TENSORFLOW = ["tensorflow>=2.21,<2.22", "tensorflow-text>=2.21.1,<2.22"]

# Old Keras files are a way in for attackers, hence the newest Keras; for Python 3.10 that is the last of its 3.12 line.
KERAS = [
    "keras>=3.15,<4; python_version>='3.11'",
    "keras>=3.12.4,<3.13; python_version<'3.11'",
    "keras-hub>=0.32; python_version>='3.11'",
    "keras-hub>=0.25.1; python_version<'3.11'",
]

EXTRAS = {
    # Runs exported models; the only packages that export.runtime needs besides NumPy and tokenizers.
    "export": ["ai-edge-litert>=2.1"],
    # `keras-bert serve`: answers over HTTP with exported files. There is no uvloop on Windows.
    "serve": [
        "ai-edge-litert>=2.1",
        "uvicorn>=0.30",
        "starlette>=0.40",
        "httptools>=0.6.3",
        "orjson>=3.10",
        "prometheus_client>=0.20",
        "uvloop>=0.20; sys_platform != 'win32'",
    ],
    # The client of examples/serving; a SavedModel is written without it.
    "serving": ["tensorflow-serving-api>=2.21,<2.22"],
    # Reads corpora that are compressed with Zstandard.
    "zst": ["zstandard>=0.22"],
    # Measures models: reports, correlations, calibration, pictures.
    "evaluate": ["scikit-learn>=1.5", "scipy>=1.11", "matplotlib>=3.8", "seqeval>=1.2.2"],
    # Measures texts that a model wrote: BLEU and ROUGE.
    "generate": ["sacrebleu>=2.4", "rouge-score>=0.1.2"],
    # Learns Unigram vocabularies; reading and using them needs nothing more.
    "unigram": ["sentencepiece>=0.2"],
    # Draws the report of a pretraining, and views as PNG (keras_bert.visualize; HTML needs nothing).
    "plots": ["matplotlib>=3.8"],
    # Searches hyper-parameters (examples/tune_hyperparameters.py).
    "tune": ["keras-tuner>=1.4.8"],
    # Trains for quantization, and prunes. setuptools brings the distutils that newer Pythons lack.
    "quantize": ["tensorflow-model-optimization>=0.8", "tf-keras>=2.21,<2.22", "setuptools"],
    # Compile training steps for accelerators that are not there (`--compile-for`): TPUs, and NVIDIA GPUs.
    "aot": ["jax[tpu]>=0.10"],  # brings the libtpu whose programs this jaxlib can read
    "aot-gpu": [
        "jax-cuda12-plugin>=0.10",
        "jax-cuda12-pjrt>=0.10",
        "nvidia-cuda-nvcc-cu12>=12.8",
        "nvidia-cuda-runtime-cu12>=12.8",
        "nvidia-cuda-cupti-cu12>=12.8",
        "nvidia-nvjitlink-cu12>=12.8",
    ],
    # Makes pretraining examples on a cluster. It wants an older protobuf than the newest TensorFlow brings along.
    "beam": ["apache-beam>=2.60", "protobuf<7"],
    # Writes the script by which a shell completes `keras-bert`.
    "completion": ["shtab>=1.13"],
    # Builds the site of the guides (`make docs`); reads the code without running it.
    "docs": ["mkdocs>=1.6,<2", "mkdocs-material>=9.6", "mkdocstrings[python]>=0.29"],
    # What the tests run with. JAX is here because the model code must run on both backends; mediapipe, because Android
    # apps open our files with it. tensorflow-model-optimization asks for an older absl-py than mediapipe and runs with
    # the newer: the Makefile installs it without its dependencies, which are added below.
    "dev": ["pytest>=8", "pytest-xdist>=3.6", "ruff>=0.17,<0.18", "jax>=0.6", "pre-commit>=4", "mediapipe>=1.2"],
}
EXTRAS["dev"] += ["tf-keras>=2.21,<2.22", "dm-tree>=0.1.8", "six"]
EXTRAS["dev"] += EXTRAS["export"] + EXTRAS["evaluate"] + EXTRAS["tune"] + EXTRAS["serving"] + EXTRAS["docs"]
# Types, the release, and the notebooks, which the tests execute.
EXTRAS["dev"] += ["mypy>=2.4,<3", "build>=1.2", "setuptools>=68", "pyyaml>=6"]
EXTRAS["dev"] += ["nbclient>=0.10", "nbformat>=5", "ipykernel>=6", "hypothesis>=6.100"]
EXTRAS["dev"] += EXTRAS["unigram"] + EXTRAS["generate"] + EXTRAS["completion"] + EXTRAS["serve"] + ["httpx2>=2"]

setup(
    name="keras-bert-edge",
    version=VERSION,
    description="BERT for TensorFlow and Keras 3: from raw text to a phone",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10,<3.14",
    packages=find_packages(include=["keras_bert", "keras_bert.*", "export", "export.*"]),
    package_data={
        "keras_bert": [
            "py.typed",
            "text/*.json",
            "data/assistant/*.tsv",
            "checkpoint/weights/*/*",
            "checkpoint/weights/*/1_Pooling/*",
        ],
        "export": ["py.typed", "server/page/*"],
    },
    install_requires=[
        *TENSORFLOW,
        *KERAS,
        "flatbuffers>=24.3",
        "h5py>=3.11",
        "numpy>=1.26",
        "safetensors>=0.5",
        "tokenizers>=0.22",
        "huggingface_hub>=0.34",
        "tqdm>=4.66",
    ],
    extras_require=EXTRAS,
    entry_points={
        "console_scripts": ["keras-bert = keras_bert.cli:main"],
        "keras_bert.commands": [
            f"{name} = export.cli.{name}" for name in ("export", "benchmark", "verify", "deploy", "serve")
        ],
    },
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
