"""Texts with two marked entities → relations with probabilities: how a relation classifier reads."""

import numpy as np

from export.runtime.readers.labels import ranked_labels, share_of_same_labels
from export.runtime.readers.reader import Reader
from export.runtime.readers.settings import Setting, list_of
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.tasks.relation.files import marked_or_error
from keras_bert.tasks.relation.marked_text import is_marked_form
from keras_bert.tasks.relation.rows import SPECIAL_TOKENS, pack_marked


class RelationReader(Reader):
    """Texts with tags, `MarkedText`s or `(text, first, second)` → relations."""

    task = "relation"
    outputs = ("probabilities",)
    expected = {**Reader.expected, "markers": list_of(Setting(lambda value: isinstance(value, str), "a token"), 4)}
    sample = "<e1>a</e1> <e2>b</e2>"

    def _check(self):
        markers = self.settings["markers"]
        if len({self.tokenizer.token_to_id(marker) for marker in markers}) != 4:
            raise ValueError(f"markers={markers}; expected four different tokens.")
        if not self.labels or self.sequence_length < SPECIAL_TOKENS + 2:
            raise ValueError(
                f"{len(self.labels or ())} labels and rows of {self.sequence_length} tokens; expected some labels, and "
                f"at least {SPECIAL_TOKENS + 2} tokens."
            )

    def inputs(self, texts):
        return ([texts], True) if is_marked_form(texts) else (list(texts), False)

    def prepare(self, inputs):
        texts = [marked_or_error(text, number) for number, text in enumerate(inputs, 1)]
        rows, notes = pack_marked(self.tokenizer, texts, self.settings["markers"], sequence_length=self.sequence_length)
        return PreparedData(rows, None, None, np.arange(len(rows)), notes)

    def answers(self, outputs, data, inputs):
        return ranked_labels(outputs["probabilities"], self.labels, data.owners)

    def agreement(self, answers, others):
        return share_of_same_labels(answers, others)
