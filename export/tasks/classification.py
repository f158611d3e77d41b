"""Export classification: texts or pairs of texts, answered with labels and probabilities, or with numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from export.tasks.base.definition import CLASSIFY, REGRESS, ExportedTask, GuideInput, ServedTask
from export.tasks.base.labels import (
    label_columns,
    logits_of,
    probabilities_of,
    probability_tensors,
    share_of_same_labels,
    text_probabilities,
)
from export.tasks.base.reader import Reader, check_width, split_at_tab
from export.tasks.base.registry import register_export
from export.tasks.base.served_file import Columns, ServedFile
from export.tasks.base.settings import SHARE, Setting
from keras_bert.decoding import choose_labels, inverse_sigmoid, mean_by_owner, sigmoid, sort_labels
from keras_bert.text.tokenized_texts import TokenizedTexts

# === The device ===

# The output of the file, by the kind of task.
_OUTPUTS: dict[str | None, str] = {
    "single_label": "probabilities",
    "multi_label": "probabilities",
    "regression": "class_logits",
}


class LabelReader(Reader):
    """Reads texts or pairs of texts; answers with labels, or with numbers for regression."""

    @property
    def outputs(self) -> tuple[str, ...]:  # type: ignore[override]  # depends on the kind
        """The output that the file must have."""
        return (_OUTPUTS[self.kind],)

    def check(self) -> None:
        if self.kind not in _OUTPUTS or (self.labels is None) != (self.kind == "regression"):
            raise ValueError(
                f"The kind {self.kind!r} and {len(self.labels or ())} labels do not go together; export the file again."
            )

    @classmethod
    def from_line(cls, line: str) -> Any:
        return split_at_tab(line)

    def answers(  # type: ignore[override]  # the task's own options
        self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any], *, threshold: float = 0.5
    ) -> list[Any]:
        if self.kind == "regression":
            return [float(value) for value in mean_by_owner(outputs["class_logits"], data.owners)[:, 0]]
        labels, probabilities = self.labels or (), self.probabilities(outputs, data)
        if self.kind == "multi_label":
            return [choose_labels(row, labels, threshold=threshold) for row in probabilities]
        return [sort_labels(row, labels) for row in probabilities]

    def probabilities(self, outputs: dict[str, np.ndarray], data: Any) -> np.ndarray:
        """The probabilities of each text, `[texts, C]`, over all of its windows."""
        if self.kind != "multi_label":
            return text_probabilities(outputs["probabilities"], self.labels or (), data.owners)
        probabilities = np.asarray(outputs["probabilities"], np.float64)
        check_width("probabilities", probabilities, self.labels or ())
        return sigmoid(mean_by_owner(inverse_sigmoid(probabilities), data.owners))

    def agreement(self, answers: list[Any], others: list[Any]) -> float:
        if self.kind == "regression":
            return _correlation(np.array(answers), np.array(others))
        return share_of_same_labels(answers, others, count=1 if self.kind == "single_label" else None)

    @property
    def agreement_of(self) -> str:
        return "correlation" if self.kind == "regression" else super().agreement_of


def _correlation(ours: np.ndarray, theirs: np.ndarray) -> float:
    if np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        return float(np.allclose(ours, theirs))
    return float(np.corrcoef(ours, theirs)[0, 1])


# === The file ===


def class_tensors(task: Any) -> dict[str, Any]:
    """The outputs of a classifier's file: probabilities, or a number for regression."""
    if task.kind == "regression":
        return {"class_logits": task.model.output["class_logits"]}
    return probability_tensors(task, "class_logits", task.kind)


