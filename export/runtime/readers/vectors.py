"""Texts → vectors: how an embedder reads."""

import numpy as np

from export.runtime.readers.reader import Reader, check_texts, cut_or_windows
from export.runtime.readers.settings import FLAG
from keras_bert.decoding.labels import mean_by_owner
from keras_bert.decoding.similarity import normalize_vectors
from keras_bert.text.tokenized_texts import tokenize_texts


class VectorReader(Reader):
    """Texts → one vector each, float32."""

    task = "similarity"
    outputs = ("embedding",)
    expected = {**Reader.expected, "normalize": FLAG}

    def prepare(self, inputs):
        check_texts(inputs)
        tokenized = tokenize_texts(self.tokenizer, inputs)
        return cut_or_windows(tokenized, self.sequence_length, self.settings.get("long_texts"))

    def answers(self, outputs, data, inputs):
        vectors = outputs["embedding"]
        pooled = mean_by_owner(vectors, data.owners)
        return list(normalize_vectors(pooled) if self.settings["normalize"] and len(pooled) < len(vectors) else pooled)

    def agreement(self, answers, others):
        """The mean of the cosines of both."""
        return float(np.mean(np.sum(normalize_vectors(answers) * normalize_vectors(others), axis=-1)))

    @property
    def agreement_of(self):
        return "mean cosine"
