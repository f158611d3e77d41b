"""BERT for TensorFlow and Keras 3, from raw text to a phone.

Names resolve when they are first used (PEP 562): importing the package loads neither TensorFlow nor Keras, so that the
device runtime can share its NumPy parts.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "BertConfig": "config",
    "BertTokenizer": "tokenizer",
    "HashDropout": "dropout",
    "bert_encoder": "encoder",
    "bert_model": "heads",
    "keep_freed_memory": "training.memory",
    "learn_vocabulary": "vocabulary",
    "load_assistant": "datasets",
    "load_encoder": "checkpoint",
    "load_model": "checkpoint",
    "pack": "packing",
    "save_pretrained": "checkpoint",
}
__all__ = [
    "BertConfig",
    "BertTokenizer",
    "HashDropout",
    "__version__",
    "bert_encoder",
    "bert_model",
    "keep_freed_memory",
    "learn_vocabulary",
    "load_assistant",
    "load_encoder",
    "load_model",
    "pack",
    "save_pretrained",
]

if TYPE_CHECKING:
    from keras_bert.checkpoint import load_encoder, load_model, save_pretrained
    from keras_bert.config import BertConfig
    from keras_bert.datasets import load_assistant
    from keras_bert.dropout import HashDropout
    from keras_bert.encoder import bert_encoder
    from keras_bert.heads import bert_model
    from keras_bert.packing import pack
    from keras_bert.tokenizer import BertTokenizer
    from keras_bert.training.memory import keep_freed_memory
    from keras_bert.vocabulary import learn_vocabulary


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'keras_bert' has no attribute {name!r}; it has: {', '.join(__all__)}")
    return getattr(import_module(f"keras_bert.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
