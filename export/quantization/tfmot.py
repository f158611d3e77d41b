"""Import tensorflow-model-optimization, which is an extra, without its side effects.

Importing tfmot sets `TF_USE_LEGACY_KERAS` for this process and its children, and warns about other packages; both are
undone here. Keras 3 must be imported first.
"""

import os
import warnings
from typing import Any

import keras  # noqa: F401  before tfmot, which makes TensorFlow load Keras 2

_SWITCH = "TF_USE_LEGACY_KERAS"


def load_tfmot() -> Any:
    """Import `tensorflow_model_optimization`, or raise an error that says how to install it.

    Example:
        >>> load_tfmot().quantization.keras.quantizers.LastValueQuantizer  # doctest: +SKIP
    """
    before = os.environ.get(_SWITCH)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import tensorflow_model_optimization
    except ImportError as error:
        raise ImportError(
            "Training for quantization and pruning need tensorflow-model-optimization: "
            "pip install 'keras-bert-edge[quantize]'"
        ) from error
    finally:
        if before is None:
            os.environ.pop(_SWITCH, None)
        else:
            os.environ[_SWITCH] = before
    return tensorflow_model_optimization
