"""Imported by the process that the others are forked from: imports only, nothing that starts a thread of TensorFlow."""

import keras  # noqa: F401
import tensorflow as tf  # noqa: F401
import tensorflow_text  # noqa: F401
import tokenizers  # noqa: F401

import export  # noqa: F401
import keras_bert  # noqa: F401
