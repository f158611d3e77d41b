"""Text to token ids and back: tokenizer, vocabulary, model inputs."""

from typing import Any

from keras_bert.system.lazy_names import find_name

_HOMES = {
    "pack": "packing",
    "BertTokenizer": "tokenizer",
    "learn_vocabulary": "vocabulary",
    "read_vocabulary": "vocabulary",
    "write_vocabulary": "vocabulary",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOMES, name)
