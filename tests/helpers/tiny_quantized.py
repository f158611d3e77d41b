"""A tiny classifier and tagger that 4 bits ruin, because a few weights are loud, and texts to measure that on."""

import numpy as np

from export.quantization.matrices import dense_layers
from keras_bert.model.config import BertConfig
from keras_bert.model.heads import bert_model
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.tasks.tagging.task import EntityTagger
from keras_bert.text.tokenizer import BertTokenizer

WORDS = [f"w{first}{second}" for first in "abcdefghij" for second in "klmnopqrst"]
# The table is large enough to be stored as integers, and dropout would teach the model another function than its own.
CONFIG = BertConfig(
    vocabulary_size=160,
    num_layers=1,
    num_heads=2,
    hidden_dim=32,
    intermediate_dim=48,
    max_sequence_length=16,
    initializer_range=0.25,
    dropout=0.0,
    attention_dropout=0.0,
)
READERS_OF_NORMS = ("attention/query", "attention/key", "attention/value", "intermediate")
TAGS = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]


def loud_model(head: str, num_classes: int, *, loud: float = 20.0, seed: int = 0):
    """Random weights; two channels are quiet, and the weights that read them as much louder."""
    model = bert_model(CONFIG, head, num_classes=num_classes, seed=seed)
    random = np.random.default_rng(seed)
    for weight in model.weights:
        if weight.path.endswith("gamma"):
            weight.assign(np.where(np.arange(CONFIG.hidden_dim) < 2, 1 / loud, 1.0))
        elif weight.path.endswith(("bias", "beta")):
            weight.assign(random.normal(0, 0.1, weight.shape))
    for name, layer in dense_layers(model).items():
        if name.endswith(READERS_OF_NORMS) or name == "pooler/dense":
            kernel = layer.kernel.numpy()
            kernel[:2] *= loud
            layer.kernel.assign(kernel)
    return model


def classifier(loud: float = 20.0) -> TextClassifier:
    """Its float answers are the truth."""
    model = loud_model("classification", 3, loud=loud)
    return TextClassifier(model, BertTokenizer(_vocabulary()), labels=["a", "b", "c"], sequence_length=16)


def tagger() -> EntityTagger:
    """The same for every word."""
    model = loud_model("token_classification", 5)
    return EntityTagger(model, BertTokenizer(_vocabulary()), labels=TAGS, sequence_length=16)


def texts(count: int, *, seed: int) -> list[str]:
    """Random words."""
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(4, 12))) for _ in range(count)]


def names(answers) -> list[str]:
    """The best label of each answer."""
    return [labels[0].name for labels in answers]


def agreement(answers, others) -> float:
    """The share of equal labels."""
    return float(np.mean([one == other for one, other in zip(names(answers), names(others), strict=True)]))


def _vocabulary():
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
