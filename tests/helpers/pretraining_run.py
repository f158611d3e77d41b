"""A tiny pretraining run, for tests and, as `helpers/pretraining_run.py EXAMPLES OUTPUT`, for tests that kill it."""

import os
import random
import sys
from dataclasses import replace

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from keras_bert.model.config import BertConfig
from keras_bert.pretraining.corpus.manifest import load_manifest
from keras_bert.pretraining.corpus.writing import write_examples
from keras_bert.pretraining.plan import PretrainingPlan
from keras_bert.pretraining.run import pretrain
from keras_bert.text.tokenizer import BertTokenizer

WORDS = [f"w{number}" for number in range(40)]
TOKENIZER = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS])
CONFIG = BertConfig(
    vocabulary_size=TOKENIZER.vocabulary_size,
    num_layers=1,
    num_heads=2,
    hidden_dim=32,
    intermediate_dim=64,
    max_sequence_length=32,
)
PLAN = PretrainingPlan(
    steps=60,
    batch_size=16,
    learning_rate=3e-3,
    dropout=0.1,
    initial="neighbours",
    mask_rate=0.3,
    final_mask_rate=0.15,
    save_every=6,
    strategy="one",
)


def write_tiny_examples(directory, documents=150, seed=0, pairs="next_sentence"):
    """Documents that each walk through the words in order, so that a masked word follows from its neighbours."""
    chooser, lines = random.Random(seed), []
    for _ in range(documents):
        start = chooser.randrange(40)
        for sentence in range(8):
            lines.append(" ".join(WORDS[(start + 4 * sentence + word) % 40] for word in range(5)) + " .")
        lines.append("")
    corpus = directory.with_suffix(".txt")
    corpus.write_text("\n".join(lines))
    write_examples(corpus, directory, TOKENIZER, sequence_length=32, pairs=pairs, workers=1, progress=False)
    return directory


if __name__ == "__main__":
    plan = replace(PLAN, packed=load_manifest(sys.argv[1]).settings.layout == "packed")
    pretrain(sys.argv[1], sys.argv[2], CONFIG, TOKENIZER, plan, validation=sys.argv[3], verbose=0)
