"""Export intents and slots: commands to an assistant, answered with an intent and its slots."""

from typing import Any

import numpy as np

from export.tasks.base.definition import ExportedTask, ServedTask
from export.tasks.base.labels import (
    label_columns,
    logits_of,
    probabilities_of,
    probability_tensors,
    ranked_labels,
    text_probabilities,
)
from export.tasks.base.reader import Reader, check_width
from export.tasks.base.registry import register_export
from export.tasks.base.served_file import Columns
from export.tasks.base.settings import SHARE, Setting, list_of
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
from keras_bert.decoding.entities import Command
from keras_bert.tasks.tagging.rows import arrange_words, read_entities
from keras_bert.text.tokenized_texts import TokenizedTexts

# === The device ===


class CommandReader(Reader):
    """Reads texts or lists of words; answers with `Command`s."""

    outputs = ("probabilities", "token_logits")
    token_outputs = ("token_logits",)
    expected = {**TAG_SETTINGS, "tags": list_of(Setting(lambda value: isinstance(value, str), "a tag"))}

    def check(self) -> None:
        self._scores = tag_scores(self.settings["tags"], self.settings)
        if not self.labels:
            raise ValueError("There are no labels; expected the names of the intents.")

    def prepare(self, inputs: list[Any]) -> PreparedData:
        sentences = [[word for word, _, _ in words] for _, words in self._locate(inputs)]
        return arrange_words(self.tokenizer, sentences, sequence_length=self.sequence_length, long_texts="cut")

    def answers(  # type: ignore[override]  # the task's own options
        self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any], *, threshold: float = 0.0
    ) -> list[Command]:
        logits, tags = outputs["token_logits"], self.settings["tags"]
        check_width("token_logits", logits, tags)
        located, words = self._locate(inputs), logits[data.places]
        slots = read_entities(located, data, words, tags, self._scores, threshold=threshold)
        intents = ranked_labels(outputs["probabilities"], self.labels or (), data.owners)
        return [
            Command(ranked[0].name, ranked[0].probability, tuple(found))
            for ranked, found in zip(intents, slots, strict=True)
        ]

    def agreement(self, answers: list[Any], others: list[Any]) -> float:
        """The share of commands with the same intent and the same slots."""
        same = [
            ours.intent == theirs.intent and same_entities(ours.slots, theirs.slots)
            for ours, theirs in zip(answers, others, strict=True)
        ]
        return float(np.mean(same))

    def _locate(self, inputs: list[Any]) -> list[tuple[str, list[tuple[str, int, int]]]]:
        return locate_inputs(inputs, self.settings["splitting"])


# === The file ===


def _tensors(task: Any) -> dict[str, Any]:
    return {**probability_tensors(task, "class_logits"), "token_logits": task.model.output["token_logits"]}


def _from_task(task: Any, outputs: dict[str, np.ndarray], tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
    return {"probabilities": probabilities_of(outputs["class_logits"]), "token_logits": outputs["token_logits"]}


def _to_task(task: Any, outputs: dict[str, np.ndarray], tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
    return {"class_logits": logits_of(outputs["probabilities"]), "token_logits": outputs["token_logits"]}


# === Labels by a teacher ===


def _label_texts(teacher: Any, texts: list[Any]) -> tuple[list[Any], list[Any]]:
    answers = teacher.predict(texts)
    labels = [(answer.intent, entity_labels(text, answer.slots)) for text, answer in zip(texts, answers, strict=True)]
    return texts, labels


# === The servers ===


class ServedCommands(ServedTags):
    """Answers with an intent, and with the tag of every token."""

    options = {"threshold": SHARE}

    @property
    def tags(self) -> list[str]:
        """The tags of slots."""
        return self.reader.settings["tags"]

    def columns(self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]) -> Columns:
        probabilities = text_probabilities(outputs["probabilities"], self.reader.labels, data.owners)
        return {**label_columns(probabilities, self.reader.labels), **super().columns(outputs, data, inputs)}


def _served_answers(task: Any, outputs: dict[str, Any]) -> dict[str, Any]:
    import tensorflow as tf

    logits = outputs["class_logits"]
    probabilities = tf.nn.softmax(logits)
    return {
        "label": tf.gather(tf.constant(task.labels), tf.argmax(logits, axis=-1, output_type=tf.int32)),
        "probability": tf.reduce_max(probabilities, axis=-1),
        "probabilities": probabilities,
        **served_tags(outputs, task.settings()["tags"]),
    }


def _serve(graph: Any, text: Any) -> dict[str, Any]:
    tensors, starts, ends, truncated = graph.pack_with_places(text)
    answers = _served_answers(graph.task, graph.forward(tensors))
    return {**answers, "starts": starts, "ends": ends, "truncated": truncated}


register_export(
    ExportedTask(
        name="intent_slots",
        reader=CommandReader,
        in_graph=_tensors,
        from_task=_from_task,
        to_task=_to_task,
        class_output="class_logits",
        read_examples=read_words,
        label_texts=_label_texts,
        served=ServedTask(_served_answers, serve=_serve, rows=joined_words, notes=TAG_NOTES),
        served_file=ServedCommands,
    )
)
