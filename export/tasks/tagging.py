"""Export tagging: texts or lists of words, answered with entities and their places."""

from typing import Any

import numpy as np

from export.tasks.base.definition import ExportedTask, ServedTask
from export.tasks.base.reader import Reader, check_width
from export.tasks.base.registry import register_export
from export.tasks.base.settings import SHARE, one_of
from export.tasks.base.words import (
    TAG_NOTES,
    TAG_SETTINGS,
    ServedTags,
    entity_labels,
    joined_words,
    locate_inputs,
    read_words,
    same_entities,
    served_tags,
    tag_scores,
)
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.decoding.entities import Entity
from keras_bert.tasks.tagging.rows import arrange_words, read_entities

# === The device ===


class EntityReader(Reader):
    """Reads texts or lists of words; answers with entities.

    The file gives logits, not tags. The reader finds the best sequence of tags, among legal ones only or by a CRF.
    """

    outputs = token_outputs = ("token_logits",)
    expected = {**TAG_SETTINGS, "head": one_of("softmax", "crf")}

    def check(self) -> None:
        self._scores = tag_scores(self.labels, self.settings)

    def prepare(self, inputs: list[Any]) -> PreparedData:
        sentences = [[word for word, _, _ in words] for _, words in self._locate(inputs)]
        long_texts = self.settings.get("long_texts") or "windows"
        return arrange_words(self.tokenizer, sentences, sequence_length=self.sequence_length, long_texts=long_texts)

    def answers(  # type: ignore[override]  # the task's own options
        self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any], *, threshold: float = 0.0
    ) -> list[list[Entity]]:
        logits = outputs["token_logits"]
        check_width("token_logits", logits, self.labels or ())
        located, words = self._locate(inputs), logits[data.places]
        return read_entities(located, data, words, self.labels or (), self._scores, threshold=threshold)

    def agreement(self, answers: list[Any], others: list[Any]) -> float:
        """The share of texts with the same entities."""
        return float(np.mean([same_entities(ours, theirs) for ours, theirs in zip(answers, others, strict=True)]))

    def _locate(self, inputs: list[Any]) -> list[tuple[str, list[tuple[str, int, int]]]]:
        return locate_inputs(inputs, self.settings["splitting"])


# === Labels by a teacher ===


def _label_texts(teacher: Any, texts: list[Any]) -> tuple[list[Any], list[Any]]:
    return texts, [entity_labels(text, found) for text, found in zip(texts, teacher.predict(texts), strict=True)]


# === The servers ===


class ServedEntities(ServedTags):
    """Answers with tags; the answers of `export.load` can have a threshold."""

    options = {"threshold": SHARE}


def _served_answers(task: Any, outputs: dict[str, Any]) -> dict[str, Any]:
    return served_tags(outputs, task.labels)


def _serve(graph: Any, text: Any) -> dict[str, Any]:
    tensors, starts, ends, truncated = graph.pack_with_places(text)
    answers = _served_answers(graph.task, graph.forward(tensors))
    return {**answers, "starts": starts, "ends": ends, "truncated": truncated}


register_export(
    ExportedTask(
        name="tagging",
        reader=EntityReader,
        read_examples=read_words,
        label_texts=_label_texts,
        served=ServedTask(_served_answers, serve=_serve, rows=joined_words, labelled="token_logits", notes=TAG_NOTES),
        served_file=ServedEntities,
    )
)
