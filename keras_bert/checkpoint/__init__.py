"""Checkpoints in and out: Google TF1 ⇄ Hugging Face ⇄ keras-hub ⇄ our models.

Takes a directory (or a name on the hub) and gives a model with its tokenizer; takes a model and gives a
directory. A room of its own because it is where other people's names, files and mistakes come in. `names.py`
is the map; the rest reads and writes by it.
"""

from keras_bert.checkpoint.files import CheckpointError
from keras_bert.checkpoint.loading import load_encoder, load_labels, load_model, load_tokenizer
from keras_bert.checkpoint.saving import save_pretrained

__all__ = ["CheckpointError", "load_encoder", "load_labels", "load_model", "load_tokenizer", "save_pretrained"]