def class_probabilities(task: Any, outputs: dict[str, np.ndarray], tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
    """The outputs of a classifier's file in NumPy, from the outputs of its model."""
    if task.kind == "regression":
        return outputs
    return {"probabilities": probabilities_of(outputs["class_logits"], task.kind)}


def class_logits(task: Any, outputs: dict[str, np.ndarray], tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
    """The outputs of a classifier's model, from the outputs of its file."""
    if task.kind == "regression":
        return outputs
    return {"class_logits": logits_of(outputs["probabilities"], task.kind)}


# === Labels by a teacher ===


def _label_texts(teacher: Any, texts: list[Any]) -> tuple[list[Any], list[Any]]:
    answers = teacher.predict(texts)
    if teacher.kind == "regression":
        return texts, answers
    if teacher.kind == "multi_label":
        return texts, [tuple(label.name for label in labels) for labels in answers]
    return texts, [labels[0].name for labels in answers]


# === The servers ===


class ServedClasses(ServedFile):
    """Answers with labels and probabilities, or with numbers for regression."""

    @property
    def forms(self) -> tuple[str, ...]:
        """Texts, pairs, or both where the file does not say what the task was trained on."""
        pairs = self.reader.settings.get("pairs")
        return ("texts", "pairs") if pairs is None else ("pairs",) if pairs else ("texts",)

    @property
    def options(self) -> dict[str, Setting]:  # type: ignore[override]  # depends on the kind
        """The threshold, where several labels may hold at once."""
        return {"threshold": SHARE} if self.reader.kind == "multi_label" else {}

    @property
    def ranks(self) -> str:
        """`"regress"` for regression."""
        return "regress" if self.reader.kind == "regression" else "classify"

    def columns(self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]) -> Columns:
        cut = self.truncated(data, inputs)
        if self.reader.kind == "regression":
            return {"value": list(mean_by_owner(outputs["class_logits"], data.owners)[:, 0]), "truncated": cut}
        return {**label_columns(self.reader.probabilities(outputs, data), self.reader.labels), "truncated": cut}

    def ranked(self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]) -> list[Any]:
        if self.reader.kind == "regression":
            return self.columns(outputs, data, inputs)["value"]
        rows = self.reader.probabilities(outputs, data)
        return [[(one.name, one.probability) for one in sort_labels(row, self.reader.labels)] for row in rows]


def class_answers(task: Any, outputs: dict[str, Any]) -> dict[str, Any]:
    """The answers of a server for each text."""
    import tensorflow as tf

    logits = outputs["class_logits"]
    if task.kind == "regression":
        return {"value": logits[:, 0]}
    probabilities = tf.sigmoid(logits) if task.kind == "multi_label" else tf.nn.softmax(logits)
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return {
        "label": tf.gather(tf.constant(task.labels), best),
        "probability": tf.reduce_max(probabilities, axis=-1),
        "probabilities": probabilities,  # [B, C], in the order of the labels
    }


def class_ranking(task: Any) -> tuple[str, str, Callable[[dict[str, Any]], dict[str, Any]]]:
    """The signature for Classify requests, or for Regress requests where the task is regression."""
    import tensorflow as tf

    def rank(outputs: dict[str, Any]) -> dict[str, Any]:
        probabilities = class_answers(task, outputs)["probabilities"]
        scores, order = tf.math.top_k(probabilities, k=len(task.labels))
        return {"classes": tf.gather(tf.constant(task.labels), order), "scores": scores}

    if task.kind == "regression":
        return "regress", REGRESS, lambda outputs: {"outputs": class_answers(task, outputs)["value"]}
    return "classify", CLASSIFY, rank


# === Guides ===

_PAIR = GuideInput('[("A man sleeps.", "Nobody is awake.")]', '{"text": "A man sleeps.", "pair": "Nobody is awake."}')
_ANDROID = (
    "// examples/android of keras-bert-edge has a classifier in Kotlin with the original tokenizer:",
    'LiteRtClassifier(context).use { it.classify("Type anything here.").first() }',
)


def _guide(task: Any) -> GuideInput:
    return _PAIR if task.pairs else GuideInput()


register_export(
    ExportedTask(
        name="classification",
        reader=LabelReader,
        in_graph=class_tensors,
        from_task=class_probabilities,
        to_task=class_logits,
        class_output="class_logits",
        label_texts=_label_texts,
        served=ServedTask(class_answers, class_ranking, forms=("texts", "pairs")),
        served_file=ServedClasses,
        guide=_guide,
        android=_ANDROID,
        plain_rows=True,
    )
)
