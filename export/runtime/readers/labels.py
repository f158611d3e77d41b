"""Texts or pairs → labels with probabilities, or numbers: how a classifier reads, and one of aspects."""

from collections.abc import Sequence

import numpy as np

from export.runtime.readers.reader import Reader, check_width, cut_or_windows, split_at_tab, split_pairs
from keras_bert.decoding import Label, choose_labels, inverse_sigmoid, mean_by_owner, sigmoid, softmax, sort_labels
from keras_bert.decoding.labels import AspectPolarity
from keras_bert.text.tokenized_texts import tokenize_texts

# What the file of each kind gives.
_OUTPUTS = {"single_label": "probabilities", "multi_label": "probabilities", "regression": "class_logits"}


class LabelReader(Reader):
    """Texts or pairs of texts → labels."""

    task = "classification"

    @property
    def outputs(self):
        """What a file must give."""
        return (_OUTPUTS[self.kind],)

    def _check(self):
        if self.kind not in _OUTPUTS or (self.labels is None) != (self.kind == "regression"):
            raise ValueError(
                f"kind {self.kind!r} and {len(self.labels or ())} labels, which do not go together; export it again."
            )

    @classmethod
    def from_line(cls, line):
        return split_at_tab(line)

    def prepare(self, inputs):
        tokenized = tokenize_texts(self.tokenizer, *split_pairs(inputs))
        return cut_or_windows(tokenized, self.sequence_length, self.settings.get("long_texts"))

    def answers(self, outputs, data, inputs, *, threshold: float = 0.5):  # type: ignore[override]  # the task's own options
        if self.kind == "regression":
            return [float(value) for value in mean_by_owner(outputs["class_logits"], data.owners)[:, 0]]
        probabilities = np.asarray(outputs["probabilities"], np.float64)
        labels = self.labels or ()
        check_width("probabilities", probabilities, labels)
        if self.kind == "multi_label":
            probabilities = sigmoid(mean_by_owner(inverse_sigmoid(probabilities), data.owners))
            return [choose_labels(row, labels, threshold=threshold) for row in probabilities]
        return ranked_labels(probabilities, labels, data.owners)

    def agreement(self, answers, others):
        if self.kind == "regression":
            return _correlation(np.array(answers), np.array(others))
        return share_of_same_labels(answers, others, count=1 if self.kind == "single_label" else None)

    @property
    def agreement_of(self):
        return "correlation" if self.kind == "regression" else super().agreement_of


class AspectReader(LabelReader):
    """Pairs of a sentence and an aspect → polarities."""

    task = "aspect"
    pairs_alone = True
    sample = ("a", "a")

    def prepare(self, inputs):
        if split_pairs(inputs)[1] is None:
            raise TypeError(f"There is no aspect for {str(inputs[0])[:40]!r}; expected pairs (sentence, aspect).")
        return super().prepare(inputs)

    def answers(self, outputs, data, inputs):
        ranked = super().answers(outputs, data, inputs)
        return [
            AspectPolarity(aspect, labels[0].name, labels[0].probability)
            for (_, aspect), labels in zip(inputs, ranked, strict=True)
        ]

    def agreement(self, answers, others):
        return float(np.mean([ours.label == theirs.label for ours, theirs in zip(answers, others, strict=True)]))


# === What readers of labels share ===


def ranked_labels(probabilities: np.ndarray, labels: Sequence[str], owners: np.ndarray) -> list[list[Label]]:
    """All labels of each text, the likeliest first.

    The windows of a text share its answer by the mean of their logits, as in Keras. Softmax has lost a constant for
    each window, and the softmax of the mean loses it again.

    Example:
        >>> str(ranked_labels(np.array([[0.9, 0.1], [0.5, 0.5]]), ["no", "yes"], np.array([0, 0]))[0][0])
        'no (75%)'
    """
    probabilities = np.asarray(probabilities, np.float64)
    check_width("probabilities", probabilities, labels)
    logits = mean_by_owner(np.log(probabilities + np.finfo(np.float32).tiny), owners)
    return [sort_labels(row, labels) for row in softmax(logits)]


def share_of_same_labels(answers: list, others: list, *, count: int | None = 1) -> float:
    """The share of texts with the same best label; with `count=None`, with all labels the same."""
    names = [[{label.name for label in answer[:count]} for answer in part] for part in (answers, others)]
    return float(np.mean([ours == theirs for ours, theirs in zip(*names, strict=True)]))


def _correlation(ours, theirs):
    if np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        return float(np.allclose(ours, theirs))
    return float(np.corrcoef(ours, theirs)[0, 1])
