"""tensorflow-model-optimization, imported late and quietly.

Takes nothing, gives the module. A room of its own because tfmot is an extra, and because importing it has side effects
that nobody else should feel: it asks every later TensorFlow of this process and of those that it starts for the old
Keras (`TF_USE_LEGACY_KERAS`), and it warns of Python's own packages. Keras 3 must be there first.
"""

import os
import warnings

import keras  # noqa: F401  before tfmot, which would have TensorFlow load the old one

_SWITCH = "TF_USE_LEGACY_KERAS"


def load_tfmot():
    """The module `tensorflow_model_optimization`; an error that says how to install it.

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
