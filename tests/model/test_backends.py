"""The model code is `keras.ops` alone: its tests pass on JAX too, where TensorFlow need not even be installed."""

import os
import subprocess
import sys

import pytest
from places import HELPERS, ROOT, TESTS

MODEL_TESTS = (
    "model/test_encoder.py",
    "model/test_dropout.py",
    "model/test_heads.py",
    "model/test_neighbour_heads.py",
    "model/test_serialization.py",
    "model/test_token_scores.py",
    "pretraining/test_model.py",
    "pretraining/test_shared_rows.py",
    "tasks/test_cached_decoder.py",
    "pretraining/test_sampled_softmax.py",
)


def run(command, backend):
    environment = {
        **os.environ,
        "KERAS_BACKEND": backend,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(HELPERS))),
    }
    environment.pop("PYTEST_XDIST_WORKER", None)
    return subprocess.run(command, env=environment, cwd=TESTS, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_model_tests_pass_on_jax():
    done = run([sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *MODEL_TESTS], "jax")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


@pytest.mark.slow
def test_encoder_runs_where_tensorflow_is_missing():
    code = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "import numpy as np, keras, keras_bert\n"
        "assert keras.backend.backend() == 'jax'\n"
        "encoder = keras_bert.bert_encoder(keras_bert.BertConfig.preset('tiny', vocabulary_size=20))\n"
        "ids = np.ones((2, 4), 'int32')\n"
        "outputs = encoder({'token_ids': ids, 'segment_ids': ids * 0, 'padding_mask': ids})\n"
        "print(outputs['pooled_output'].shape)\n"
    )
    done = run([sys.executable, "-c", code], "jax")
    assert done.stdout.strip() == "(2, 128)", done.stderr[-3000:]
