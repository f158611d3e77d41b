"""A tiny prefix language model with random weights, and a small task of writing that one like it can learn."""

import functools

import keras
import numpy as np

from keras_bert.model.config import BertConfig
from keras_bert.tasks.generation.prefix_model import prefix_model
from keras_bert.text.tokenizer import BertTokenizer

WORDS = ["a", "b", "c", "d", "e", "f"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##g", "."]
CONFIG = BertConfig(
    vocabulary_size=16,  # three rows more than the vocabulary has tokens
    num_layers=2,
    num_heads=2,
    hidden_dim=32,
    intermediate_dim=48,
    max_sequence_length=32,
    dropout=0.0,
    attention_dropout=0.0,
    initializer_range=0.1,
)


@functools.cache
def tokenizer() -> BertTokenizer:
    """The tokenizer of the tiny vocabulary."""
    return BertTokenizer(VOCABULARY)


@functools.cache
def random_writer(seed: int = 9, **changes) -> keras.Model:
    """A prefix language model whose every weight is random. Kept from test to test: read it, do not change it.

    With the default seed and one layer its texts differ from source to source, and end at different places.
    """
    model = prefix_model(CONFIG.replace(**changes))
    random = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(random.normal(0.0, 0.5, weight.shape))
    return model


def reversals(count: int, *, seed: int) -> list[tuple[str, str]]:
    """Words, and the same words from last to first."""
    random = np.random.default_rng(seed)
    texts = [list(random.choice(WORDS, random.integers(1, 5))) for _ in range(count)]
    return [(" ".join(words), " ".join(reversed(words))) for words in texts]


def source_batch() -> tuple[np.ndarray, np.ndarray]:
    """Three packed sources of different lengths, and their padding mask."""
    ids = np.array([[2, 5, 6, 7, 8, 9, 3], [2, 10, 3, 0, 0, 0, 0], [2, 9, 3, 5, 3, 0, 0]], "int32")
    return ids, (ids != 0).astype("int32")


@functools.cache
def recomputed_scores(model: keras.Model, source: tuple[int, ...], written: tuple[int, ...]) -> np.ndarray:
    """Scores of the next token `[V]`, by the whole model over the whole row: the oracle of every cache."""
    ids = np.array([[*source, *written]], "int32")
    segments = (np.arange(ids.shape[1]) >= len(source)).astype("int32")[None]
    outputs = model({"token_ids": ids, "segment_ids": segments, "padding_mask": np.ones_like(ids)})
    return keras.ops.convert_to_numpy(outputs["mlm_logits"])[0, -1]
