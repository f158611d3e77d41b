"""Loads and saves checkpoints of Google (TF1), Hugging Face and keras-hub.

The table of weight names is in `names.py`; the other modules read and write by it.
"""

from keras_bert.checkpoint.files import CheckpointError
from keras_bert.checkpoint.loading import load_encoder, load_labels, load_model, load_tokenizer
from keras_bert.checkpoint.saving import save_pretrained

__all__ = ["CheckpointError", "load_encoder", "load_labels", "load_model", "load_tokenizer", "save_pretrained"]
