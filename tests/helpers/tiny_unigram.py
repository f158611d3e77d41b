"""Unigram models for tests: those of the golden file, and one with the words of the tiny tasks."""

import base64
import json

from places import GOLDEN
from tiny_tasks import WORDS

from keras_bert.text.unigram_model import UnigramModel, with_special_tokens

UNIGRAM_GOLDEN = json.loads((GOLDEN / "unigram.json").read_text("ascii"))
GOLDEN_MODELS = [
    with_special_tokens(UnigramModel.from_bytes(base64.b64decode(row["model"]))) for row in UNIGRAM_GOLDEN["models"]
]
LETTERS = sorted(set("".join(WORDS)))
TINY_UNIGRAM = UnigramModel.from_pieces(
    [*((f"▁{word}", -3.0 - index / 64) for index, word in enumerate(WORDS)), ("▁", -6.0), *((c, -7.0) for c in LETTERS)]
)


def expected_ids(row):
    """SentencePiece's ids as XLM-R numbers them."""
    return [[3 if index == 0 else index + 1 for index in ids] for ids in row["ids"]]
