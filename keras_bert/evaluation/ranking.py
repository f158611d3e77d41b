"""Measures how often the right candidate is ranked first: retrieval and multiple choice."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from keras_bert.decoding.labels import softmax
from keras_bert.decoding.similarity import normalize_vectors
from keras_bert.evaluation.tables import noted


class _Report:
    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[call-overload]


# === Retrieval ===


@dataclass(frozen=True)
class RetrievalReport(_Report):
    """How well the matching text is found among all texts of the data."""

    count: int
    candidates: int
    accuracy_at_1: float
    mrr: float  # the mean of 1 / rank
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        top = f"accuracy@1 {self.accuracy_at_1:.4f} · MRR {self.mrr:.4f}"
        return "\n".join([f"{top} · {self.count:,} examples, {self.candidates:,} candidates", *noted(self.notes)])


def retrieval_report(vectors: np.ndarray, numbers: np.ndarray, *, part: int = 1024) -> RetrievalReport:
    """Measure the vectors of matching pairs or triplets.

    The candidates are all different texts of the data except the anchor. Every text that matches the anchor is right;
    the best of them counts.

    Args:
        vectors: `[n, G, H]`: the anchor, the matching text, and those that do not match.
        numbers: `[n, G]`: a number for each text, the same for equal texts.
        part: How many anchors are compared at a time.

    Example:
        >>> vectors = np.array([[[1.0, 0.0], [1.0, 0.1]], [[0.0, 1.0], [0.9, 1.0]]])
        >>> print(retrieval_report(vectors, np.array([[0, 1], [2, 3]])))
        accuracy@1 1.0000 · MRR 1.0000 · 2 examples, 2 candidates
    """
    numbers, unit = np.asarray(numbers), normalize_vectors(vectors)
    candidates, first = np.unique(numbers[:, 1:], return_index=True)
    targets = unit[:, 1:].reshape(-1, unit.shape[-1])[first]
    belongs: dict[int, set[int]] = {}
    for anchor, positive in zip(numbers[:, 0].tolist(), numbers[:, 1].tolist(), strict=True):
        belongs.setdefault(anchor, set()).add(positive)
    place = {number: index for index, number in enumerate(candidates.tolist())}
    ranks = np.zeros(len(numbers))
    for begin in range(0, len(numbers), part):
        cosines = unit[begin : begin + part, 0] @ targets.T
        for row, scores in enumerate(cosines, begin):
            anchor = int(numbers[row, 0])
            right = [place[number] for number in belongs[anchor]]
            best = scores[right].max()
            wrong = np.ones(len(scores), bool)
            wrong[right] = False
            if anchor in place:
                wrong[place[anchor]] = False
            # Equal scores count as better, so that a model with the same vector for all texts gets no credit.
            ranks[row] = 1 + np.sum(scores[wrong] >= best)
    return RetrievalReport(len(numbers), len(candidates), float(np.mean(ranks == 1)), float(np.mean(1 / ranks)))


# === Choices ===


@dataclass(frozen=True)
class ChoiceReport(_Report):
    """How often the right choice was chosen."""

    count: int
    accuracy: float
    chance: float  # the accuracy of guessing
    loss: float  # the mean of the negative log-probability of the right choice
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        top = f"accuracy {self.accuracy:.4f} · by chance {self.chance:.4f} · loss {self.loss:.4f}"
        return "\n".join([f"{top} · {self.count:,} examples", *noted(self.notes)])


def choice_report(scores: list[np.ndarray], labels: np.ndarray, *, notes: tuple[str, ...] = ()) -> ChoiceReport:
    """Measure the scores of choices.

    Args:
        scores: For each question, a score for each of its choices.
        labels: The index of the right choice.
        notes: Notes for the report.

    Example:
        >>> print(choice_report([np.array([0.0, 1.0]), np.array([2.0, 0.0])], np.array([1, 1])))
        accuracy 0.5000 · by chance 0.5000 · loss 1.2201 · 2 examples
    """
    right = [int(np.argmax(row)) == label for row, label in zip(scores, labels, strict=True)]
    chosen = [softmax(np.asarray(row, np.float64))[label] for row, label in zip(scores, labels, strict=True)]
    chance = float(np.mean([1 / len(row) for row in scores]))
    loss = float(-np.mean(np.log(np.maximum(chosen, 1e-30))))
    return ChoiceReport(len(scores), float(np.mean(right)), chance, loss, notes)
