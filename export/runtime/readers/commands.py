"""Commands to an assistant → an intent and slots: how a model of both reads."""

import numpy as np

from export.runtime.readers.entities import TAG_SETTINGS, locate_inputs, same_entities, tag_scores
from export.runtime.readers.labels import ranked_labels
from export.runtime.readers.reader import Reader, check_width
from export.runtime.readers.settings import Setting, list_of
from keras_bert.decoding.entities import Command
from keras_bert.tasks.tagging.rows import arrange_words, read_entities


class CommandReader(Reader):
    """Texts, or lists of words, → `Command`s."""

    task = "intent_slots"
    outputs = ("probabilities", "token_logits")
    token_outputs = ("token_logits",)
    expected = {**TAG_SETTINGS, "tags": list_of(Setting(lambda value: isinstance(value, str), "a tag"))}

    def _check(self):
        self._scores = tag_scores(self.settings["tags"], self.settings)
        if not self.labels:
            raise ValueError("no labels; expected the names of its intents.")

    def prepare(self, inputs):
        sentences = [[word for word, _, _ in words] for _, words in self._locate(inputs)]
        return arrange_words(self.tokenizer, sentences, sequence_length=self.sequence_length, long_texts="cut")

    def answers(self, outputs, data, inputs, *, threshold: float = 0.0):  # type: ignore[override]  # the task's own options
        logits, tags = outputs["token_logits"], self.settings["tags"]
        check_width("token_logits", logits, tags)
        located, words = self._locate(inputs), logits[data.places]
        slots = read_entities(located, data, words, tags, self._scores, threshold=threshold)
        intents = ranked_labels(outputs["probabilities"], self.labels or (), data.owners)
        return [
            Command(ranked[0].name, ranked[0].probability, tuple(found))
            for ranked, found in zip(intents, slots, strict=True)
        ]

    def agreement(self, answers, others):
        """The share of commands with the same intent and the same slots."""
        same = [
            ours.intent == theirs.intent and same_entities(ours.slots, theirs.slots)
            for ours, theirs in zip(answers, others, strict=True)
        ]
        return float(np.mean(same))

    def _locate(self, inputs):
        return locate_inputs(inputs, self.settings["splitting"])
