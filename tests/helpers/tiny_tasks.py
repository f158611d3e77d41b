"""A tiny pretrained directory and a small text problem that it can learn, for the tests of tasks."""

import functools
import tempfile
from pathlib import Path

import numpy as np

from keras_bert.checkpoint import save_pretrained
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder
from keras_bert.text.tokenizer import BertTokenizer

NEUTRAL, GOOD, BAD = ("a the film plot cast was is very and it", "good fine great", "bad dull poor")
WORDS = f"{NEUTRAL} {GOOD} {BAD}".split()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY),
    num_layers=1,
    num_heads=2,
    hidden_dim=32,
    intermediate_dim=64,
    max_sequence_length=32,
    # Its random numbers are an eighth of the ops of a training step; tests that need it say so.
    dropout=0.0,
    attention_dropout=0.0,
)


# One layer is enough for most tests, and is traced in half the time; this is for those that are about layers.
DEEP_CONFIG = CONFIG.replace(num_layers=2)


@functools.cache
def pretrained_directory(config: BertConfig = CONFIG) -> Path:
    """A model directory with random weights that are large enough to learn from quickly."""
    directory = Path(tempfile.mkdtemp(prefix="tiny-bert-")) / "model"
    encoder = bert_encoder(config.replace(initializer_range=0.1), seed=3)
    save_pretrained(encoder, directory, tokenizer=BertTokenizer(VOCABULARY))
    return directory


def reviews(count: int, *, seed: int) -> tuple[list[str], list[str]]:
    """Sentences of 3 to 12 words, and whether the last judging word in them is a good or a bad one."""
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        label = int(random.integers(2))
        words = list(random.choice(WORDS[:10], random.integers(2, 11)))
        words.insert(int(random.integers(len(words) + 1)), str(random.choice(WORDS[10:13] if label else WORDS[13:])))
        texts.append(" ".join(words))
        labels.append("good" if label else "bad")
    return texts, labels
