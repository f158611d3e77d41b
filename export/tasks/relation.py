"""Export relations: texts with two marked entities, answered with relations and probabilities."""

from typing import Any

import numpy as np

from export.tasks.base.definition import ExportedTask, GuideInput, ServedTask
from export.tasks.base.examples import PROBES, Examples
from export.tasks.base.labels import (
    label_columns,
    logits_of,
    probabilities_of,
    probability_tensors,
    ranked_labels,
    share_of_same_labels,
    text_probabilities,
)
from export.tasks.base.reader import Reader
from export.tasks.base.registry import register_export
from export.tasks.base.served_file import Columns, ServedFile
from export.tasks.base.settings import Setting, list_of
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.decoding.labels import Label
from keras_bert.tasks.relation.files import as_relation_rows, marked_or_error
from keras_bert.tasks.relation.marked_text import is_marked_form
from keras_bert.tasks.relation.rows import SPECIAL_TOKENS, pack_marked
from keras_bert.text.tokenized_texts import TokenizedTexts

# === The device ===


class RelationReader(Reader):
    """Reads texts with tags, `MarkedText`s or `(text, first, second)`; answers with relations."""

    outputs = ("probabilities",)
    expected = {**Reader.expected, "markers": list_of(Setting(lambda value: isinstance(value, str), "a token"), 4)}
    sample = "<e1>a</e1> <e2>b</e2>"

    def check(self) -> None:
        markers = self.settings["markers"]
        if len({self.tokenizer.token_to_id(marker) for marker in markers}) != 4:
            raise ValueError(f"Got markers={markers}; expected four different tokens.")
        if not self.labels or self.sequence_length < SPECIAL_TOKENS + 2:
            raise ValueError(
                f"There are {len(self.labels or ())} labels and rows of {self.sequence_length} tokens; expected at "
                f"least one label and {SPECIAL_TOKENS + 2} tokens."
            )

    def inputs(self, texts: Any) -> tuple[list[Any], bool]:
        return ([texts], True) if is_marked_form(texts) else (list(texts), False)

    def prepare(self, inputs: list[Any]) -> PreparedData:
        texts = [marked_or_error(text, number) for number, text in enumerate(inputs, 1)]
        rows, notes = pack_marked(self.tokenizer, texts, self.settings["markers"], sequence_length=self.sequence_length)
        return PreparedData(rows, None, None, np.arange(len(rows)), notes)

    def answers(  # type: ignore[override]  # it has no options
        self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]
    ) -> list[list[Label]]:
        return ranked_labels(outputs["probabilities"], self.labels or (), data.owners)

    def agreement(self, answers: list[Any], others: list[Any]) -> float:
        return share_of_same_labels(answers, others)


# === The file ===


def _tensors(task: Any) -> dict[str, Any]:
    return probability_tensors(task, "relation_logits")


def _from_task(task: Any, outputs: dict[str, np.ndarray], tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
    return {"probabilities": probabilities_of(outputs["relation_logits"])}


def _to_task(task: Any, outputs: dict[str, np.ndarray], tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
    return {"relation_logits": logits_of(outputs["probabilities"])}


# === Data ===


def _read_examples(task: Any, x: Any, y: Any, **columns: Any) -> Examples:
    rows = as_relation_rows(_marked_probes() if x is None else x, y, **columns)
    return Examples(list(rows.texts), None if any(example.label is None for example in rows) else rows)


def _marked_probes() -> list[str]:
    """The built-in texts with their first and last word marked, where they have two."""
    parts = [text.split() for text in PROBES if " " in text]
    return [f"<e1>{first}</e1> {' '.join(others)} <e2>{last}</e2>" for first, *others, last in parts]


def _label_texts(teacher: Any, texts: list[Any]) -> tuple[list[Any], list[str]]:
    return texts, [labels[0].name for labels in teacher.predict(texts)]


# === The servers ===


class ServedRelations(ServedFile):
    """Answers texts with tags around two entities; TF Serving takes only ids of such rows."""

    def columns(self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]) -> Columns:
        probabilities = text_probabilities(outputs["probabilities"], self.reader.labels, data.owners)
        return label_columns(probabilities, self.reader.labels)


def _served_answers(task: Any, outputs: dict[str, Any]) -> dict[str, Any]:
    import tensorflow as tf

    probabilities = tf.nn.softmax(outputs["relation_logits"])
    best = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
    label = tf.gather(tf.constant(task.labels), best)
    return {"label": label, "probability": tf.reduce_max(probabilities, axis=-1), "probabilities": probabilities}


_NOTES = (
    "There is no signature for strings: rows need markers around two entities, which `pack_marked` of "
    "`keras_bert.tasks.relation.rows` adds.",
)
_GUIDE = GuideInput('"The <e1>child</e1> lay in the <e2>cradle</e2>."', None)

register_export(
    ExportedTask(
        name="relation",
        reader=RelationReader,
        in_graph=_tensors,
        from_task=_from_task,
        to_task=_to_task,
        class_output="relation_logits",
        read_examples=_read_examples,
        label_texts=_label_texts,
        served=ServedTask(_served_answers, forms=(), notes=_NOTES),
        served_file=ServedRelations,
        guide=lambda task: _GUIDE,
    )
)
